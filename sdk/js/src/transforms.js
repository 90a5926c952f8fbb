/**
 * From a user's reward to what a mechanism takes: a number in [0, 1], or any number for the real line. Every check of
 * a reward is here, and no message shows one.
 *
 * @import { Transform } from "./spec.js"
 */

import { RewardError } from "./errors.js";

/**
 * Check a reward and apply the transform. With `clip`, a reward out of range counts as the nearest one in range.
 *
 * @param {Transform} transform
 * @param {unknown} reward
 * @param {boolean} [clip]
 * @returns {number}
 */
export function transformed(transform, reward, clip) {
  if (typeof reward !== "number" || Number.isNaN(reward)) {
    throw new RewardError("a reward must be a number, and not NaN");
  }
  if (transform.kind === "range") {
    const { low, high } = transform;
    const nearest = Math.min(Math.max(reward, low), high);
    if (nearest !== reward && !clip) {
      throw new RewardError(`a reward must lie in the declared range [${low}, ${high}]`);
    }
    return (nearest - low) / (high - low);
  }
  if (transform.kind === "real-line" && clip) {
    throw new RewardError("rewards on the real line have no range to clip to: declare a range");
  }
  if (!Number.isFinite(reward) && !clip) {
    throw new RewardError("a reward must be finite");
  }
  switch (transform.kind) {
    case "sigmoid":
      return sigmoid(reward);
    case "threshold":
      return reward > transform.theta ? 1 : 0;
    case "real-line":
      return reward;
  }
}

/**
 * 1 / (1 + e^-x), without overflow.
 *
 * @param {number} x
 */
function sigmoid(x) {
  return x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x));
}
