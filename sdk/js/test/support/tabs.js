/** Pages of one site, without a browser: tabs that share a ledger, and see each other's notes as late as they are told to. */

import { memoryStorage } from "ldpbandits";

/** A site; each `tab()` is a storage of its own over the same ledger and the same notes. */
export function site() {
  const ledger = memoryStorage();
  const notes = new Map();
  return {
    ledger,
    notes,
    /** With `late`, the tab sees other tabs' notes as they were when it was last told to look. */
    tab({ late = false } = {}) {
      const seen = new Map(notes);
      const views = late ? [seen, notes] : [notes];
      const storage = {
        ...ledger,
        notes: {
          read: (ticket) => views[0].get(ticket),
          write: (ticket, note) => views.forEach((view) => view.set(ticket, { ...note })),
          remove: (ticket) => views.forEach((view) => view.delete(ticket)),
        },
      };
      return { storage, look: () => notes.forEach((note, ticket) => seen.set(ticket, note)) };
    },
  };
}
