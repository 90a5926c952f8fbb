/**
 * The owner's limits: over any `window` seconds, the epsilons of all experiments on this device add up to at most
 * `budget`, and none is larger than `epsilon`.
 *
 * The sum is exact, in units of 2^-72: every double from 2^-20 up is a whole number of them. It may exceed the budget
 * by one part in 2^51, because what the owner writes as 0.1 is not the double 0.1: ten of those are more than 1 by one
 * part in 2^54, and a hundred of 0.07 more than 7. Decimals that add up to the budget therefore fit, in any order, and
 * nothing more does: one further response would have to be a 2^51st of the budget.
 *
 * A clock that is set back frees nothing (one that is set ahead does: there is no clock to trust more). A spend dated in
 * the future, after the clock was set back, counts. A spend that is older than every window asked for so far is not
 * forgotten but added to one entry that bears the latest date among them, so that it counts again, and rather too long,
 * if the clock is set back or a longer window is asked for.
 *
 * @import { Spend, State } from "./ledger.js"
 *
 * @typedef {object} Limits
 * @property {number} epsilon the largest of a single response
 * @property {number} budget the largest sum over the window
 * @property {number} window in seconds
 * @property {boolean} [realLine] whether an agent may ask for rewards on the real line, where epsilon is promised only
 *   for rewards that differ by at most 1; false unless given
 */

import { LimitError, ParameterError } from "./errors.js";
import { isNumber, shown } from "./spec.js";

/**
 * @param {Limits} limits
 * @returns {Limits} a copy that nobody else can change
 */
export function checkLimits(limits) {
  for (const name of /** @type {const} */ (["epsilon", "budget", "window"])) {
    const value = limits?.[name];
    if (!isNumber(value) || value <= 0) {
      throw new ParameterError(`limits.${name} must be finite and > 0, got ${shown(value)}`);
    }
  }
  return { ...limits };
}

/**
 * Add a spend to the ledger, or throw a LimitError that says what was asked and what is allowed.
 *
 * @param {State} state
 * @param {number} epsilon
 * @param {Limits} limits
 * @param {number} now
 */
export function charge(state, epsilon, limits, now) {
  if (epsilon > limits.epsilon) {
    throw new LimitError(`the agent asks for epsilon ${epsilon}; this device allows ${limits.epsilon} a response`);
  }
  if (!fits(state, epsilon, limits, now)) {
    throw new LimitError(
      `the agent asks for epsilon ${epsilon}; this device allows ${limits.budget} within ${limits.window / 86400} days, ` +
        `of which ${Number(spentWithin(state, limits, now)) / UNITS} is spent`,
    );
  }
  state.window = Math.max(state.window, limits.window);
  const start = now - state.window;
  const old = state.spends.filter(([time]) => time < start);
  state.spends = state.spends.filter(([time]) => time >= start);
  if (old.length) state.spends.push(merged(old));
  state.spends.push([now, epsilon]);
}

/**
 * Whether a response of this epsilon is within the limits.
 *
 * @param {State} state
 * @param {number} epsilon
 * @param {Limits} limits
 * @param {number} now
 */
export function fits(state, epsilon, limits, now) {
  const budget = BigInt(Math.floor(limits.budget * UNITS));
  return epsilon <= limits.epsilon && spentWithin(state, limits, now) + units(epsilon) <= budget + (budget >> 51n);
}

/**
 * @param {State} state
 * @param {Limits} limits
 * @param {number} now
 */
function spentWithin(state, limits, now) {
  return sum(state.spends.filter(([time]) => time >= now - limits.window));
}

const UNITS = 2 ** 72;

/**
 * One spend for many: never smaller than they are together, never older than any of them.
 *
 * @param {Spend[]} spends
 * @returns {Spend}
 */
function merged(spends) {
  const total = Number(sum(spends)) / UNITS;
  return [Math.max(...spends.map(([time]) => time)), spends.length > 1 ? total * (1 + 2 ** -52) : total];
}

/** @param {number} epsilon */
function units(epsilon) {
  return BigInt(Math.ceil(epsilon * UNITS));
}

/** @param {Spend[]} spends */
function sum(spends) {
  return spends.reduce((total, [, epsilon]) => total + units(epsilon), 0n);
}
