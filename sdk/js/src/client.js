/**
 * Ask for an arm, observe a reward, let nothing leave but a private response.
 *
 * What is promised: the owner's limits hold before an arm is shown. A pull has a response from then on, that of the
 * default; a reward, if there is one, puts its own in that place. At the reporting moment, which was fixed before there
 * was a reward, or when the page or process is left earlier, the response is sent: whether, when and in what company it
 * leaves does not depend on the reward. It is repeated unchanged until the agent has acknowledged it.
 *
 * @import { Limits } from "./budget.js"
 * @import { State, StoredPull } from "./ledger.js"
 * @import { Storage } from "./storage.js"
 * @import { Arm } from "./wire.js"
 *
 * @typedef {object} Pull an arm was chosen, and its reward is awaited
 * @property {number} arm
 * @property {string} name of the arm
 * @property {string | null} ticket null if no response is asked for: the experiment is over, or this arm has been shown
 *   and reported before
 * @property {number} epsilon what its response costs: it is spent
 * @property {number | null} reportAt the reporting moment, in seconds since 1970: until then a reward is taken
 * @property {(reward: number, options?: { clip?: boolean }) => Promise<boolean>} observe as `Client.observe`
 *
 * @typedef {object} Flushed
 * @property {number} acknowledged responses that the agent has counted
 * @property {number} waiting responses that are stored and will be sent again, or when the budget allows it
 * @property {ServerError[]} refused one for each response that the agent will never take, since the last flush
 *
 * @typedef {object} ClientOptions
 * @property {string} key the client key
 * @property {Limits} limits what this device's owner allows, over all experiments that share the storage
 * @property {Storage} [storage] where the ledger is; that of the site on a web page, else memory
 * @property {string | (() => string | Promise<string>)} [allowance] what the site's backend has signed for a decision, where
 *   the experiment needs that; a function is called for each decision
 * @property {typeof globalThis.fetch} [fetch]
 * @property {() => number} [clock] the time in seconds, for tests
 */

import { accept } from "./accept.js";
import { checkLimits, remaining, spent } from "./budget.js";
import { checkFlag, checkOptions, checkPositive, checkText, checkUrl, clipOf } from "./checks.js";
import { curatorFromSpec } from "./curators.js";
import { LedgerError, ParameterError, ServerError, TicketError } from "./errors.js";
import { PATIENCE, tellWhenLeft, watch } from "./leaving.js";
import { change, momentOf, read } from "./ledger.js";
import { Outbox } from "./outbox.js";
import { quoted } from "./spec.js";
import { defaultStorage } from "./storage.js";
import { askDecision, poster } from "./wire.js";

/** A timer holds no more milliseconds than this. */
const LONGEST_TIMER = 2 ** 31 - 1;

/**
 * The pulls that this page or process has decided and not sent, by ticket. It may send these early, and no others: of
 * those that it finds in a storage it knows as open only the ones without a reward.
 *
 * @type {WeakMap<Storage, Map<string, StoredPull>>}
 */
const decided = new WeakMap();

/** One device's part in one experiment. Clients that share a storage share its ledger, and so their owner's limits. */
export class Client {
  /** @type {ReturnType<typeof poster>} */ #post;
  /** @type {Outbox} */ #outbox;
  /** @type {Storage} */ #storage;
  /** @type {Map<string, StoredPull>} */ #own;
  /** @type {Required<Limits>} */ #limits;
  /** @type {() => number} */ #clock;
  /** @type {string} */ #key;
  /** @type {ClientOptions["allowance"]} */ #allowance;
  /** @type {{ url: string, experiment: string }} */ #place;
  /** @type {any} */ #timer;
  #closed = false;

