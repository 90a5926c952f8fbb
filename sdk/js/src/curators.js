/**
 * Curators: a reward goes in, a private response comes out, and nothing else leaves.
 *
 * @import { CuratorSpec } from "./spec.js"
 */

import { clipOf } from "./checks.js";
import { mechanismOf } from "./mechanisms.js";
import { systemWords } from "./randomness.js";
import { checkSpec } from "./spec.js";
import { transformed } from "./transforms.js";

export { LDPBanditsError, ParameterError, RewardError, SpecError } from "./errors.js";

/**
 * @typedef {object} Curator
 * @property {CuratorSpec} spec the curator as data
 * @property {(reward: number, options?: { clip?: boolean }) => number} respond one private response to this reward;
 *   each call spends epsilon anew. With `clip`, a reward out of range counts as the nearest one in range.
 */

/**
 * Make the curator that a spec asks for, or throw a SpecError.
 *
 * @param {unknown} spec
 * @returns {Curator}
 */
export function curatorFromSpec(spec) {
  const checked = checkSpec(spec);
  const privatise = mechanismOf(checked);
  return Object.freeze({
    spec: checked,
    respond: (reward, options = {}) =>
      privatise(transformed(checked.transform, reward, clipOf("respond", options, false)), systemWords),
  });
}
