/**
 * Calls each client that has pulls out when this page is left, or when this process has nothing else to do; and all
 * clients of a site when somebody opts in or out, in any of its tabs.
 *
 * @typedef {(timeoutMs?: number) => unknown} Leaver with how long it may take, in milliseconds
 */

/** How long a process waits for its last responses, in milliseconds. */
export const LEAVE_TIMEOUT_MS = 5000;

/** @type {Set<Leaver>} */
const leavers = new Set();
let isWatching = false;
/** @type {BroadcastChannel | undefined} */
let channel;
/** An EventTarget of Node's would warn of more than ten. @type {Set<() => void>} */
const consents = new Set();

const tellAll = (/** @type {number} */ timeoutMs = 0) => leavers.forEach((leave) => leave(timeoutMs));

/** Listen from now on. Early: a browser may not know yet of what a page has only just asked to be told. */
export function watch() {
  if (isWatching) return;
  isWatching = true;
  if (typeof document === "undefined") {
    globalThis.process?.on?.("beforeExit", () => tellAll(LEAVE_TIMEOUT_MS));
    return;
  }
  addEventListener("pagehide", () => tellAll());
  if (typeof BroadcastChannel === "undefined") return;
  channel = new BroadcastChannel("ldpbandits");
  channel.onmessage = tellHere;
  /** @type {any} */ (channel).unref?.(); // in Node, which has none on its pages but in tests
}

/**
 * @param {Leaver} leave
 * @param {boolean} hasPulls
 */
export function tellWhenLeft(leave, hasPulls) {
  leavers[hasPulls ? "add" : "delete"](leave);
}

/**
 * @param {() => void} listener
 * @returns {() => void} which ends it
 */
export function onConsent(listener) {
  consents.add(listener);
  return () => void consents.delete(listener);
}

/** Call each listener; one that throws keeps nobody else from being told. */
const tellHere = () => consents.forEach(queueMicrotask);

/** Somebody has opted in or out. */
export function tellConsent() {
  channel?.postMessage("");
  tellHere();
}
