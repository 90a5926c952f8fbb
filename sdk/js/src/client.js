/**
 * Ask for an arm, observe a reward, let nothing leave but a private response.
 *
 * The promise: the owner's limits hold before an arm is asked for. A pull has a response from then on, that of the default,
 * which the response to a reward replaces. The response leaves at the reporting moment, which was fixed before there was a
 * reward: sent by any open page of the site, or by its service worker, or by a process; where none is there, by the next
 * visit, or earlier as the page or process is left, as `onLeave` says. It is retried unchanged until the agent has
 * acknowledged it.
 *
 * @import { Limits } from "./limits.js"
 * @import { KeptArm, State, StoredPull } from "./ledger.js"
 * @import { Storage } from "./storage.js"
 * @import { Asked, Offer } from "./wire.js"
 *
 * @typedef {object} Pull an arm was chosen, and its reward is awaited
 * @property {number | null} arm null in a test by `qa`
 * @property {string} name of the arm
 * @property {string | null} ticket null if no response is asked for: the experiment is over, or this arm has been shown
 *   and reported before
 * @property {number} epsilon of its response, which is charged already
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
 * @property {Limits} limits of this device's owner, over all experiments that share the storage
 * @property {Storage} [storage] of the ledger; that of the site on a web page, else memory
 * @property {"send" | "next-visit"} [onLeave] what becomes of a response whose moment has not come as its page or process
 *   is left; on a web page it must be named, unless there is a `worker`
 * @property {Worker | (() => Worker)} [worker] the service worker of the site, which sends in the place of its pages; a
 *   function registers it once there is consent: a registration is stored, too
 * @property {"given" | "required"} [consent] with "required" nothing is asked and nothing stored before `optIn()`
 * @property {boolean} [allowAutomated] whether automated browsers and crawlers take part
 * @property {string | (() => string | Promise<string>)} [allowance] that the site's backend has signed for a decision, where
 *   the experiment needs one; a function is called for each decision
 * @property {typeof globalThis.fetch} [fetch]
 * @property {() => number} [clock] the time in seconds, for tests
 *
 * @typedef {ServiceWorkerRegistration | undefined | Promise<ServiceWorkerRegistration | undefined>} Worker
 */

import { accept, choose } from "./decision.js";
import { checkConsent } from "./consent.js";
import { checkLimits, clear, erase, remaining, spent } from "./limits.js";
import { checkFlag, checkPositive, checkText, checkUrl, clipOf } from "./checks.js";
import { curatorFromSpec } from "./curators.js";
import { LedgerError, ParameterError, ServerError, TicketError } from "./errors.js";
import { LEAVE_TIMEOUT_MS, onConsent, tellConsent, tellWhenLeft, watch } from "./lifecycle.js";
import { change, momentOf, read } from "./ledger.js";
import { Outbox } from "./outbox.js";
import { systemWords } from "./randomness.js";
import { checkChoice, checkFields, refuse } from "./spec.js";
import { defaultStorage } from "./storage.js";
import { askDecision, DEADLINE, exchanger, readOffer, unreadable } from "./wire.js";

/** A timer holds no more milliseconds than this. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** The longest random delay of a service worker, in seconds. */
const LONGEST_DELAY_S = 1;

/** How long a page waits for the service worker before it calls it again, in seconds: it may have been ended. */
const WORKER_GRACE_S = 3;

/**
 * The pulls that this page or process has decided and not sent, by ticket. It may send these early, and no others: in a
 * storage it recognises as open only the pulls without a reward.
 *
 * @type {WeakMap<Storage, Map<string, StoredPull>>}
 */
const decided = new WeakMap();

/** One device's part in one experiment. Clients that share a storage share its ledger, and so their owner's limits. */
export class Client {
  /** @type {ReturnType<typeof exchanger>} */ #exchange;
  /** @type {Outbox} */ #outbox;
  /** @type {Storage} */ #storage;
  /** @type {Map<string, StoredPull>} */ #own;
  /** The pulls of this experiment as they were last read. @type {StoredPull[]} */ #known = [];
  /** @type {Required<Limits>} */ #limits;
  /** @type {() => number} */ #clock;
  /** @type {string} */ #key;
  /** @type {ClientOptions["allowance"]} */ #allowance;
  /** @type {{ url: string, experiment: string }} */ #place;
  /** @type {(state: State) => void} */ #checkConsent;
  /** @type {boolean} */ #sendsEarly;
  /** @type {ClientOptions["worker"]} */ #worker;
  /** The offer that was last read outside of a web page, which has a cache. @type {{ offer: Offer, at: number } | undefined} */ #offer;
  /** @type {any} */ #timer;
  /** @type {() => void} */ #unlisten;
  #closed = false;

