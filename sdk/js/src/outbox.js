/**
 * The outbox: each response is sent from its reporting moment on, and retried unchanged until the agent acknowledges it
 * or refuses it for good; and so is the word that a pull was accepted, before.
 *
 * Several tabs, a service worker or processes share a storage. A sender first takes a response under the storage's lock,
 * and for the time of one exchange no other sender does. A page that is being left has no time for that: it adds a note
 * instead, which the others find in the ledger. A pull has one response only, whichever page sends it: nothing changes it
 * after its reporting moment, or its page's end.
 *
 * @import { State, StoredPull } from "./ledger.js"
 * @import { Storage } from "./storage.js"
 * @import { Exchange } from "./wire.js"
 *
 * @typedef {true | false | ServerError} Outcome acknowledged, to be sent again, or refused for good
 *
 * @typedef {object} Sender who sends
 * @property {Storage} storage
 * @property {() => number} clock
 * @property {(url: string) => Exchange} exchangeWith
 * @property {(pulls: Iterable<StoredPull>) => StoredPull[]} mine those that it may send
 * @property {(state: State, pulls: StoredPull[], now: number) => void} clear gives them their place in the budget of what
 *   leaves
 * @property {Map<string, StoredPull>} own those that it may send early, by ticket
 */

import { noteLeft } from "./limits.js";
import { ServerError } from "./errors.js";
import { change, momentOf, read } from "./ledger.js";
import { systemWords } from "./randomness.js";
import { DEADLINE, isFinal, sendAcceptance, sendResponse } from "./wire.js";

/** In seconds, and in doublings from one second. */
const LONGEST_WAIT = 300;

/**
 * When a response is to be sent.
 *
 * @param {StoredPull} pull
 * @param {number} now
 */
export function momentToSend(pull, now) {
  if (pull.left === undefined) return momentOf(pull, now);
  return pull.lease > now + DEADLINE ? 0 : pull.lease; // unless the clock was set back
}

/**
 * Take responses for one exchange: nobody else sends them meanwhile.
 *
 * @param {State} state
 * @param {StoredPull[]} pulls
 * @param {number} now
 */
export function lease(state, pulls, now) {
  for (const pull of pulls) {
    noteLeft(state, pull, now);
    pull.lease = now + DEADLINE;
  }
}

/**
 * Give a response back after an exchange, or remove its pull.
 *
 * @param {State} state
 * @param {{ ticket: string, response: number, left: number }} sent
 * @param {boolean} isOver acknowledged, or refused for good
 */
export function settle(state, { ticket, response, left }, isOver) {
  const stored = state.pulls.find((pull) => pull.ticket === ticket);
  if (!stored) return;
  noteLeft(state, stored, left);
  Object.assign(stored, { response, lease: 0 });
  if (isOver) state.pulls = state.pulls.filter((pull) => pull !== stored);
}

export class Outbox {
  /** When to try again, in seconds of the device's clock. */
  retryAt = 0;
  /** @type {ServerError[]} one for each response that the agent will never take */ refused = [];
  #failures = 0;
  /** @type {Map<string, Promise<Outcome>>} */ #sending = new Map();
  /** @type {Set<string>} */ #accepting = new Set();
  /** @type {Sender} */ #sender;

  /** @param {Sender} sender */
  constructor(sender) {
    this.#sender = sender;
  }

