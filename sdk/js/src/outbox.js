/**
 * Responses on their way: each is sent from its reporting moment on, unchanged, until the agent acknowledges it or says
 * that it never will.
 *
 * Several tabs or processes share a storage. Whoever sends a response first takes it under the storage's lock, and for
 * the time of one exchange nobody else does. A page that is being left has no time for that: it writes a note instead,
 * which others heed as long, and all that it sends was cleared before. Whoever sends it, a pull has one response only:
 * after its moment, or its page's end, nothing changes it, and others look for it only some time after that.
 *
 * @import { Limits } from "./budget.js"
 * @import { StoredPull } from "./ledger.js"
 * @import { Storage } from "./storage.js"
 * @import { Post } from "./wire.js"
 *
 * @typedef {true | false | ServerError} Outcome acknowledged, to be sent again, or refused for good
 */

import { clear, noteLeft } from "./budget.js";
import { ServerError } from "./errors.js";
import { change, momentOf, read } from "./ledger.js";
import { systemWords } from "./randomness.js";
import { DEADLINE, isFinal, sendResponse } from "./wire.js";

/** In seconds, and in doublings from one second. */
const LONGEST_WAIT = 300;

export class Outbox {
  /** When to try again, in seconds of the device's clock. */
  retryAt = 0;
  /** @type {ServerError[]} one for each response that the agent will never take */ refused = [];
  #failures = 0;
  /** @type {Map<string, Promise<Outcome>>} */ #sending = new Map();
  /** @type {Post} */ #post;
  /** @type {Storage} */ #storage;
  /** @type {Limits} */ #limits;
  /** @type {() => number} */ #clock;
  /** @type {(pulls: Iterable<StoredPull>) => StoredPull[]} */ #mine;
  /** @type {Map<string, StoredPull>} */ #own;

  /**
   * @param {Post} post
   * @param {Storage} storage
   * @param {Limits} limits
   * @param {() => number} clock
   * @param {(pulls: Iterable<StoredPull>) => StoredPull[]} mine those of the client's experiment
   * @param {Map<string, StoredPull>} own those that this page or process has decided and not yet sent, by ticket
   */
  constructor(post, storage, limits, clock, mine, own) {
    this.#post = post;
    this.#storage = storage;
    this.#limits = limits;
    this.#clock = clock;
    this.#mine = mine;
    this.#own = own;
  }