  /**
   * @param {string} url of the agent's server
   * @param {string} experiment its name there
   * @param {ClientOptions} options
   */
  constructor(url, experiment, options) {
    const {
      key, limits, allowance, worker, consent = "given", allowAutomated = false, storage = defaultStorage(),
      onLeave = worker || !storage?.note ? (worker ? "next-visit" : "send") : undefined,
      fetch = globalThis.fetch, clock = () => Date.now() / 1000,
    } = checkFields("Client", options, [
      "key", "limits", "allowance", "storage", "onLeave", "worker", "consent", "allowAutomated", "fetch", "clock",
    ]);
    checkUrl(url);
    checkText("experiment", experiment);
    // It goes into a header. It is not shown: errors are logged.
    if (!/^[ -~]+$/.test(typeof key === "string" ? key : "")) {
      throw new ParameterError("key must be a string of ASCII characters, and not empty");
    }
    if (typeof storage?.read !== "function" || typeof storage.change !== "function") {
      throw new ParameterError("storage must have read and change");
    }
    for (const [name, value] of Object.entries({ fetch, clock })) {
      if (typeof value !== "function") refuse(name, "a function", value);
    }
    checkPositive("what clock gives", clock());
    checkFlag("allowAutomated", allowAutomated);
    checkChoice("consent", consent, ["given", "required"]);
    if (onLeave !== "send" && onLeave !== "next-visit") {
      refuse("onLeave", '"send", which tells when a page was left, or "next-visit", which tells who comes back', onLeave);
    }
    this.#place = { url: url.replace(/\/+$/, ""), experiment };
    this.#key = key;
    this.#allowance = allowance;
    this.#limits = checkLimits(limits);
    this.#storage = storage;
    this.#clock = clock;
    this.#worker = worker;
    this.#sendsEarly = onLeave === "send";
    this.#checkConsent = (state) => checkConsent(state, consent, allowAutomated);
    this.#own = decided.get(storage) ?? new Map();
    decided.set(storage, this.#own);
    this.#exchange = exchanger(fetch, this.#place.url);
    this.#outbox = new Outbox({
      storage, clock, own: this.#own,
      exchangeWith: () => this.#exchange,
      mine: (pulls) => this.#mine(pulls),
      clear: (state, pulls, now) => clear(state, pulls, this.#limits, now),
    });
    watch();
    // After somebody has opted out no page sends from its memory.
    this.#unlisten = onConsent(async () => void this.#disown(await this.#look().catch(() => [])));
    this.#schedule();
  }

