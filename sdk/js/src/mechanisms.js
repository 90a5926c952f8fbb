/**
 * CTB and CTL: the laws of a response, given the transformed reward.
 *
 * @import { CuratorSpec } from "./spec.js"
 * @import { Draw } from "./randomness.js"
 */

import { discreteLaplace, dyadic, firstBits } from "./randomness.js";

/** Responses of CTL are multiples of 2^-20: rewards and noise are on that grid. */
const GRID_BITS = 20n;

/** @typedef {(value: number, draw: Draw) => number} Mechanism draws the response to a transformed reward */

/**
 * @param {CuratorSpec} spec
 * @returns {Mechanism}
 */
export function mechanismOf({ mechanism, epsilon }) {
  return mechanism === "bernoulli" ? bernoulli(epsilon) : laplace(epsilon);
}

/**
 * CTB: the response is 1 with probability (r e^epsilon + 1 - r) / (1 + e^epsilon), else 0, for r in [0, 1].
 *
 * In integers: with U uniform below 2^64, Q = ceil(2^64 / (1 + e^epsilon)) and P = 2^64 - Q, the response is 1 iff
 * U < Q + floor(r (P - Q)). Both responses have probability between Q / 2^64 and P / 2^64 whatever the reward, and
 * P / Q <= e^epsilon because Q is rounded up.
 *
 * @param {number} epsilon
 * @returns {Mechanism}
 */
function bernoulli(epsilon) {
  const least = firstBits(dyadic(epsilon), 1n, 64n) + 1n;
  const spread = (1n << 64n) - 2n * least;
  return (unit, draw) => {
    const threshold = least + ((BigInt(Math.floor(unit * 2 ** 53)) * spread) >> 53n);
    return draw(1)[0] < threshold ? 1 : 0;
  };
}

/**
 * CTL: the response is r + L with L of the Laplace law of scale 1 / epsilon, both on the grid of 2^-20.
 *
 * The reward is rounded to the grid and the noise is an integer Z with P(Z = z) proportional to
 * e^(-epsilon |z| / 2^20), exactly. 0 and 1 are on the grid, so two rewards in [0, 1] are at most 2^20 steps apart and
 * no response is more than e^epsilon times likelier under one. On the real line the same holds for rewards that differ
 * by at most 1, since rounding commutes with adding 1.
 *
 * @param {number} epsilon
 * @returns {Mechanism}
 */
function laplace(epsilon) {
  const [numerator, shift] = dyadic(epsilon);
  const noise = discreteLaplace([numerator, shift + GRID_BITS]);
  return (value, draw) => {
    const response = steps(value) + noise(draw);
    const scaled = Number(response);
    // Beyond 2^1004 the steps overflow a double although the response does not. There the 20 bits that are cut off
    // cannot change what it rounds to: doubles are 2^952 apart, and the noise is far below half of that.
    return Number.isFinite(scaled) ? scaled / 2 ** 20 : Number(response >> GRID_BITS);
  };
}

/**
 * floor(value 2^20 + 1/2), exactly: the nearest multiple of 2^-20, in steps; halves go up.
 *
 * @param {number} value
 */
function steps(value) {
  const [numerator, shift] = dyadic(value);
  return ((numerator << (GRID_BITS + 1n)) + (1n << shift)) >> (shift + 1n);
}
