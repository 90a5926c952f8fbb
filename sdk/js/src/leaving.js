/**
 * Who has pulls out is told when this page is left or hidden, or when this process has nothing else to do.
 *
 * @typedef {(patience?: number) => unknown} Leaver with how long it may take, in milliseconds
 */

/** How long a process waits for its last responses, in milliseconds. */
export const PATIENCE = 5000;

/** @type {Set<Leaver>} */
const leavers = new Set();
let isWatched = false;

const tellAll = (/** @type {number} */ patience = 0) => leavers.forEach((leave) => leave(patience));

/**
 * @param {Leaver} leave
 * @param {boolean} hasPulls
 */
export function tellWhenLeft(leave, hasPulls) {
  if (!hasPulls) {
    leavers.delete(leave);
    return;
  }
  leavers.add(leave);
  if (isWatched) return;
  isWatched = true;
  if (typeof document === "undefined") {
    globalThis.process?.on("beforeExit", () => tellAll(PATIENCE));
  } else {
    addEventListener("pagehide", () => tellAll());
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && tellAll());
  }
}
