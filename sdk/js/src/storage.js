/**
 * Where a ledger is kept, and how two of its users keep out of each other's way.
 *
 * @typedef {object} Storage the shape of localStorage; each method may also return a promise
 * @property {(key: string) => string | null | Promise<string | null>} getItem
 * @property {(key: string, value: string) => unknown} setItem must throw if it could not store
 * @property {(key: string) => unknown} removeItem
 * @property {<T>(task: () => Promise<T>) => Promise<T>} [lock] runs a task while no other user of this storage runs one
 */

import { LedgerError } from "./errors.js";

/**
 * A storage that lasts as long as this process.
 *
 * @returns {Storage}
 */
export function memoryStorage() {
  /** @type {Map<string, string>} */
  const items = new Map();
  return {
    getItem: (key) => items.get(key) ?? null,
    setItem: (key, value) => items.set(key, value),
    removeItem: (key) => items.delete(key),
  };
}

const shared = memoryStorage();

/**
 * localStorage on a web page, else one memory for all clients of this process: there is one ledger, not one a client.
 * A page whose localStorage is forbidden gets its error, not a memory that would forget on reload what was spent.
 *
 * @returns {Storage}
 */
export function defaultStorage() {
  return typeof document === "undefined" ? shared : localStorage;
}

/** @type {WeakMap<Storage, Promise<unknown>>} */
const queues = new WeakMap();

/**
 * Run a task while no other task runs on this storage: in turn within this page or process, and against others by the
 * storage's own lock, or else by the browser's. Browsers offer that to pages from HTTPS and from localhost only; on
 * another page two tabs could spend the same budget, so there nothing is done at all.
 *
 * @template T
 * @param {Storage} storage
 * @param {() => Promise<T>} task
 * @returns {Promise<T>}
 */
export function exclusively(storage, task) {
  const locks = globalThis.navigator?.locks;
  if (!storage.lock && !locks && typeof document !== "undefined") {
    return Promise.reject(new LedgerError("a ledger needs the browser's locks: serve the page over HTTPS"));
  }
  const turn = (queues.get(storage) ?? Promise.resolve()).then(() =>
    storage.lock ? storage.lock(task) : locks ? locks.request("ldpbandits", task) : task(),
  );
  queues.set(storage, turn.catch(() => {}));
  return turn;
}
