/**
 * Curators with the caller's randomness, for tests and shared vectors. They are not private: the words reveal the reward.
 * Nothing else in this package imports this file.
 *
 * @import { Curator } from "./curators.js"
 * @import { Draw } from "./randomness.js"
 */

import { clipOf } from "./checks.js";
import { ParameterError } from "./errors.js";
import { mechanismOf } from "./mechanisms.js";
import { checkSpec } from "./spec.js";
import { transformed } from "./transforms.js";

/**
 * The response of this curator when `draw` gives the random words. Not private.
 *
 * @param {Curator} curator
 * @param {number} reward
 * @param {Draw} draw
 * @param {{ clip?: boolean }} [options]
 */
export function respondNotPrivate(curator, reward, draw, options = {}) {
  const clip = clipOf("respondNotPrivate", options, false);
  if (!curator?.spec?.transform) throw new ParameterError("curator must be one that curatorFromSpec has made");
  const spec = checkSpec(curator.spec);
  if (typeof draw !== "function") throw new ParameterError("draw must be a function that gives random words");
  return mechanismOf(spec)(transformed(spec.transform, reward, clip), (count) => {
    const words = draw(count);
    for (let i = 0; i < count; i++) {
      if (typeof words?.[i] !== "bigint") throw new ParameterError("draw must give as many BigInts as it is asked for");
    }
    return words;
  });
}