  /**
   * Send every response whose moment has come, and those of `early` before it; wait for what is on its way.
   *
   * @param {Iterable<string>} [early] tickets
   */
  async flush(early = []) {
    const { ready, waiting, unknown } = await this.#take(new Set(early));
    const flushed = { acknowledged: 0, waiting };
    const underWay = [...this.#sending.values()];
    const told = unknown.map((pull) => this.accept(pull));
    for (const outcome of await Promise.all([...underWay, ...ready.map((pull) => this.#send(pull))])) {
      if (outcome instanceof ServerError) continue;
      flushed[outcome ? "acknowledged" : "waiting"]++;
    }
    await Promise.all(told);
    return flushed;
  }

  /**
   * Send these pulls as their page is left. All that must be done is done when this returns; what it returns may be
   * awaited by those who can.
   *
   * @param {StoredPull[]} pulls
   */
  leave(pulls) {
    const now = this.#sender.clock();
    const ready = pulls.filter(({ cleared, end }) => cleared && now < end);
    for (const pull of ready) {
      pull.left = now;
      // After its moment a response is final, and others may have sent it: there is nothing to tell them. Before, a note
      // that cannot be stored is no reason to hold the response back: that would tell how full the storage is.
      if (now < pull.due) this.#sender.storage.note?.({ ticket: pull.ticket, response: pull.response, left: now }).catch(() => {});
    }
    return Promise.all(ready.map((pull) => this.#send(pull)));
  }

  /**
   * Tell the agent that a pull was accepted. Nobody waits for that: its response says it too.
   *
   * @param {StoredPull} pull
   */
  async accept({ url, ticket }) {
    if (this.#accepting.has(ticket)) return;
    this.#accepting.add(ticket);
    const { storage, exchangeWith } = this.#sender;
    try {
      await sendAcceptance(exchangeWith(url), ticket).catch((error) => {
        if (!isFinal(error)) throw error;
      });
      await change(storage, ({ pulls }) => pulls.forEach((pull) => pull.ticket === ticket && (pull.accepted = true)));
    } catch {
      this.backOff();
    }
    this.#accepting.delete(ticket);
  }

  /**
   * When there is something to do for a pull: its response is to be sent, or that it was accepted is told again.
   *
   * @param {StoredPull} pull
   */
  next(pull) {
    const now = this.#sender.clock();
    const moment = momentToSend(pull, now);
    const toSend = moment > now ? moment : this.retryAt;
    return pull.accepted === false ? Math.min(toSend, Math.max(pull.start + DEADLINE, this.retryAt)) : toSend;
  }

  /**
   * Take what may be sent: its moment has come, it is cleared, and nobody is sending it.
   *
   * @param {Set<string>} early
   * @returns {Promise<{ ready: StoredPull[], waiting: number, unknown: StoredPull[] }>}
   */
  async #take(early) {
    const { storage, clock, mine, clear } = this.#sender;
    if (!mine((await read(storage)).pulls).length) return { ready: [], waiting: 0, unknown: [] };
    const now = clock();
    const isFirst = (/** @type {StoredPull} */ pull) => pull.left === undefined;
    const { ready, held, leased, ended, unknown } = await change(storage, (state) => {
      const ended = state.pulls.filter(({ end }) => now >= end); // of any experiment: nobody would take their responses
      for (const pull of ended) noteLeft(state, pull, pull.end); // perhaps with a page that could not note it
      state.pulls = state.pulls.filter((pull) => !ended.includes(pull));
      const pulls = mine(state.pulls).filter(({ ticket }) => !this.#sending.has(ticket));
      clear(state, pulls, now);
      const due = pulls.filter((pull) => now >= momentToSend(pull, now) || (isFirst(pull) && early.has(pull.ticket)));
      const ready = due.filter(({ cleared }) => cleared);
      const leased = pulls.filter((pull) => !isFirst(pull) && !due.includes(pull)).length;
      const unknown = pulls.filter((pull) => pull.accepted === false && isFirst(pull) && !ready.includes(pull));
      lease(state, ready, now);
      return { ready, held: due.length - ready.length, leased, ended, unknown };
    });
    for (const { lease } of mine(ended)) {
      if (lease) continue; // it has left, and may well have arrived
      this.refused.push(new ServerError("the ticket ended before its response arrived", 410, "expired"));
    }
    if (held) this.backOff();
    return { ready, waiting: held + leased, unknown };
  }

  /**
   * The request is out when this returns.
   *
   * @param {StoredPull} pull
   */
  #send(pull) {
    this.#sender.own.delete(pull.ticket);
    const attempt = this.#sending.get(pull.ticket) ?? this.#attempt(pull); // its page may have been left meanwhile
    this.#sending.set(pull.ticket, attempt);
    return attempt;
  }

  /**
   * @param {StoredPull} pull
   * @returns {Promise<Outcome>}
   */
  async #attempt({ url, ticket, response, curator, left = 0 }) {
    const { storage, exchangeWith } = this.#sender;
    /** @type {Outcome} */
    let outcome = true;
    try {
      await sendResponse(exchangeWith(url), ticket, response, curator.epsilon);
    } catch (error) {
      outcome = isFinal(error) && error;
    }
    try {
      await change(storage, (state) => settle(state, { ticket, response, left }, Boolean(outcome)));
      if (outcome) this.#failures = 0;
      else this.backOff();
    } catch {
      // The agent's answer stands even if the ledger cannot be written now: after a backoff the response is sent once
      // more, and answered as a duplicate or refused again.
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
    const now = this.#sender.clock();
    if (now < this.retryAt) return;
    const wait = Math.min(LONGEST_WAIT, 2 ** this.#failures++);
    this.retryAt = now + wait * (0.5 + Number(systemWords(1)[0]) / 2 ** 65);
  }
}
