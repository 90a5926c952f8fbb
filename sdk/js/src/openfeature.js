/**
 * A provider for the web SDK of OpenFeature: a flag is an experiment, a variant is an arm, and a tracked event is a reward.
 *
 *     const provider = new LDPBanditsProvider({ button: { client, values: { plain: "Buy", eager: "Buy now" } } });
 *     await OpenFeature.setProviderAndWait(provider);
 *     const flags = OpenFeature.getClient();
 *     flags.getStringValue("button", "Buy"); // "Buy" or "Buy now"
 *     flags.track("button", { value: 1 }); // the reward, which stays on this device
 *
 * The provider takes one decision for each flag when it starts: name the flags that this page shows. It neither reads nor
 * sends the evaluation context, which may describe the visitor.
 *
 * @import { AnyProviderEvent, EvaluationContext, EventHandler, JsonValue, Provider, ProviderEventEmitter, ResolutionDetails, TrackingEventDetails } from "@openfeature/web-sdk"
 * @import { Client, Pull } from "./client.js"
 *
 * @typedef {object} Flag
 * @property {Client} client of the experiment
 * @property {Record<string, JsonValue>} values what each arm stands for, by its name
 * @property {string} [event] the tracked event whose value is the reward; the flag's own name unless given
 * @property {string} [qa] the name of an arm, as for `client.decide`
 */

import { checkText } from "./checks.js";
import { ParameterError } from "./errors.js";
import { checkFields, shown } from "./spec.js";
import { checkShown, unknownArm } from "./values.js";

/** The event by which a flag is evaluated again. */
const CHANGED = /** @type {any} */ ("PROVIDER_CONFIGURATION_CHANGED");

/** The part of OpenFeature's emitter that its SDK calls. @implements {ProviderEventEmitter<any>} */
class Events {
  /** @type {[AnyProviderEvent, EventHandler][]} */ #handlers = [];

  /**
   * @param {AnyProviderEvent} type
   * @param {EventHandler} handler
   */
  addHandler(type, handler) {
    this.#handlers.push([type, handler]);
  }

  /**
   * @param {AnyProviderEvent} type
   * @param {EventHandler} handler
   */
  removeHandler(type, handler) {
    this.#handlers = this.#handlers.filter((each) => each[0] !== type || each[1] !== handler);
  }

  /** @param {AnyProviderEvent} [type] all of them unless given */
  removeAllHandlers(type) {
    this.#handlers = this.#handlers.filter((each) => type && each[0] !== type);
  }

  /** @param {AnyProviderEvent} type */
  getHandlers(type) {
    return this.#handlers.filter((each) => each[0] === type).map(([, handler]) => handler);
  }

  /**
   * @param {AnyProviderEvent} type
   * @param {any} details
   */
  emit(type, details) {
    for (const handler of this.getHandlers(type)) void handler(details);
  }

  setLogger() {
    return this;
  }
}

/** @implements {Provider} */
export class LDPBanditsProvider {
  metadata = /** @type {const} */ ({ name: "ldpbandits" });
  /** A server would answer for many people from one ledger. */
  runsOn = /** @type {const} */ ("client");
  events = new Events();
  /** @type {Map<string, Flag>} */ #flags;
  /** @type {Map<string, Pull | Error>} */ #decided = new Map();
  /** @type {Promise<unknown> | undefined} */ #started;
  /** @type {(error: Error) => void} */ #warn;