  /**
   * Ask the agent for an arm, if its offer is within the owner's limits. When this returns, the epsilon of the response to
   * come is spent, whatever happens next. While an arm is to be kept, and the offer has not taken it back, nothing is asked
   * and nothing spent: it is the same pull as long as that awaits its reward, and afterwards one for which no response is
   * asked.
   *
   * Where the agent leaves a choice of epsilons, it is the one named here, else the largest within the limits. It is made
   * before there is a reward: a choice that depended on the reward would tell of it.
   *
   * @param {{ epsilon?: number, qa?: string }} [options] with the name of an arm for `qa` that arm is shown, for a test of
   *   the page: nobody is asked, and nothing counts
   * @returns {Promise<Pull>}
   */
  async decide(options = {}) {
    const { epsilon, qa } = checkFields("decide", options, ["epsilon", "qa"]);
    if (epsilon !== undefined) checkPositive("epsilon", epsilon);
    this.#checkOpen();
    if (qa !== undefined) {
      checkText("qa", qa);
      return unasked({ arm: null, name: qa });
    }
    const state = await read(this.#storage);
    this.#checkConsent(state);
    void this.#workerOf();
    let offer;
    try {
      offer = await this.#readOffer();
    } catch (error) {
      const kept = this.#kept(state);
      if (kept && /** @type {ServerError} */ (error).code !== "not_found") return kept; // the agent is not there
      throw error;
    }
    const { status, shipped } = offer;
    const keeps = this.#keeps(offer);
    if (!state.arms.every(keeps)) await change(this.#storage, (state) => void (state.arms = state.arms.filter(keeps)));
    if (shipped) return unasked(shipped);
    if (!offer.terms) throw new ServerError(`the experiment is ${status}`, status === "paused" ? 409 : 410, status);
    const kept = this.#kept({ ...state, arms: state.arms.filter(keeps) });
    if (kept) return kept;
    choose(state, offer.terms, this.#limits, this.#clock(), epsilon);
    const allowance = typeof this.#allowance === "function" ? await this.#allowance() : this.#allowance;
    if (allowance !== undefined) checkText("allowance", allowance);
    const decision = await askDecision(this.#exchange, this.#place.experiment, this.#key, allowance);
    if (decision.ticket === null) return unasked(decision);
    if (!agree(decision, offer) && !agree(decision, await this.#readOffer("reload"))) {
      throw unreadable("the agent's decision, which differs from its offer,");
    }
    const hasWorker = Boolean(await this.#workerOf());
    const isEarly = this.#sendsEarly && !hasWorker;
    const sending = {
      ofPage: isEarly && Boolean(this.#storage.note),
      delay: hasWorker ? (LONGEST_DELAY_S * Number(systemWords(1)[0])) / 2 ** 64 : 0,
    };
    const pull = await change(this.#storage, (state) => {
      this.#checkOpen();
      this.#checkConsent(state);
      return this.#kept(state) ? undefined : accept(state, this.#place, decision, this.#limits, this.#clock(), epsilon, sending);
    });
    if (!pull) return this.decide(options); // another tab was first to keep an arm
    await this.#callWorker(); // before anybody sees the arm, and leaves
    this.#known.push(pull);
    if (isEarly) {
      this.#own.set(pull.ticket, pull);
      tellWhenLeft(this.#leave, true);
    }
    void this.#outbox.accept(pull).then(() => this.#schedule());
    this.#schedule();
    return this.#shown(pull);
  }

  /**
   * The pulls whose reward is awaited, also those of the site's other pages, or from before a restart. (Where a page sends
   * as it is left, its pulls are its own.)
   *
   * @returns {Promise<Pull[]>}
   */
  async pulls() {
    return this.#awaiting(await this.#look()).map((pull) => this.#shown(pull));
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
    if (typeof ticket !== "string") throw new ParameterError("ticket must be a string, as pull.ticket is");
    return this.#observe((pulls) => pulls.find((pull) => pull.ticket === ticket), reward, options);
  }

  /**
   * Observe the reward of the newest pull of this experiment that awaits one, whichever page of the site decided it.
   *
   * @param {number} reward
   * @param {{ clip?: boolean }} [options] as for `observe`
   * @returns {Promise<boolean>} true: the response is kept; false: no pull awaits a reward
   */
  async observeLatest(reward, options = {}) {
    return this.#observe((pulls) => this.#awaiting(pulls).pop(), reward, options).catch((error) => {
      if (error instanceof TicketError) return false;
      throw error;
    });
  }

  /**
   * On a page the response is on its way to the storage before anything is awaited: the click may be on a link, and the page
   * is left. Nothing here looks for what is due: what others left behind would leave when the reward comes, and tell of it.
   *
   * @param {(pulls: StoredPull[]) => StoredPull | undefined} pick
   * @param {number} reward
   * @param {{ clip?: boolean }} options
   */
  async #observe(pick, reward, options) {
    const clip = clipOf("observe", options, true);
    const answer = (/** @type {StoredPull | undefined} */ pull) => {
      const problem = this.#whyClosed(pull);
      if (problem) throw new TicketError(problem);
      const { respond, spec } = curatorFromSpec(pull?.curator);
      const response = respond(reward, { clip: clip && spec.transform.kind !== "real-line" }); // which has no range
      return { pull: /** @type {StoredPull} */ (pull), response };
    };
    const { note } = this.#storage;
    const known = note && pick(this.#known);
    /** @type {StoredPull} */
    let observed;
    if (known) {
      const { response } = answer(known);
      await note({ ticket: known.ticket, response }).catch((cause) => {
        throw cause?.name === "ConstraintError" ? new TicketError(OBSERVED) : new LedgerError("the ledger cannot be written", { cause });
      });
      const stored = (await this.#look()).find(({ ticket }) => ticket === known.ticket);
      if (!stored?.observed || stored.response !== response) throw new TicketError(PASSED); // another page was first to send
      observed = stored;
    } else {
      observed = await change(this.#storage, (state) => {
        const { pull, response } = answer(pick(this.#mine(state.pulls)));
        return Object.assign(pull, { response, observed: true });
      });
    }
    Object.assign(this.#own.get(observed.ticket) ?? {}, observed);
    if (observed.atOnce) await this.#tick();
    return true;
  }

  /** Take part in this site's experiments, also where consent is required or the browser says otherwise to all sites. */
  optIn() {
    return this.#say((state) => (state.consent = "in"));
  }

  /** Take part no more in any experiment of this site, in no tab, until `optIn()`: nothing is asked, and nothing leaves. */
  optOut() {
    return this.#say((state) => Object.assign(state, { consent: "out", pulls: [], arms: [] }));
  }

  /**
   * Opt out, and remove what is kept here. One sum stays, of what was spent, so that the budget is not full again. A response that was
   * sent is a random number in a tally that nobody can find again.
   */
  forget() {
    return this.#say((state) => {
      erase(state);
      state.consent = "out";
    });
  }

  /**
   * @param {(state: State) => unknown} edit
   */
  async #say(edit) {
    await change(this.#storage, (state) => void edit(state));
    tellConsent();
  }

  /**
   * Call a listener when somebody has opted in or out, here or in another tab.
   *
   * @param {() => void} listener
   * @returns {() => void} which ends it
   */
  onConsent(listener) {
    return onConsent(listener);
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
   * The rest of the owner's budget: the epsilon that further pulls may cost within the window.
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
   * Report now the pulls that this page or process has decided, rewards or not, as when it is left. With `onLeave` of
   * "next-visit" they wait for their moment.
   *
   * @returns {Promise<void>} when they are acknowledged, or will be sent again
   */
  leave() {
    return this.#leave();
  }

  /**
   * Leave and stop, within five seconds. Responses that do not arrive stay stored, and the next client sends them.
   *
   * @param {{ keep?: boolean }} [options] with `keep` open pulls stay unchanged, for an app that goes on elsewhere
   */
  async close(options = {}) {
    const { keep = false } = checkFields("close", options, ["keep"]);
    checkFlag("keep", keep);
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#unlisten();
    if (keep) tellWhenLeft(this.#leave, false);
    else await this.#leave(LEAVE_TIMEOUT_MS);
  }

  /** Refuse calls of a closed client: it would not report a new pull. */
  #checkOpen() {
    if (this.#closed) throw new LedgerError("the ledger cannot be used: this client is closed");
  }

  /** Report the pulls of a page or process that is being left; a page's own work is done when this returns a promise. */
  #leave = async (/** @type {number} */ timeoutMs = 0) => {
    tellWhenLeft(this.#leave, false);
    const pulls = this.#disown([]);
    this.#known = [];
    const timer = timeoutMs && setTimeout(this.#exchange.end, timeoutMs);
    try {
      await (this.#storage.note ? this.#outbox.leave(pulls) : this.#outbox.flush(pulls.map(({ ticket }) => ticket)));
    } catch {
      // The next client reports the pulls that cannot be written now.
    }
    clearTimeout(timer);
    this.#schedule();
  };

  /**
   * The pulls that this page sends early no more: all but those that are kept.
   *
   * @param {StoredPull[]} kept
   */
  #disown(kept) {
    const tickets = kept.map(({ ticket }) => ticket);
    const gone = this.#mine(this.#own.values()).filter(({ ticket }) => !tickets.includes(ticket));
    for (const { ticket } of gone) this.#own.delete(ticket);
    return gone;
  }

  /** Read the pulls of this experiment. */
  async #look() {
    return (this.#known = this.#mine((await read(this.#storage)).pulls));
  }

  /**
   * Set the timer to the next moment at which there is something to do, or to `earliest` if that is later.
   *
   * @param {number} [earliest]
   */
  async #schedule(earliest = 0) {
    /** @type {StoredPull[]} */
    let mine;
    try {
      mine = await this.#look();
    } catch {
      return; // the next call tells it
    }
    clearTimeout(this.#timer);
    tellWhenLeft(this.#leave, !this.#closed && this.#mine(this.#own.values()).length > 0);
    if (this.#closed || !mine.length) return;
    if (!earliest) void this.#callWorker();
    const next = Math.min(...mine.map((pull) => this.#outbox.next(pull)));
    const patience = this.#worker ? WORKER_GRACE_S : 0;
    const wait = (Math.max(next + patience, earliest) - this.#clock()) * 1000;
    this.#timer = setTimeout(() => this.#tick(), Math.min(Math.max(wait, 0), LONGEST_TIMER));
    this.#timer.unref?.(); // in Node: a process that has nothing else to do may end
  }

  /** Have the service worker send what is due now or later; false if there is none. */
  async #callWorker() {
    const worker = await this.#workerOf();
    worker?.postMessage("ldpbandits");
    return Boolean(worker);
  }

  async #workerOf() {
    if (typeof this.#worker === "function") this.#worker = this.#worker();
    const registration = await this.#worker;
    return registration?.active ?? registration?.waiting ?? registration?.installing;
  }

  async #tick() {
    try {
      if (await this.#callWorker()) return void this.#schedule(this.#clock() + DEADLINE);
      await this.#outbox.flush();
      this.#schedule();
    } catch {
      this.#outbox.backOff();
      this.#schedule(this.#outbox.retryAt);
    }
  }

  /**
   * The present offer. Pages have the browser's cache; elsewhere it is kept here for as long as it says.
   *
   * @param {RequestCache} [cache]
   */
  async #readOffer(cache) {
    const now = this.#clock();
    const kept = this.#offer;
    if (!cache && kept && Math.abs(now - kept.at) < kept.offer.maxAge) return kept.offer; // the clock may be set back
    const offer = await readOffer(this.#exchange, this.#place.experiment, cache);
    if (!this.#storage.note) this.#offer = { offer, at: now };
    return offer;
  }

  /**
   * The sticky arm of this device: its open pull, or the arm alone.
   *
   * @param {State} state
   */
  #kept(state) {
    const arm = this.#mine(state.arms).find(({ until }) => this.#clock() < until);
    if (!arm) return undefined;
    this.#known = this.#mine(state.pulls);
    const [open] = this.#awaiting(this.#known);
    return open ? this.#shown(open) : unasked(arm);
  }

  /**
   * Which sticky arms are kept: until their time is over, or an offer has taken them back.
   *
   * @param {Offer} offer
   * @returns {(arm: KeptArm) => boolean}
   */
  #keeps({ terms, retired }) {
    const now = this.#clock();
    return (arm) => now < arm.until && (!this.#mine([arm]).length || Boolean(terms && !retired.includes(arm.arm)));
  }

  /** @param {StoredPull[]} pulls */
  #awaiting(pulls) {
    return this.#mine(pulls).filter((pull) => !this.#whyClosed(pull));
  }

  /**
   * Why a pull takes no reward, if it does not.
   *
   * @param {StoredPull | undefined} pull
   */
  #whyClosed(pull) {
    if (!pull || (pull.ofPage && !this.#own.has(pull.ticket))) {
      return "no pull awaits a reward under this ticket";
    }
    if (pull.observed) return OBSERVED;
    const now = this.#clock();
    return pull.left === undefined && now < momentOf(pull, now) ? "" : PASSED;
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
}

const OBSERVED = "this pull has had its reward";
const PASSED = "the reporting moment of this pull has passed";

/**
 * Whether a decision asks for what was offered.
 *
 * @param {Asked} decision
 * @param {Offer} offer
 */
function agree(decision, { terms }) {
  const { curators, default: reward, reportAfter, sticky } = decision;
  return JSON.stringify({ curators, default: reward, reportAfter, sticky }) === JSON.stringify(terms);
}

/**
 * A pull for which no response is asked.
 *
 * @param {{ arm: number | null, name: string }} arm
 * @returns {Pull}
 */
function unasked({ arm, name }) {
  return { arm, name, ticket: null, epsilon: 0, reportAt: null, observe: async () => false };
}
