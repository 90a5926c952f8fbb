/**
 * An arm for a component of React's:
 *
 *     const client = new Client(...); // once, outside of components
 *
 *     function Buy() {
 *       const { value, observe } = useDecision(client, { plain: "Buy", eager: "Buy now" }, "Buy");
 *       return <button onClick={() => observe(1)}>{value}</button>;
 *     }
 *
 * A client takes one decision, however many components show it and however often they are mounted: by strict mode, or as
 * a visitor goes to and fro. Another is taken when a component says `next()`, and spends its epsilon, and when the visitor
 * opts in or out, in any tab. A server that renders a page takes none.
 *
 * @import { Client, Pull } from "./client.js"
 *
 * @typedef {object} Snapshot
 * @property {Pull} [pull]
 * @property {Error} [error]
 * @property {boolean} isPending
 */

/**
 * @template T
 * @typedef {object} Decision
 * @property {T} value what the arm stands for; as long as there is none, what was given for otherwise
 * @property {boolean} isPending whether the agent was asked and has not answered
 * @property {Error | undefined} error why there is no arm, or why a reward came too late: for you, not for visitors
 * @property {(reward: number, options?: { clip?: boolean }) => Promise<boolean>} observe as `pull.observe`; false if there
 *   is no arm, or it is too late. A reward that is none is a RewardError
 * @property {() => Promise<unknown>} next takes another decision; until it is there, all stays as it is
 */

import { useEffect, useState, useSyncExternalStore } from "react";

import { ParameterError, RewardError } from "./errors.js";
import { checkShown, unknownArm } from "./values.js";

/** @type {Snapshot} */
const ASKED = { isPending: true };

/** The decision of one client, and who shows it. */
class Shown {
  /** @type {Snapshot} */ snapshot = ASKED;
  /** @type {Set<() => void>} */ #listeners = new Set();
  /** @type {Promise<void> | undefined} */ #asking;
  /** @type {Client} */ #client;

  /** @param {Client} client */
  constructor(client) {
    this.#client = client;
    client.onConsent?.(() => {
      this.#show(ASKED);
      if (this.#listeners.size) this.start();
    });
  }

  /** @param {() => void} listener */
  subscribe = (listener) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  /** Take the first decision, unless that was done. */
  start() {
    if (this.snapshot === ASKED) void this.next();
  }

  /** Take a decision; concurrent callers share it (single flight). */
  next = () => (this.#asking ??= this.#next());

  async #next() {
    this.#show({ ...this.snapshot, isPending: true });
    try {
      this.#show({ pull: await this.#client.decide(), isPending: false });
    } catch (error) {
      this.#show({ ...this.snapshot, error: /** @type {Error} */ (error), isPending: false });
    }
    this.#asking = undefined;
  }

  /**
   * @param {number} reward
   * @param {{ clip?: boolean }} [options]
   */
  observe = async (reward, options) => {
    const { pull } = this.snapshot;
    try {
      return (await pull?.observe(reward, options)) ?? false;
    } catch (error) {
      if (error instanceof ParameterError || error instanceof RewardError) throw error;
      if (this.snapshot.pull === pull) this.#show({ ...this.snapshot, error: /** @type {Error} */ (error) });
      return false;
    }
  };

  /** @param {Snapshot} snapshot */
  #show(snapshot) {
    this.snapshot = snapshot;
    for (const listener of this.#listeners) listener();
  }
}

/** @type {WeakMap<Client, Shown>} */
const all = new WeakMap();

/**
 * The value of the arm that a client's agent has chosen, and the way to tell what came of it.
 *
 * @template T
 * @param {Client} client the first that a component gives stays its client: one made in each render is not asked each time
 * @param {Record<string, T>} values what each arm stands for, by its name
 * @param {T} otherwise what to show until there is an arm, or if there is none
 * @param {{ qa?: string | undefined }} [options] with the name of an arm for `qa`, as for `client.decide`
 * @returns {Decision<T>}
 */
export function useDecision(client, values, otherwise, { qa } = {}) {
  checkShown("useDecision", client, values);
  const [shown] = useState(() => {
    const known = all.get(client) ?? new Shown(client);
    all.set(client, known);
    return known;
  });
  const { pull, error, isPending } = useSyncExternalStore(shown.subscribe, () => shown.snapshot, () => ASKED);
  useEffect(() => (qa ? undefined : shown.start()), [shown, qa]);
  const { next, observe } = shown;
  if (qa) return { value: Object.hasOwn(values, qa) ? values[qa] : otherwise, isPending: false, error: undefined, next: nobody, observe: nobody };
  const unknown = pull && unknownArm(values, pull.name);
  if (!pull || unknown) return { value: otherwise, isPending, error: error ?? unknown, next, observe: nobody };
  return { value: values[pull.name], isPending, error, next, observe };
}

/** Without an arm there is nothing to observe. */
async function nobody() {
  return false;
}
