/**
 * Where a ledger is kept.
 *
 * @import { Note } from "./page.js"
 *
 * @typedef {object} Storage keeps one text
 * @property {() => Promise<string | null>} read null if there is none yet
 * @property {(edit: (text: string | null) => string) => Promise<unknown>} change puts what `edit` makes of the text in its
 *   place, as if nobody else did meanwhile: if another was first, `edit` is called again with what that one wrote. Done
 *   when it is stored. If `edit` throws, so does this, and nothing is written
 * @property {(note: Note) => Promise<unknown>} [note] of a web page: what the next `read` and `change` find in the ledger, on
 *   its way when this returns. It fails if there is one of this ticket and the page is not left
 */

import { pageStorage } from "./page.js";

/**
 * A storage that lasts as long as this process.
 *
 * @returns {Storage}
 */
export function memoryStorage() {
  return inMemory();
}

/**
 * @param {() => unknown} [atFirst] called when something is first stored
 * @returns {Storage}
 */
function inMemory(atFirst) {
  /** @type {string | null} */
  let kept = null;
  return {
    read: async () => kept,
    change: async (edit) => {
      const edited = edit(kept);
      if (!kept) atFirst?.();
      kept = edited;
    },
  };
}

const shared = inMemory(() => console.warn("ldpbandits: the ledger is in memory, and each start has a new budget, see fileStorage"));

/**
 * The storage of a web page, else one memory for all clients of this process: there is one ledger, not one a client.
 * It warns when it is first used; a caller that wants a memory names memoryStorage() and gets no warning.
 * A page that may not store anything gets an error, not a memory that would forget on reload what was spent.
 *
 * @returns {Storage}
 */
export function defaultStorage() {
  return typeof document === "undefined" ? shared : pageStorage;
}
