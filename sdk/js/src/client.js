/**
 * Ask for an arm, observe a reward, send a private response.
 *
 * What is promised: the owner's limits hold before an arm is shown; a response is drawn once, stored before it is first
 * sent, and repeated unchanged until the agent has acknowledged it; when no reward comes in time, the default is
 * privatised and sent, so that no response is missing because there was none.
 *
 * @import { Limits } from "./budget.js"
 * @import { State, StoredPull } from "./ledger.js"
 * @import { Storage } from "./storage.js"
 * @import { Post } from "./wire.js"
 *
 * @typedef {object} Pull an arm was chosen, and its reward is awaited
 * @property {number} arm
 * @property {string} name of the arm
 * @property {string} ticket
 * @property {number} epsilon what its response costs: it is spent
 * @property {(reward: number, options?: { clip?: boolean }) => Promise<boolean>} observe as `Client.observe`
 *
 * @typedef {object} Flushed
 * @property {number} acknowledged responses that the agent has counted
 * @property {number} waiting responses that are stored and will be sent again
 * @property {ServerError[]} refused one for each response that the agent will never take, since the last flush
 */

import { charge, checkLimits, fits } from "./budget.js";
import { curatorFromSpec } from "./curators.js";
import { LimitError, ParameterError, ServerError, TicketError } from "./errors.js";
import { change, read } from "./ledger.js";
import { Outbox } from "./outbox.js";
import { shown } from "./spec.js";
import { defaultStorage } from "./storage.js";
import { askDecision, poster } from "./wire.js";

/** A timer holds no more milliseconds than this. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** One device's part in one experiment. Clients that share a storage share its ledger, and so their owner's limits. */
export class Client {
  /** @type {Post} */ #post;
  /** @type {Outbox} */ #outbox;
  /** @type {Storage} */ #storage;
  /** @type {Limits} */ #limits;
  /** @type {() => number} */ #clock;
  /** @type {string} */ #url;
  /** @type {string} */ #experiment;
  /** @type {ServerError[]} */ #refused = [];
  /** @type {any} */ #timer;
  #closed = false;

  /**
   * @param {string} url of the agent's server
   * @param {string} experiment its name there
   * @param {object} options
   * @param {string} options.key the client key
   * @param {Limits} options.limits what this device's owner allows, over all experiments that share the storage
   * @param {Storage} [options.storage] where the ledger is; localStorage on a web page, else memory
   * @param {typeof globalThis.fetch} [options.fetch]
   * @param {() => number} [options.clock] the time in seconds, for tests
   */
  constructor(
    url,
    experiment,
    { key, limits, storage = defaultStorage(), fetch = globalThis.fetch, clock = () => Date.now() / 1000 },
  ) {
    for (const [name, value] of Object.entries({ url, experiment, key })) {
      if (!value || typeof value !== "string") throw new ParameterError(`${name} must be a string, and not empty`);
    }
    this.#url = url.replace(/\/+$/, "");
    this.#experiment = experiment;
    this.#post = poster(fetch, this.#url, key);
    this.#limits = checkLimits(limits);
    this.#storage = storage;
    this.#clock = clock;
    this.#outbox = new Outbox(this.#post, storage, clock);
    this.#schedule();
  }

