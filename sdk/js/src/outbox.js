/**
 * Responses on their way: each is sent unchanged until the agent acknowledges it, or says that it never will.
 *
 * @import { StoredPull } from "./ledger.js"
 * @import { Storage } from "./storage.js"
 * @import { Post } from "./wire.js"
 */

import { change } from "./ledger.js";
import { systemWords } from "./randomness.js";
import { isFinal, sendResponse } from "./wire.js";

/** In seconds, and in doublings from one second. */
const LONGEST_WAIT = 300;

export class Outbox {
  /** When to try again, in seconds of the device's clock. */
  retryAt = 0;
  #failures = 0;
  /** @type {Map<string, Promise<boolean>>} */ #sending = new Map();
  /** @type {Post} */ #post;
  /** @type {Storage} */ #storage;
  /** @type {() => number} */ #clock;

  /**
   * @param {Post} post
   * @param {Storage} storage
   * @param {() => number} clock
   */
  constructor(post, storage, clock) {
    this.#post = post;
    this.#storage = storage;
    this.#clock = clock;
  }

  /**
   * Send a stored response; true if it is acknowledged, false if it must be sent again. A refusal is thrown.
   *
   * @param {StoredPull} pull
   * @returns {Promise<boolean>}
   */
  send(pull) {
    const sending = this.#sending.get(pull.ticket) ?? this.#attempt(pull);
    this.#sending.set(pull.ticket, sending); // a flush during an attempt waits for it instead of sending twice
    return sending;
  }

  /** @param {StoredPull} pull */
  async #attempt({ ticket, response, curator }) {
    try {
      await sendResponse(this.#post, ticket, response, curator.epsilon);
      await this.#forget(ticket);
      return true;
    } catch (error) {
      if (isFinal(error)) {
        await this.#forget(ticket);
        throw error;
      }
      this.backOff();
      return false;
    } finally {
      this.#sending.delete(ticket);
    }
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

  /**
   * What the agent has answered stands even if the ledger cannot be written now: the response will be sent once more,
   * not at once, and answered as a duplicate or refused again.
   *
   * @param {string} ticket
   */
  async #forget(ticket) {
    try {
      await change(this.#storage, (state) => {
        state.pulls = state.pulls.filter((pull) => pull.ticket !== ticket);
      });
      this.#failures = 0;
    } catch {
      this.backOff();
    }
  }
}
