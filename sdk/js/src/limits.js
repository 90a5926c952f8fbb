/**
 * The owner's limits: what rewards are; no epsilon is larger than `epsilon`; and over any `window` seconds the epsilons
 * of all experiments on this device add up to at most `budget`, both of the pulls that are accepted and of the
 * responses that leave.
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
 * Accepted pulls can be hoarded and leave together, so what leaves has a sum of its own. A page that is being left
 * cannot ask for it any more. Therefore a pull is cleared beforehand: what has left within the window, and all that is
 * cleared and has not left yet, is at most the budget with it. From then on it may leave at any moment, until its
 * ticket ends.
 *
 * @import { Spend, State, StoredPull } from "./ledger.js"
 * @import { Transform } from "./spec.js"
 *
 * @typedef {object} Limits
 * @property {Transform | { kind: "range", low?: number, high?: number } | { kind: "threshold" }} rewards what rewards
 *   are; an agent that asks for others is refused. A threshold without theta is any threshold
 * @property {number} epsilon the largest of a single response
 * @property {number} budget the largest sum over the window
 * @property {number} window in seconds
 * @property {boolean} [atOnce] whether an agent may have a response sent as soon as its reward is observed, which tells
 *   when that was, and that there was one; false unless given
 */

import { checkFlag, checkPositive } from "./checks.js";
import { LimitError } from "./errors.js";
import { checkFields, checkTransform } from "./spec.js";

/**
 * @param {Limits} limits
 * @returns {Required<Limits>} a copy that nobody else can change
 */
export function checkLimits(limits) {
  const { rewards, epsilon, budget, window, atOnce = false } =
    checkFields("limits", limits, ["rewards", "epsilon", "budget", "window", "atOnce"]);
  for (const [name, value] of Object.entries({ epsilon, budget, window })) {
    checkPositive(`limits.${name}`, value);
  }
  checkFlag("limits.atOnce", atOnce);
  const isAnyThreshold = rewards?.kind === "threshold" && !("theta" in rewards);
  return { rewards: isAnyThreshold ? { kind: "threshold" } : checkTransform(rewards, "limits.rewards"), epsilon, budget, window, atOnce };
}

/**
 * Refuse rewards that are not those of the owner.
 *
 * @param {Transform} asked
 * @param {Limits} limits
 */
export function checkRewards(asked, { rewards }) {
  const said = Object.entries(rewards);
  if (said.some(([name, value]) => /** @type {any} */ (asked)[name] !== value)) {
    throw new LimitError(`the agent asks for rewards of ${JSON.stringify(asked)}; this device allows ${JSON.stringify(rewards)}`);
  }
}

/**
 * Throw a LimitError that says what was asked and what is allowed, unless a response of this epsilon is within the limits.
 *
 * @param {State} state
 * @param {number} epsilon
 * @param {Limits} limits
 * @param {number} now
 */
export function checkBudget(state, epsilon, limits, now) {
  if (epsilon > limits.epsilon) {
    throw new LimitError(`the agent asks for epsilon ${epsilon}; this device allows ${limits.epsilon} a response`);
  }
  if (!fits(state.spends, epsilon, limits, now)) {
    throw new LimitError(
      `the agent asks for epsilon ${epsilon}; this device allows ${limits.budget} within ${duration(limits.window)}, ` +
        `of which ${spent(state, limits, now)} is spent`,
    );
  }
}

/**
 * Add a spend to the ledger, or throw as `checkBudget` does.
 *
 * @param {State} state
 * @param {number} epsilon
 * @param {Limits} limits
 * @param {number} now
 */
export function charge(state, epsilon, limits, now) {
  checkBudget(state, epsilon, limits, now);
  state.window = Math.max(state.window, limits.window);
  state.spends = added(state.spends, [now, epsilon], now - state.window);
}

/** Units of time with their seconds. @type {[string, number][]} */
const UNITS_OF_TIME = [["day", 86400], ["hour", 3600], ["minute", 60]];