  /**
   * Ask the agent for an arm. When this returns, the epsilon of the response to come is spent, whatever happens next.
   *
   * Where the agent leaves a choice of epsilons, it is the one named here, else the largest within the limits. It is made
   * before there is a reward: a choice that depended on the reward would tell of it.
   *
   * @param {{ epsilon?: number }} [options]
   * @returns {Promise<Pull>}
   */
  async decide({ epsilon } = {}) {
    const { expiresIn, curators, ...decision } = await askDecision(this.#post, this.#experiment);
    const offered = curators.filter((curator) => epsilon === undefined || curator.epsilon === epsilon);
    if (!offered.length) {
      const listed = curators.map((curator) => curator.epsilon).join(", ");
      throw new LimitError(`the agent offers epsilon ${listed}, and not ${shown(epsilon)}`);
    }
    const due = this.#clock() + expiresIn - Math.min(60, expiresIn / 10);
    const pull = { url: this.#url, experiment: this.#experiment, ...decision, curator: offered[0], due };
    await change(this.#storage, (state) => {
      if (state.pulls.some(({ ticket }) => ticket === pull.ticket)) {
        throw new ServerError("the agent gave a ticket that is out already", 200, "unreadable");
      }
      if (pull.curator.transform.kind === "real-line" && !this.#limits.realLine) {
        throw new LimitError("the agent asks for rewards on the real line; this device does not allow it");
      }
      const now = this.#clock();
      pull.curator = offered.find((curator) => fits(state, curator.epsilon, this.#limits, now)) ?? offered[offered.length - 1];
      charge(state, pull.curator.epsilon, this.#limits, now);
      state.pulls.push(pull);
    });
    this.#schedule();
    return this.#open(pull);
  }

  /**
   * The pulls whose reward is awaited, also those from before a reload.
   *
   * @returns {Promise<Pull[]>}
   */
  async pulls() {
    return this.#mine(await read(this.#storage)).filter(isOpen).map((pull) => this.#open(pull));
  }

  /**
   * Privatise a reward once, store the response, and send it.
   *
   * @param {string} ticket of the pull
   * @param {number} reward
   * @param {{ clip?: boolean }} [options] with `clip`, a reward out of range counts as the nearest one in range
   * @returns {Promise<boolean>} true if the agent has acknowledged the response, false if it will be sent again
   */
  async observe(ticket, reward, options) {
    const pull = await change(this.#storage, (state) => {
      const found = this.#mine(state).find((pull) => pull.ticket === ticket && isOpen(pull));
      if (!found) throw new TicketError("no pull is open under this ticket: it has its response, or was never decided here");
      respond(found, reward, options);
      return found;
    });
    try {
      return await this.#outbox.send(pull);
    } finally {
      this.#schedule();
    }
  }

  /**
   * Privatise the default for each pull whose time is nearly up, and send every response that is not acknowledged.
   *
   * @returns {Promise<Flushed>}
   */
  async flush() {
    const flushed = await this.#flush();
    this.#schedule();
    return { ...flushed, refused: this.#refused.splice(0) };
  }

  /** Stop the timer. What is stored stays, and the next client of this experiment takes it up. */
  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  async #flush() {
    const isDue = (/** @type {StoredPull} */ pull) => isOpen(pull) && pull.due <= this.#clock();
    if (this.#mine(await read(this.#storage)).some(isDue)) {
      await change(this.#storage, (state) => {
        for (const pull of this.#mine(state).filter(isDue)) respond(pull, pull.default);
      });
    }
    const flushed = { acknowledged: 0, waiting: 0 };
    for (const pull of this.#mine(await read(this.#storage))) {
      if (isOpen(pull)) continue;
      try {
        flushed[(await this.#outbox.send(pull)) ? "acknowledged" : "waiting"]++;
      } catch (error) {
        this.#refused.push(/** @type {ServerError} */ (error));
      }
    }
    return flushed;
  }

  /**
   * Set the timer to the next moment at which a flush has something to do, or to `earliest` if that is later.
   *
   * @param {number} [earliest]
   */
  async #schedule(earliest = 0) {
    /** @type {StoredPull[]} */
    let mine;
    try {
      mine = this.#mine(await read(this.#storage));
    } catch {
      return; // whoever calls next is told
    }
    clearTimeout(this.#timer);
    const next = Math.min(...mine.map((pull) => (isOpen(pull) ? pull.due : this.#outbox.retryAt)));
    if (this.#closed || next === Infinity) return;
    const wait = (Math.max(next, earliest) - this.#clock()) * 1000;
    this.#timer = setTimeout(() => this.#tick(), Math.min(Math.max(wait, 0), LONGEST_TIMER));
    this.#timer.unref?.(); // in Node: a process that has nothing else to do may end
  }

  async #tick() {
    try {
      await this.#flush();
      this.#schedule();
    } catch {
      this.#outbox.backOff();
      this.#schedule(this.#outbox.retryAt);
    }
  }

  /** @param {State} state */
  #mine(state) {
    return state.pulls.filter((pull) => pull.url === this.#url && pull.experiment === this.#experiment);
  }

  /**
   * @param {StoredPull} pull
   * @returns {Pull}
   */
  #open({ arm, name, ticket, curator: { epsilon } }) {
    return { arm, name, ticket, epsilon, observe: (reward, options) => this.observe(ticket, reward, options) };
  }
}

/** @param {StoredPull} pull */
function isOpen(pull) {
  return pull.response === undefined;
}

/**
 * @param {StoredPull} pull
 * @param {number} reward
 * @param {{ clip?: boolean }} [options]
 */
function respond(pull, reward, options) {
  pull.response = curatorFromSpec(pull.curator).respond(reward, options);
}