  /**
   * @param {Record<string, Flag>} flags
   * @param {{ warn?: (error: Error) => void }} [options] `warn` is told of a reward that could not be taken
   */
  constructor(flags, options = {}) {
    const { warn = (/** @type {Error} */ error) => console.warn(error.message) } =
      checkFields("LDPBanditsProvider", options, ["warn"]);
    if (typeof warn !== "function") throw new ParameterError("warn must be a function");
    this.#warn = warn;
    this.#flags = new Map(Object.entries(flags ?? {}));
    if (!this.#flags.size || typeof flags !== "object" || Array.isArray(flags)) {
      throw new ParameterError("LDPBanditsProvider needs flags, such as { button: { client, values } }");
    }
    for (const [key, flag] of this.#flags) {
      const what = `the flag ${shown(key)}`;
      const { client, values, event = key } = checkFields(what, flag, ["client", "values", "event", "qa"]);
      checkShown(what, client, values);
      checkText(`the event of ${what}`, event);
    }
  }

  /**
   * Take a decision for each flag. A refusal shows when the flag is evaluated: the page goes on with its default. When the
   * visitor opts in or out, the decision is taken again, and OpenFeature is told that the flag has changed.
   */
  async initialize() {
    await (this.#started ??= Promise.all(
      [...this.#flags].map(async (flag) => {
        flag[1].client.onConsent(async () => {
          await this.#decide(flag);
          this.events.emit(CHANGED, { flagsChanged: [flag[0]] });
        });
        await this.#decide(flag);
      }),
    ));
  }

  /** @param {[key: string, flag: Flag]} flag */
  async #decide([key, { client, values, qa }]) {
    this.#decided.delete(key);
    const decided = await client.decide(qa ? { qa } : {}).catch((/** @type {Error} */ error) => error);
    this.#decided.set(key, decided instanceof Error ? decided : unknownArm(values, decided.name) ?? decided);
  }

  /** Report, as when the page is left and as `onLeave` says. */
  async onClose() {
    await Promise.all([...this.#flags.values()].map(({ client }) => client.leave()));
  }

  /**
   * @param {string} key
   * @param {boolean} otherwise
   */
  resolveBooleanEvaluation(key, otherwise) {
    return this.#resolve(key, otherwise, "boolean");
  }

  /**
   * @param {string} key
   * @param {string} otherwise
   */
  resolveStringEvaluation(key, otherwise) {
    return this.#resolve(key, otherwise, "string");
  }

  /**
   * @param {string} key
   * @param {number} otherwise
   */
  resolveNumberEvaluation(key, otherwise) {
    return this.#resolve(key, otherwise, "number");
  }

  /**
   * @template {JsonValue} T
   * @param {string} key
   * @param {T} otherwise
   */
  resolveObjectEvaluation(key, otherwise) {
    return this.#resolve(key, otherwise, "object");
  }

  /**
   * Observe the value of an event as the reward of each flag that it is for.
   *
   * @param {string} event
   * @param {EvaluationContext} _context
   * @param {TrackingEventDetails} [details]
   */
  track(event, _context, details) {
    for (const [key, flag] of this.#flags) {
      const decided = this.#decided.get(key);
      if ((flag.event ?? key) !== event || !decided || decided instanceof Error) continue;
      decided.observe(/** @type {number} */ (details?.value)).catch(this.#warn);
    }
  }

  /**
   * @template {JsonValue} T
   * @param {string} key
   * @param {T} otherwise
   * @param {string} type
   * @returns {ResolutionDetails<T>}
   */
  #resolve(key, otherwise, type) {
    const failed = (/** @type {string} */ errorCode, /** @type {string} */ errorMessage) =>
      /** @type {ResolutionDetails<T>} */ ({ value: otherwise, reason: "ERROR", errorCode, errorMessage });
    const flag = this.#flags.get(key);
    if (!flag) return failed("FLAG_NOT_FOUND", "this provider has no such flag");
    const decided = this.#decided.get(key);
    if (!decided) return failed("PROVIDER_NOT_READY", "no decision was taken yet");
    if (decided instanceof Error) return failed("GENERAL", decided.message);
    const value = flag.values[decided.name];
    if (typeof value !== type) return failed("TYPE_MISMATCH", `the value of this arm is no ${type}`);
    return { value: /** @type {T} */ (value), variant: decided.name, reason: "SPLIT" };
  }
}