/**
 * A time as people say it: 30 days, 1 hour, 10 s.
 *
 * @param {number} seconds
 */
function duration(seconds) {
  const [unit, size] = UNITS_OF_TIME.find(([, size]) => seconds >= size) ?? ["", 1];
  const count = Number((seconds / size).toPrecision(3));
  return unit ? `${count} ${unit}${count === 1 ? "" : "s"}` : `${count} s`;
}

/**
 * Remove what is kept of pulls and arms; of what was spent one sum stays, so that the budget is not full again.
 *
 * @param {State} state
 */
export function erase(state) {
  const sums = [state.spends, state.left].map((spends) => (spends.length ? [merged(spends)] : []));
  Object.assign(state, { pulls: [], arms: [], spends: sums[0], left: sums[1] });
}

/**
 * The epsilon that was spent within the window.
 *
 * @param {State} state
 * @param {Limits} limits
 * @param {number} now
 */
export function spent(state, limits, now) {
  return Number(spentWithin(state.spends, limits, now)) / UNITS;
}

/**
 * The rest of the budget, and never less than 0.
 *
 * @param {State} state
 * @param {Limits} limits
 * @param {number} now
 */
export function remaining(state, limits, now) {
  return Math.max(Number(unitsOf(limits.budget) - spentWithin(state.spends, limits, now)) / UNITS, 0);
}

/**
 * Clear what fits of these pulls, the oldest first.
 *
 * @param {State} state
 * @param {StoredPull[]} pulls
 * @param {Limits} limits
 * @param {number} now
 */
export function clear(state, pulls, limits, now) {
  for (const pull of pulls) {
    /** @type {Spend[]} */
    const cleared = state.pulls.filter(isOnItsWay).map(({ end, curator }) => [Math.min(now, end), curator.epsilon]);
    pull.cleared ||= fits([...state.left, ...cleared], pull.curator.epsilon, limits, now);
  }
}

/**
 * Note that a cleared response has left, or may have; once for each.
 *
 * @param {State} state
 * @param {StoredPull} pull
 * @param {number} time
 */
export function noteLeft(state, pull, time) {
  if (!isOnItsWay(pull)) return;
  pull.left = time;
  state.left = added(state.left, [time, pull.curator.epsilon], time - state.window);
}

/** @param {StoredPull} pull */
function isOnItsWay(pull) {
  return pull.cleared && pull.left === undefined;
}

/**
 * Whether one more response of this epsilon is within the limits.
 *
 * @param {Spend[]} spends
 * @param {number} epsilon
 * @param {Limits} limits
 * @param {number} now
 */
export function fits(spends, epsilon, limits, now) {
  const budget = unitsOf(limits.budget);
  return epsilon <= limits.epsilon && spentWithin(spends, limits, now) + units(epsilon) <= budget + (budget >> 51n);
}

/**
 * @param {Spend[]} spends
 * @param {Limits} limits
 * @param {number} now
 */
function spentWithin(spends, limits, now) {
  return sum(spends.filter(([time]) => time >= now - limits.window));
}

const UNITS = 2 ** 72;

/**
 * One spend more, and one for all from before `start`.
 *
 * @param {Spend[]} spends
 * @param {Spend} spend
 * @param {number} start
 * @returns {Spend[]}
 */
function added(spends, spend, start) {
  const old = spends.filter(([time]) => time < start);
  return [...spends.filter(([time]) => time >= start), ...(old.length ? [merged(old)] : []), spend];
}

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

/** @param {number} budget that of an owner who wants none may overflow, and is then the largest that does not */
function unitsOf(budget) {
  return BigInt(Math.floor(Math.min(budget * UNITS, Number.MAX_VALUE)));
}

/** @param {number} epsilon */
function units(epsilon) {
  return BigInt(Math.ceil(epsilon * UNITS));
}

/** @param {Spend[]} spends */
export function sum(spends) {
  return spends.reduce((total, [, epsilon]) => total + units(epsilon), 0n);
}
