/**
 * What privacy this device has spent, and the pulls that are out: one item of a storage, so that a spend and its pull
 * are stored together or not at all. It holds responses and never a reward.
 *
 * A ledger that cannot be understood is refused and left as it is: to start a new one would forget what was spent.
 *
 * @import { Storage } from "./storage.js"
 * @import { CuratorSpec } from "./spec.js"
 *
 * @typedef {[time: number, epsilon: number]} Spend
 *
 * @typedef {object} StoredPull
 * @property {string} url of the agent
 * @property {string} experiment
 * @property {number} arm
 * @property {string} name
 * @property {string} ticket
 * @property {CuratorSpec} curator
 * @property {number} default the reward to privatise when none was observed
 * @property {number} due when to do so, in seconds of the device's clock
 * @property {number} [response] drawn once; it waits here until the agent has acknowledged it
 *
 * @typedef {object} State
 * @property {1} version
 * @property {number} window the longest over which anybody has asked what was spent, in seconds
 * @property {Spend[]} spends
 * @property {StoredPull[]} pulls
 */

import { LDPBanditsError, LedgerError } from "./errors.js";
import { isNumber } from "./spec.js";
import { exclusively } from "./storage.js";

const ITEM = "ldpbandits";

/**
 * @param {Storage} storage
 * @returns {Promise<State>}
 */
export async function read(storage) {
  let problem = "cannot be read";
  try {
    const text = await storage.getItem(ITEM);
    problem = "is damaged, and left as it is";
    /** @type {State} */
    const state = text == null ? { version: 1, window: 0, spends: [], pulls: [] } : JSON.parse(text);
    if (
      state.version === 1 &&
      isNumber(state.window) &&
      state.spends.every(([time, epsilon]) => isNumber(time) && isNumber(epsilon) && epsilon > 0) &&
      state.pulls.every((pull) => typeof pull.ticket === "string" && isNumber(pull.due))
    ) {
      return state;
    }
  } catch (cause) {
    throw new LedgerError(`the ledger ${problem}`, { cause });
  }
  throw new LedgerError(`the ledger ${problem}`);
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
  try {
    return await exclusively(storage, async () => {
      const state = await read(storage);
      const result = edit(state);
      await storage.setItem(ITEM, JSON.stringify(state));
      return result;
    });
  } catch (cause) {
    // What this library refuses says why itself; anything else is the storage's, such as a quota or a full disk.
    if (cause instanceof LDPBanditsError) throw cause;
    throw new LedgerError("the ledger cannot be locked or written", { cause });
  }
}
