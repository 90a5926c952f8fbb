/**
 * The storage of a web page's ledger: IndexedDB, which all tabs and the service worker of a site share and change in
 * turn, also where there is no HTTPS. localStorage would not do, not even under a lock of the browser's: tabs see each
 * other's writes late, and four tabs that count together lose a quarter (benchmarks/tabs.mjs).
 *
 * A page that is being left cannot wait for a ledger that is first read and then written. It therefore adds a note about
 * a pull, which the next reader of the ledger finds in it. A pull has one note, so that it has one reward.
 *
 * @import { State } from "./ledger.js"
 * @import { Storage } from "./storage.js"
 *
 * @typedef {object} Note
 * @property {string} ticket
 * @property {number} response to the reward that was observed, or of the page that is being left
 * @property {number} [left] when its page was left, and has sent it
 */

import { LedgerError } from "./errors.js";
import { noteLeft } from "./limits.js";
import { DEADLINE } from "./wire.js";

const NAME = "ldpbandits";
const keyOf = (/** @type {string} */ ticket) => `${NAME}/${ticket}`;

/** @type {Storage} */
export const pageStorage = {
  read: () => transact(),
  change: (edit) => transact(edit),
  note: (note) => (connection ? add(connection, note) : open(true).then((database) => add(/** @type {IDBDatabase} */ (database), note))),
};

/** An open connection, so that a note is on its way when its call returns. @type {IDBDatabase | undefined} */
let connection;

/**
 * @param {boolean} create whether to make the database where there is none: a page that only looks leaves no trace
 * @returns {Promise<IDBDatabase | undefined>}
 */
function open(create) {
  return new Promise((resolve, reject) => {
    if (connection) return resolve(connection);
    const forbidden = (/** @type {unknown} */ cause) =>
      reject(new LedgerError("a ledger cannot be kept: this page may not store anything", { cause }));
    let opening;
    try {
      opening = indexedDB.open(NAME);
    } catch (error) {
      return forbidden(error);
    }
    let isMissing = false;
    opening.onupgradeneeded = () => {
      if (create) return void opening.result.createObjectStore(NAME);
      isMissing = true;
      opening.transaction?.abort();
    };
    opening.onerror = () => (isMissing ? resolve(undefined) : forbidden(opening.error));
    opening.onsuccess = () => {
      connection = opening.result;
      connection.onclose = () => (connection = undefined);
      connection.onversionchange = () => {
        connection?.close(); // it would be in the way of a visitor who clears the page's data
        connection = undefined;
      };
      resolve(connection);
    };
  });
}

/**
 * Read the text that is stored and perhaps put another in its place, in one transaction.
 *
 * @param {(text: string | null) => string} [edit]
 * @returns {Promise<string | null>} what was stored, once what is stored now is on the disk
 */
async function transact(edit) {
  const database = await open(Boolean(edit));
  if (!database) return null;
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(NAME, edit ? "readwrite" : "readonly", { durability: "strict" });
    const store = transaction.objectStore(NAME);
    const stored = store.get(NAME);
    /** @type {IDBRequest<Note[]>} */
    const notes = store.getAll(IDBKeyRange.bound(keyOf(""), `${NAME}0`));
    /** @type {string | null} */ let text;
    /** @type {unknown} */ let failure;
    notes.onsuccess = () => {
      try {
        text = withNotes(stored.result ?? null, notes.result);
        const edited = edit ? edit(text) : text;
        const gone = notes.result.filter(({ ticket }) => !edited?.includes(JSON.stringify(ticket)));
        // A note may come after somebody has forgotten its pull, and then nobody edits the ledger any more.
        if (!edit) return void (edited && gone.length && transact((text) => text ?? "").catch(() => {}));
        if (edited !== stored.result) store.put(edited, NAME);
        for (const { ticket } of gone) store.delete(keyOf(ticket));
      } catch (error) {
        failure = error;
        transaction.abort();
      }
    };
    transaction.oncomplete = () => resolve(text);
    transaction.onabort = () => reject(failure ?? transaction.error);
  });
}

/**
 * @param {IDBDatabase} database
 * @param {Note} note
 * @returns {Promise<unknown>} done when it is stored; a second reward for a pull is not
 */
function add(database, note) {
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(NAME, "readwrite");
    transaction.objectStore(NAME)[note.left === undefined ? "add" : "put"](note, keyOf(note.ticket));
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error);
    transaction.commit(); // also if the page is gone before it is told
  });
}

/**
 * A ledger with what pages have noted. One of the version before is closed: a note elsewhere may say what was sent.
 *
 * @param {string | null} text
 * @param {Note[]} notes
 */
export function withNotes(text, notes) {
  try {
    /** @type {State} */
    const state = JSON.parse(text ?? "");
    if (state.version === 2) for (const pull of state.pulls) pull.end = Math.min(pull.end, pull.due);
    for (const { ticket, response, left } of notes) {
      const pull = state.pulls.find((pull) => pull.ticket === ticket && pull.left === undefined);
      if (!pull || (pull.observed && left === undefined)) continue;
      Object.assign(pull, { response, observed: true });
      if (left === undefined) continue;
      noteLeft(state, pull, left);
      pull.lease = left + DEADLINE;
    }
    return JSON.stringify({ ...state, version: state.version === 2 ? 3 : state.version });
  } catch {
    return text; // its reader says what is wrong
  }
}
