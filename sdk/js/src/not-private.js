/**
 * Curators with the caller's randomness, for tests and shared vectors: who knows the words knows the reward. Nothing
 * else in this package imports this file.
 *
 * @import { Curator } from "./curators.js"
 * @import { Draw } from "./randomness.js"
 */

import { mechanismOf } from "./mechanisms.js";
import { transformed } from "./transforms.js";

/**
 * The response of this curator when `draw` gives the random words. Not private.
 *
 * @param {Curator} curator
 * @param {number} reward
 * @param {Draw} draw
 * @param {{ clip?: boolean }} [options]
 */
export function respondNotPrivate({ spec }, reward, draw, { clip = false } = {}) {
  return mechanismOf(spec)(transformed(spec.transform, reward, clip), draw);
}
