/**
 * Whoever has pulls out is told when this page is left or hidden, or when this process has nothing else to do.
 *
 * @typedef {(patience?: number) => unknown} Leaver with how long it may take, in milliseconds
 */

/** How long a process waits for its last responses, in milliseconds. */
export const PATIENCE = 5000;

/** @type {Set<Leaver>} */
const leavers = new Set();
let isWatching = false;

const tellAll = (/** @type {number} */ patience = 0) => leavers.forEach((leave) => leave(patience));

/** Listen from now on. Early: a browser may not know yet of what a page has only just asked to be told. */
export function watch() {
  if (isWatching) return;
  isWatching = true;
  if (typeof document === "undefined") {
    globalThis.process?.on?.("beforeExit", () => tellAll(PATIENCE));
  } else {
    addEventListener("pagehide", () => tellAll());
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && tellAll());
  }
}

/**
 * @param {Leaver} leave
 * @param {boolean} hasPulls
 */
export function tellWhenLeft(leave, hasPulls) {
  leavers[hasPulls ? "add" : "delete"](leave);
}
