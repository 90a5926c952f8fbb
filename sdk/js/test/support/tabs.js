/** Pages of one site, without a browser: tabs that share a ledger and the notes on its pulls, as IndexedDB has them. */

import { memoryStorage } from "ldpbandits";

import { withNotes } from "../../src/page.js";

/** A site; each `tab()` is a storage of its own over the same ledger and the same notes. */
export function site() {
  const ledger = memoryStorage();
  const notes = new Map();
  const seen = (text) => withNotes(text, [...notes.values()]);
  return {
    ledger,
    notes,
    tab() {
      const storage = {
        read: async () => seen(await ledger.read()),
        change: async (edit) => {
          await ledger.change((text) => edit(seen(text)));
          const text = await ledger.read();
          for (const ticket of notes.keys()) if (!text.includes(ticket)) notes.delete(ticket);
        },
        async note(note) {
          if (note.left === undefined && notes.has(note.ticket)) throw Object.assign(new Error("taken"), { name: "ConstraintError" });
          notes.set(note.ticket, note);
        },
      };
      return { storage };
    },
  };
}
