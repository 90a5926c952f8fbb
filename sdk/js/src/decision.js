/**
 * An arm is accepted: what the agent asks for is within the owner's limits, the epsilon is charged, and the response to
 * the default is drawn. From then on the pull has a response, and one leaves, whatever happens.
 *
 * @import { Limits } from "./limits.js"
 * @import { State, StoredPull } from "./ledger.js"
 * @import { Arm, Asked, Terms } from "./wire.js"
 */

import { charge, checkBudget, checkRewards, clear, fits } from "./limits.js";
import { curatorFromSpec } from "./curators.js";
import { LimitError } from "./errors.js";
import { shown } from "./spec.js";
import { unreadable } from "./wire.js";

/**
 * The curator that is taken of those an agent offers; a LimitError if none is within the owner's limits.
 *
 * @param {State} state
 * @param {Terms} terms
 * @param {Required<Limits>} limits
 * @param {number} now
 * @param {number | undefined} epsilon that the owner names, where the agent leaves a choice
 */
export function choose(state, { curators, reportAfter }, limits, now, epsilon) {
  const offered = curators.filter((curator) => epsilon === undefined || curator.epsilon === epsilon);
  if (!offered.length) {
    const listed = curators.map((curator) => curator.epsilon).join(", ");
    throw new LimitError(`the agent offers epsilon ${listed}, not ${shown(epsilon)}`);
  }
  checkRewards(offered[0].transform, limits);
  if (reportAfter === 0 && !limits.atOnce) {
    throw new LimitError("the agent asks for responses at once; this device allows none without limits.atOnce");
  }
  const curator = offered.find(({ epsilon }) => fits(state.spends, epsilon, limits, now)) ?? offered.slice(-1)[0];
  checkBudget(state, curator.epsilon, limits, now);
  return curator;
}

/**
 * Write an accepted pull into the ledger's state, or throw and leave it as it is.
 *
 * @param {State} state
 * @param {{ url: string, experiment: string }} place
 * @param {Arm & Asked} decision
 * @param {Required<Limits>} limits
 * @param {number} now
 * @param {number | undefined} epsilon as for `choose`
 * @param {{ ofPage: boolean, delay: number }} sending whether the pull ends with this page, and how a worker sends it
 * @returns {StoredPull}
 */
export function accept(state, place, decision, limits, now, epsilon, sending) {
  const { arm, name, ticket, reportAfter, sticky, expiresIn } = decision;
  const curator = choose(state, decision, limits, now, epsilon);
  if (state.pulls.some((pull) => pull.ticket === ticket)) {
    throw unreadable("the agent's ticket, which it gave before,");
  }
  charge(state, curator.epsilon, limits, now);
  const atOnce = reportAfter === 0;
  const end = now + expiresIn;
  const pull = {
    ...place, arm, name, ticket, curator, atOnce, start: now, end,
    due: atOnce ? end - Math.min(60, expiresIn / 10) : now + reportAfter,
    response: curatorFromSpec(curator).respond(decision.default),
    observed: false, cleared: false, lease: 0, accepted: false, ...sending,
  };
  state.pulls.push(pull);
  const mine = state.pulls.filter(({ url, experiment }) => url === place.url && experiment === place.experiment);
  clear(state, mine, limits, now);
  if (sticky) state.arms.push({ ...place, arm, name, until: now + sticky });
  return pull;
}