  /**
   * @param {string} url of the agent's server
   * @param {string} experiment its name there
   * @param {ClientOptions} options
   */
  constructor(url, experiment, options) {
    const { key, limits, allowance, storage = defaultStorage(), fetch = globalThis.fetch, clock = () => Date.now() / 1000 } =
      checkOptions("Client", options, ["key", "limits", "allowance", "storage", "fetch", "clock"]);
    checkUrl(url);
    checkText("experiment", experiment);
    // It goes into a header. It is not shown: errors are logged.
    if (!/^[ -~]+$/.test(typeof key === "string" ? key : "")) {
      throw new ParameterError("key must be a string of ASCII characters, and not empty");
    }
    if (typeof storage?.read !== "function" || typeof storage.change !== "function") {
      throw new ParameterError("storage must have read and change, as memoryStorage() has");
    }
    for (const [name, value] of Object.entries({ fetch, clock })) {
      if (typeof value !== "function") throw new ParameterError(`${name} must be a function, got ${quoted(value)}`);
    }
    checkPositive("what clock gives", clock());
    this.#place = { url: url.replace(/\/+$/, ""), experiment };
    this.#key = key;
    this.#allowance = allowance;
    this.#limits = checkLimits(limits);
    this.#storage = storage;
    this.#clock = clock;
    this.#own = decided.get(storage) ?? new Map();
    decided.set(storage, this.#own);
    this.#post = poster(fetch, this.#place.url);
    this.#outbox = new Outbox(this.#post, storage, this.#limits, clock, (pulls) => this.#mine(pulls), this.#own);
    watch();
    this.#schedule();
  }

  /**
   * Ask the agent for an arm. When this returns, the epsilon of the response to come is spent, whatever happens next.
   * While an arm is to be kept, nobody is asked and nothing is spent: it is the same pull as long as that awaits its
   * reward, and afterwards one for which no response is asked.
   *
   * Where the agent leaves a choice of epsilons, it is the one named here, else the largest within the limits. It is made
   * before there is a reward: a choice that depended on the reward would tell of it.
   *
   * @param {{ epsilon?: number }} [options]
   * @returns {Promise<Pull>}
   */
  async decide(options = {}) {
    const { epsilon } = checkOptions("decide", options, ["epsilon"]);
    if (epsilon !== undefined) checkPositive("epsilon", epsilon);
    this.#checkOpen();
    const kept = this.#kept(await read(this.#storage));
    if (kept) return kept;
    const allowance = typeof this.#allowance === "function" ? await this.#allowance() : this.#allowance;
    if (allowance !== undefined) checkText("allowance", allowance);
    const decision = await askDecision(this.#post, this.#place.experiment, this.#key, allowance);
    if (decision.ticket === null) return unasked(decision);
    const pull = await change(this.#storage, (state) => {
      this.#checkOpen();
      const now = this.#clock();
      state.arms = state.arms.filter(({ until }) => now < until);
      return this.#kept(state) ? undefined : accept(state, this.#place, decision, this.#limits, now, epsilon);
    });
    if (!pull) return this.decide(options); // another tab was first to keep an arm
    this.#own.set(pull.ticket, pull);
    tellWhenLeft(this.#leave, true);
    this.#schedule();
    return this.#shown(pull);
  }

  /**
   * The pulls whose reward is awaited: on a web page those of this page, elsewhere also those from before a restart.
   *
   * @returns {Promise<Pull[]>}
   */
  async pulls() {
    return this.#awaiting(await read(this.#storage)).map((pull) => this.#shown(pull));
  }

  /**
   * Draw the response to a reward, once, and keep it: at the reporting moment it is sent in the place of the default's.
   *
   * @param {string} ticket of the pull
   * @param {number} reward
   * @param {{ clip?: boolean }} [options] a reward out of range counts as the nearest one in range; without `clip` it is
   *   a RewardError, and the pull stays as it was
   * @returns {Promise<boolean>} true: the response is kept
   */
  async observe(ticket, reward, options = {}) {
    const clip = clipOf("observe", options, true);
    if (typeof ticket !== "string") throw new ParameterError("ticket must be a string, as pull.ticket is");
    const { notes } = this.#storage;
    const answer = (/** @type {StoredPull | undefined} */ pull) => {
      const problem = whyClosed(pull, this.#clock());
      if (problem) throw new TicketError(problem);
      const { respond, spec } = curatorFromSpec(pull?.curator);
      const response = respond(reward, { clip: clip && spec.transform.kind !== "real-line" }); // which has no range
      notes?.write(ticket, { response });
      return Object.assign(/** @type {StoredPull} */ (pull), { response, observed: true });
    };
    // On a page it is done before anything is awaited: the click may be on a link, and the page is left.
    // It looks for nothing that is due: what others left behind would leave when the reward comes, and tell of it.
    const noted = notes && answer(this.#mine(this.#own.values()).find((pull) => pull.ticket === ticket));
    const { atOnce } = noted?.atOnce
      ? noted
      : await change(this.#storage, (state) => {
          const stored = this.#mine(state.pulls).find((pull) => pull.ticket === ticket);
          return noted ? this.#confirm(noted, stored) : answer(stored);
        });
    if (atOnce) {
      await (noted ? this.#outbox.leave([noted]) : this.#outbox.flush([ticket]));
      this.#schedule();
    }
    return true;
  }

  /**
   * The epsilon that this device has spent within the window of its owner, in all experiments that share the storage.
   *
   * @returns {Promise<number>}
   */
  async spent() {
    return spent(await read(this.#storage), this.#limits, this.#clock());
  }

  /**
   * What is left of the owner's budget: what further pulls may cost within the window.
   *
   * @returns {Promise<number>}
   */
  async remaining() {
    return remaining(await read(this.#storage), this.#limits, this.#clock());
  }

  /**
   * Send every response whose reporting moment has come and that is not acknowledged.
   *
   * @returns {Promise<Flushed>}
   */
  async flush() {
    const flushed = await this.#outbox.flush();
    this.#schedule();
    return { ...flushed, refused: this.#outbox.refused.splice(0) };
  }

  /**
   * Report now, as when a page is left, the pulls that this page or process has decided, rewards or not.
   *
   * @returns {Promise<void>} when they are acknowledged, or will be sent again
   */
  leave() {
    return this.#leave();
  }

  /**
   * Leave and stop, within five seconds. What does not arrive stays stored, and the next client takes it up.
   *
   * @param {{ keep?: boolean }} [options] with `keep` open pulls stay as they are, for an app that goes on elsewhere
   */
  async close(options = {}) {
    const { keep = false } = checkOptions("close", options, ["keep"]);
    checkFlag("keep", keep);
    this.#closed = true;
    clearTimeout(this.#timer);
    if (keep) tellWhenLeft(this.#leave, false);
    else await this.#leave(PATIENCE);
  }

  /** Whoever has closed a client reports nothing more: it must not take up a pull. */
  #checkOpen() {
    if (this.#closed) throw new LedgerError("the ledger cannot be used: this client is closed");
  }

  /** Report, as the page or process is left, what it has decided; all that a page must do is done when this returns. */
  #leave = async (/** @type {number} */ patience = 0) => {
    tellWhenLeft(this.#leave, false);
    const pulls = this.#mine(this.#own.values());
    for (const { ticket } of pulls) this.#own.delete(ticket);
    const timer = patience && setTimeout(this.#post.end, patience);
    try {
      await (this.#storage.notes ? this.#outbox.leave(pulls) : this.#outbox.flush(pulls.map(({ ticket }) => ticket)));
    } catch {
      // What cannot be written now is reported by the next client.
    }
    clearTimeout(timer);
    this.#schedule();
  };

  /**
   * Set the timer to the next moment at which a flush has something to do, or to `earliest` if that is later.
   *
   * @param {number} [earliest]
   */
  async #schedule(earliest = 0) {
    /** @type {StoredPull[]} */
    let mine;
    try {
      mine = this.#mine((await read(this.#storage)).pulls);
    } catch {
      return; // whoever calls next is told
    }
    clearTimeout(this.#timer);
    tellWhenLeft(this.#leave, !this.#closed && this.#mine(this.#own.values()).length > 0);
    if (this.#closed || !mine.length) return;
    const now = this.#clock();
    const moments = mine.map((pull) => this.#outbox.moment(pull));
    const next = Math.min(...moments.map((moment) => (moment > now ? moment : this.#outbox.retryAt)));
    const wait = (Math.max(next, earliest) - now) * 1000;
    this.#timer = setTimeout(() => this.#tick(), Math.min(Math.max(wait, 0), LONGEST_TIMER));
    this.#timer.unref?.(); // in Node: a process that has nothing else to do may end
  }

  async #tick() {
    try {
      await this.#outbox.flush();
      this.#schedule();
    } catch {
      this.#outbox.backOff();
      this.#schedule(this.#outbox.retryAt);
    }
  }

  /**
   * What is kept on this device: the open pull of the arm that is to be shown, or the arm alone.
   *
   * @param {State} state
   */
  #kept(state) {
    const arm = this.#mine(state.arms).find(({ until }) => this.#clock() < until);
    if (!arm) return undefined;
    const [open] = this.#awaiting(state);
    return open ? this.#shown(open) : unasked(arm);
  }

  /** @param {State} state */
  #awaiting(state) {
    const pulls = this.#mine(this.#storage.notes ? this.#own.values() : state.pulls);
    return pulls.filter((pull) => !whyClosed(pull, this.#clock()));
  }

  /**
   * @template {{ url: string, experiment: string }} T
   * @param {Iterable<T>} all
   */
  #mine(all) {
    return [...all].filter(({ url, experiment }) => url === this.#place.url && experiment === this.#place.experiment);
  }

  /**
   * @param {StoredPull} pull
   * @returns {Pull}
   */
  #shown({ arm, name, ticket, due: reportAt, curator: { epsilon } }) {
    return { arm, name, ticket, epsilon, reportAt, observe: (reward, options) => this.observe(ticket, reward, options) };
  }

  /**
   * Store what this page has noted, unless another has sent the pull: its clock was ahead for a while.
   *
   * @param {StoredPull} noted
   * @param {StoredPull | undefined} stored
   */
  #confirm(noted, stored) {
    const { ticket, response } = noted;
    if (stored ? stored.left !== undefined && stored.response !== response : this.#own.has(ticket)) {
      this.#own.delete(ticket);
      throw new TicketError(PASSED);
    }
    return Object.assign(stored ?? noted, { response, observed: true });
  }
}

const PASSED = "the reporting moment of this pull has passed: its response is sent as it is";

/**
 * Why a pull takes no reward, if it does not.
 *
 * @param {StoredPull | undefined} pull
 * @param {number} now
 */
function whyClosed(pull, now) {
  if (!pull) return "no pull awaits a reward under this ticket: its response is sent, or it was never decided here";
  if (pull.observed) return "this pull has had its reward";
  return pull.left === undefined && now < momentOf(pull, now) ? "" : PASSED;
}

/**
 * A pull for which no response is asked.
 *
 * @param {Arm} arm
 * @returns {Pull}
 */
function unasked({ arm, name }) {
  return { arm, name, ticket: null, epsilon: 0, reportAt: null, observe: async () => false };
}