  /**
   * Send every response whose moment has come, and those of `early` before it; wait for what is on its way.
   *
   * @param {Iterable<string>} [early] tickets
   */
  async flush(early = []) {
    const { ready, waiting } = await this.#take(new Set(early));
    const flushed = { acknowledged: 0, waiting };
    const underWay = [...this.#sending.values()];
    for (const outcome of await Promise.all([...underWay, ...ready.map((pull) => this.#send(pull))])) {
      if (outcome instanceof ServerError) continue;
      flushed[outcome ? "acknowledged" : "waiting"]++;
    }
    return flushed;
  }

  /**
   * Send these pulls as their page is left. All that must be done is done when this returns; what it returns may be
   * awaited by those who can.
   *
   * @param {StoredPull[]} pulls
   */
  leave(pulls) {
    const now = this.#clock();
    const ready = pulls.filter((pull) => {
      pull.left = now;
      try {
        // After its moment a response is final, and others may have sent it: there is nothing to tell them.
        if (now < pull.due) this.#storage.notes?.write(pull.ticket, { response: pull.response, left: now });
      } catch {
        // It only spares others some waiting. To hold the response back for it would tell how full the storage is.
      }
      return pull.cleared && now < pull.end;
    });
    return Promise.all(ready.map((pull) => this.#send(pull)));
  }

  /**
   * When a pull is to be sent. Another page's is left alone until nothing can change it any more, and it can be read.
   *
   * @param {StoredPull} pull
   */
  moment(pull) {
    const { ticket, due, end, left, lease } = pull;
    const now = this.#clock();
    if (left !== undefined) return lease > now + DEADLINE ? 0 : lease; // unless the clock was set back
    const moment = momentOf(pull, now);
    if (moment === now || !this.#storage.notes || this.#own.has(ticket)) return moment;
    return (this.#noteOf(pull)?.left ?? due) + Math.min(DEADLINE, (end - due) / 2);
  }

  /**
   * Take what may be sent: its moment has come, it is cleared, and nobody is sending it.
   *
   * @param {Set<string>} early
   * @returns {Promise<{ ready: StoredPull[], waiting: number }>}
   */
  async #take(early) {
    if (!this.#mine((await read(this.#storage)).pulls).length) return { ready: [], waiting: 0 };
    const now = this.#clock();
    const isFirst = (/** @type {StoredPull} */ pull) => pull.left === undefined;
    const { ready, held, leased, ended } = await change(this.#storage, (state) => {
      const ended = state.pulls.filter(({ end }) => now >= end); // of any experiment: nobody would take their responses
      for (const pull of ended) noteLeft(state, pull, this.#noteOf(pull)?.left ?? pull.end); // perhaps with its page
      state.pulls = state.pulls.filter((pull) => !ended.includes(pull));
      const pulls = this.#mine(state.pulls).filter(({ ticket }) => !this.#sending.has(ticket));
      clear(state, pulls, this.#limits, now);
      const due = pulls.filter((pull) => now >= this.moment(pull) || (isFirst(pull) && early.has(pull.ticket)));
      const ready = due.filter(({ cleared }) => cleared);
      const leased = pulls.filter((pull) => !isFirst(pull) && !due.includes(pull)).length;
      for (const pull of ready) {
        if (isFirst(pull)) pull.response = this.#noteOf(pull)?.response ?? pull.response;
        noteLeft(state, pull, now);
        pull.lease = now + DEADLINE;
      }
      return { ready, held: due.length - ready.length, leased, ended };
    });
    for (const pull of ended) this.#giveUp(pull);
    if (held) this.backOff();
    return { ready, waiting: held + leased };
  }

  /**
   * A ticket has ended. Unless its response left with its page, and may well have arrived, that is told.
   *
   * @param {StoredPull} pull
   */
  #giveUp(pull) {
    if (this.#mine([pull]).length && this.#noteOf(pull)?.left === undefined) {
      this.refused.push(new ServerError("the ticket ended before its response had arrived", 410, "expired"));
    }
    this.#storage.notes?.remove(pull.ticket);
  }

  /** @param {StoredPull} pull */
  #noteOf({ ticket }) {
    return this.#storage.notes?.read(ticket);
  }

  /**
   * The request is out when this returns.
   *
   * @param {StoredPull} pull
   */
  #send(pull) {
    this.#own.delete(pull.ticket);
    const attempt = this.#sending.get(pull.ticket) ?? this.#attempt(pull); // its page may have been left meanwhile
    this.#sending.set(pull.ticket, attempt);
    return attempt;
  }

  /**
   * @param {StoredPull} pull
   * @returns {Promise<Outcome>}
   */
  async #attempt({ ticket, response, curator, left = 0 }) {
    /** @type {Outcome} */
    let outcome = true;
    try {
      await sendResponse(this.#post, ticket, response, curator.epsilon);
    } catch (error) {
      outcome = isFinal(error) && error;
    }
    try {
      await change(this.#storage, (state) => {
        const stored = state.pulls.find((pull) => pull.ticket === ticket);
        if (!stored) return;
        noteLeft(state, stored, left);
        Object.assign(stored, { response, lease: 0 });
        if (outcome) state.pulls = state.pulls.filter((pull) => pull !== stored);
      });
      if (outcome) this.#storage.notes?.remove(ticket);
      if (outcome) this.#failures = 0;
      else this.backOff();
    } catch {
      // What the agent has answered stands even if the ledger cannot be written now: the response will be sent once
      // more, not at once, and answered as a duplicate or refused again.
      this.backOff();
    }
    this.#sending.delete(ticket);
    if (outcome instanceof ServerError) this.refused.push(outcome);
    return outcome;
  }

  /**
   * Wait before the next attempt: twice as long as the last time, and up to half less at random, so that devices which
   * failed together do not come back together. Failures of one round count once.
   */
  backOff() {
    const now = this.#clock();
    if (now < this.retryAt) return;
    const wait = Math.min(LONGEST_WAIT, 2 ** this.#failures++);
    this.retryAt = now + wait * (0.5 + Number(systemWords(1)[0]) / 2 ** 65);
  }
}
