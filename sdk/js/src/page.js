/**
 * Where a web page keeps its ledger: in IndexedDB, which all tabs of a site share and change in turn, also where there
 * is no HTTPS. localStorage would not do, not even under a lock of the browser's: tabs see each other's writes late,
 * and of what four count together a quarter is lost (benchmarks/tabs.mjs).
 *
 * A page that is being left cannot wait for IndexedDB. What it knows and others must learn is therefore also written to
 * localStorage, in a note for each pull, which is done when the call returns. One page writes a note, the one that
 * asked for the arm. Others read it, perhaps late, and so they act on it only a while after the last moment of writing.
 *
 * @import { Storage } from "./storage.js"
 *
 * @typedef {{ response: number, left?: number | undefined }} Note what the response is, and when its page was left
 *
 * @typedef {object} Notes
 * @property {(ticket: string) => Note | undefined} read
 * @property {(ticket: string, note: Note) => void} write
 * @property {(ticket: string) => void} remove
 */

import { LedgerError } from "./errors.js";
import { isNumber } from "./spec.js";

const NAME = "ldpbandits";
const noteOf = (/** @type {string} */ ticket) => `${NAME}/${ticket}`;

/** @type {Storage} */
export const pageStorage = {
  read: () => transact(),
  change: (edit) => transact(edit),
  notes: {
    read(ticket) {
      try {
        const note = JSON.parse(localStorage.getItem(noteOf(ticket)) ?? "");
        return isNumber(note.response) ? note : undefined;
      } catch {
        return undefined;
      }
    },
    write(ticket, note) {
      try {
        localStorage.setItem(noteOf(ticket), JSON.stringify(note));
      } catch (cause) {
        throw new LedgerError("the ledger cannot be written", { cause });
      }
    },
    remove: (ticket) => localStorage.removeItem(noteOf(ticket)),
  },
};

/**
 * Read the text that is stored and perhaps put another in its place, in one transaction.
 *
 * @param {(text: string | null) => string} [edit]
 * @returns {Promise<string | null>} what was stored, once what is stored now is on the disk
 */
function transact(edit) {
  return new Promise((resolve, reject) => {
    const forbidden = (/** @type {unknown} */ cause) =>
      reject(new LedgerError("a ledger cannot be kept: this page may not store anything", { cause }));
    let opening;
    try {
      void localStorage.length; // it may be forbidden, or there may be none
      opening = indexedDB.open(NAME);
    } catch (error) {
      return forbidden(error);
    }
    opening.onupgradeneeded = () => opening.result.createObjectStore(NAME);
    opening.onerror = () => forbidden(opening.error);
    opening.onsuccess = () => {
      const database = opening.result;
      try {
        const transaction = database.transaction(NAME, edit ? "readwrite" : "readonly", { durability: "strict" });
        const store = transaction.objectStore(NAME);
        const stored = store.get(NAME);
        /** @type {unknown} */
        let failure;
        stored.onsuccess = () => {
          const text = stored.result ?? null;
          try {
            const edited = edit ? edit(text) : text;
            if (edited !== text) store.put(edited, NAME);
          } catch (error) {
            failure = error;
            transaction.abort();
          }
        };
        transaction.oncomplete = () => resolve(stored.result ?? null);
        transaction.onabort = () => reject(failure ?? transaction.error);
      } catch (error) {
        reject(error);
      }
      database.close(); // when the transaction has ended: an open one would be in the way of who clears the page's data
    };
  });
}
