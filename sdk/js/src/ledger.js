/**
 * The ledger of this device: spent epsilons and open pulls, as one text in a storage, so that a spend and its pull are
 * stored together or not at all. It holds responses and never a reward.
 *
 * A ledger that cannot be parsed is refused and not changed: a new one would forget what was spent.
 *
 * @import { Storage } from "./storage.js"
 * @import { CuratorSpec } from "./spec.js"
 *
 * @typedef {[time: number, epsilon: number]} Spend
 *
 * @typedef {object} StoredPull times are in seconds of the device's clock
 * @property {string} url of the agent
 * @property {string} experiment
 * @property {number} arm
 * @property {string} name
 * @property {string} ticket
 * @property {CuratorSpec} curator
 * @property {number} start when the arm was accepted
 * @property {number} due the reporting moment: what is then the response is sent
 * @property {boolean} atOnce whether the response is sent as soon as a reward is observed
 * @property {number} end of the ticket, from when on nobody would take the response
 * @property {number} response to the default, until a reward is observed; drawn once for each
 * @property {boolean} observed whether it is the response to a reward
 * @property {boolean} cleared whether it has its place in the budget of what leaves
 * @property {boolean} [accepted] false until the agent knows that this device has accepted the pull
 * @property {number} [delay] by which a service worker sends later than the moment, in seconds
 * @property {boolean} [ofPage] whether only the page that decided it observes it, since it is sent as that page is left
 * @property {number} [left] when it was first sent; from then on it stays as it is
 * @property {number} lease until then somebody is sending it, and nobody else does
 *
 * @typedef {object} KeptArm an arm that is shown again without asking
 * @property {string} url
 * @property {string} experiment
 * @property {number} arm
 * @property {string} name
 * @property {number} until
 *
 * @typedef {object} State
 * @property {2 | 3} version 2 is read: an open pull on a web page is then not sent, since its page may have done so
 * @property {number} window the longest over which anybody has asked what was spent, in seconds
 * @property {Spend[]} spends of the pulls that were accepted
 * @property {Spend[]} left of the responses that were sent, by the time of their first sending
 * @property {StoredPull[]} pulls the oldest first
 * @property {KeptArm[]} arms
 * @property {"in" | "out"} [consent] what the owner has said, if anything
 */

import { LDPBanditsError, LedgerError } from "./errors.js";
import { isNumber } from "./spec.js";

/** Clocks are set back by some seconds now and then. */
const STEP = 60;

/**
 * The reporting moment of a pull: where the owner allows responses at once, it comes with the reward. If the clock was
 * set back behind the pull nobody knows it, and it is now.
 *
 * @param {StoredPull} pull
 * @param {number} now
 */
export function momentOf({ start, due, atOnce, observed }, now) {
  return now < start - STEP || (atOnce && observed) ? now : due;
}

/**
 * @param {Storage} storage
 * @returns {Promise<State>}
 */
export async function read(storage) {
  return parsed(await told("read", () => storage.read()));
}

/**
 * Read, edit and write the ledger while nobody else does. If `edit` throws, nothing is written.
 *
 * @template T
 * @param {Storage} storage
 * @param {(state: State) => T} edit
 * @returns {Promise<T>} what `edit` returned, once it is stored
 */
export async function change(storage, edit) {
  /** @type {{ result: T } | undefined} */
  let edited;
  await told("locked or written", () =>
    storage.change((text) => {
      const state = parsed(text);
      edited = { result: edit(state) };
      return JSON.stringify(state);
    }),
  );
  if (!edited) throw new LedgerError("the storage has not called edit");
  return edited.result;
}

/**
 * Run a task; wrap errors of the storage, such as a quota or a full disk, and pass this library's own errors on.
 *
 * @template T
 * @param {string} what cannot be done
 * @param {() => Promise<T>} task
 */
async function told(what, task) {
  try {
    return await task();
  } catch (cause) {
    throw cause instanceof LDPBanditsError ? cause : new LedgerError(`the ledger cannot be ${what}`, { cause });
  }
}

/**
 * @param {string | null} text
 * @returns {State}
 */
function parsed(text) {
  if (text === null) return { version: 3, window: 0, spends: [], left: [], pulls: [], arms: [] };
  let problem = "damaged";
  try {
    /** @type {State} */
    const state = JSON.parse(text);
    const { version, window, spends, left, pulls, arms } = state;
    if (version !== 2 && version !== 3) problem = "of another version";
    else if (
      isNumber(window) &&
      [...spends, ...left].every(([time, epsilon]) => isNumber(time) && isNumber(epsilon) && epsilon > 0) &&
      pulls.every(
        ({ ticket, curator, start, due, end, response, lease }) =>
          typeof ticket === "string" && [curator.epsilon, start, due, end, response, lease].every(isNumber),
      ) &&
      arms.every(({ until }) => isNumber(until))
    ) {
      return { ...state, version: 3 };
    }
  } catch {
    // Invalid JSON and missing parts are damage.
  }
  throw new LedgerError(`the ledger is ${problem}, and left as it is`);
}
