/**
 * The messages to and from the agent. None has a field in which a reward could travel, and no request carries a cookie
 * or says which page it comes from.
 *
 * A response needs no key, since its ticket is signed. It is therefore sent as plain text without a header of its own: a
 * browser sends that to another site without a CORS preflight, and also while its page is being left.
 *
 * @import { CuratorSpec } from "./spec.js"
 *
 * @typedef {(path: string, request: { body?: object, key?: string, cache?: RequestCache | undefined }) => Promise<any>} Exchange sends a
 *   message, or asks for something without a body, and gives the answer of a 200
 * @typedef {{ arm: number, name: string }} Arm
 *
 * @typedef {object} Terms what is asked of a device, the same of all
 * @property {CuratorSpec[]} curators one for each epsilon that the agent leaves a choice of, the largest first
 * @property {number} default
 * @property {number} reportAfter the window, in seconds: until then a reward may come, and then the response leaves
 * @property {number} sticky
 *
 * @typedef {Terms & { ticket: string, expiresIn: number }} Asked of the device that shows an arm
 *
 * @typedef {object} Offer
 * @property {"running" | "paused" | "shipped" | "closed"} status
 * @property {Terms | undefined} terms of an experiment that is running
 * @property {Arm | null} shipped
 * @property {number[]} retired arms
 * @property {number} maxAge for how long it may be kept, in seconds
 */

import { ServerError } from "./errors.js";
import { checkMenu, isNumber, isText, shown } from "./spec.js";
import { transformed } from "./transforms.js";

const UNREADABLE = "unreadable";
const ASKED = "what the agent asks for";

/** For a whole exchange, in seconds. */
export const DEADLINE = 10;

/** In bytes. */
const LONGEST_REPLY = 1 << 20;

/**
 * @param {typeof globalThis.fetch} fetch
 * @param {string} url
 * @returns {Exchange & { end: () => void }} `end` gives up every exchange that is under way
 */
export function exchanger(fetch, url) {
  /** @type {Set<AbortController>} */
  const underWay = new Set();

  /** @type {Exchange} */
  const exchange = async (path, { body, key, cache = "default" }) => {
    const ending = new AbortController();
    underWay.add(ending);
    const timer = setTimeout(() => ending.abort(), DEADLINE * 1000);
    /** @type {any} */ (timer).unref?.(); // in Node: the exchange itself keeps the process, if there still is one
    const ended = new Promise((_, reject) => ending.signal.addEventListener("abort", reject));
    let status = 0;
    let answer;
    try {
      const reading = async () => {
        const reply = await fetch(url + path, {
          ...(body ? { method: "POST", body: JSON.stringify(body) } : { cache }),
          headers: key ? { Authorization: `Bearer ${key}`, "Content-Type": "application/json" } : {},
          credentials: "omit",
          referrerPolicy: "no-referrer",
          redirect: "error",
          keepalive: Boolean(body && !key),
          signal: ending.signal,
        });
        status = reply.status;
        return JSON.parse(await textOf(reply));
      };
      answer = await Promise.race([reading(), ended]); // a fetch may not heed its signal, above all while a body drips
    } catch (cause) {
      // The error for an unreadable reply has no cause: the cause would quote the agent.
      if (ending.signal.aborted) throw new ServerError("the agent did not answer in time", 0, "unreachable");
      if (!status) throw new ServerError("the agent cannot be reached", 0, "unreachable", cause);
      throw new ServerError(`the agent answered ${status} without JSON of at most 1 MB`, status, UNREADABLE);
    } finally {
      underWay.delete(ending);
      clearTimeout(timer);
      ending.abort(); // the rest of a reply that is too long
    }
    if (status !== 200) {
      const { code = UNREADABLE, message } = answer ?? {};
      throw new ServerError(`the agent answered ${status} ${shown(code)}: ${shown(message)}`, status, shown(code));
    }
    return answer;
  };
  return Object.assign(exchange, { end: () => underWay.forEach((ending) => ending.abort()) });
}

/**
 * The text of a reply, as long as it is not too long.
 *
 * @param {Response} reply
 */
async function textOf(reply) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (reply.body).getReader();
  const decoder = new TextDecoder();
  let [text, bytes] = ["", 0];
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    bytes += value.length;
    if (bytes > LONGEST_REPLY) throw new RangeError(); // post says why
    text += decoder.decode(value, { stream: true });
  }
}

const YEAR = 366 * 24 * 3600;

/** The longest time for which an offer is kept, in seconds, whatever the agent says. */
const LONGEST_AGE = 3600;

/** @param {unknown} arm */
const isArm = (arm) => Number.isInteger(arm) && Number(arm) >= 0 && Number(arm) < 2 ** 31;

const pathOf = (/** @type {string} */ experiment, /** @type {string} */ what) =>
  `/v1/experiments/${encodeURIComponent(experiment)}/${what}`;

/**
 * @param {string} what
 * @param {unknown} [cause]
 */
export const unreadable = (what, cause) => new ServerError(`${what} cannot be read`, 200, UNREADABLE, cause);

/**
 * Believe nothing about what an agent asks for that was not checked.
 *
 * @param {any} answer
 * @returns {Terms}
 */
function termsOf({ curator, default: reward, report_after: reportAfter, sticky = 0 }) {
  const isReadable = [reportAfter, sticky].every((seconds) => isNumber(seconds) && seconds >= 0 && seconds <= YEAR);
  if (!isReadable) throw unreadable(ASKED);
  try {
    const curators = checkMenu(curator);
    transformed(curators[0].transform, reward);
    return { curators, default: reward, reportAfter, sticky };
  } catch (cause) {
    throw unreadable(ASKED, cause);
  }
}

/**
 * Read what an experiment will ask for, before it is asked for an arm.
 *
 * @param {Exchange} exchange
 * @param {string} experiment
 * @param {RequestCache} [cache]
 * @returns {Promise<Offer>}
 */
export async function readOffer(exchange, experiment, cache) {
  let answer;
  try {
    answer = (await exchange(pathOf(experiment, "offer"), { cache })) ?? {};
  } catch (cause) {
    const { status, message } = /** @type {ServerError} */ (cause);
    if (status !== 405 && (status !== 404 || message.includes("no experiment"))) throw cause;
    throw new ServerError("the agent's server is older than this device: update the server first", status, UNREADABLE);
  }
  const { status, shipped, retired, max_age: maxAge } = answer;
  const isReadable =
    ["running", "paused", "shipped", "closed"].includes(status) && Array.isArray(retired) && retired.every(isArm) &&
    isNumber(maxAge) && maxAge >= 0 && (status === "shipped" ? isArm(shipped?.arm) && isText(shipped.name) : !shipped);
  if (!isReadable) throw unreadable("the agent's offer");
  return { status, terms: status === "running" ? termsOf(answer) : undefined, shipped, retired, maxAge: Math.min(maxAge, LONGEST_AGE) };
}

/**
 * Ask for an arm.
 *
 * @param {Exchange} exchange
 * @param {string} experiment
 * @param {string} key
 * @param {string} [allowance]
 * @returns {Promise<Arm & (Asked | { ticket: null })>} without a ticket, no response is asked for
 */
export async function askDecision(exchange, experiment, key, allowance) {
  const answer = (await exchange(pathOf(experiment, "decisions"), { body: { allowance }, key })) ?? {};
  const { arm, name, ticket, expires_in: expiresIn } = answer;
  const isShown = isArm(arm) && isText(name);
  if (isShown && [ticket, answer.curator, answer.default, answer.report_after, expiresIn].every((value) => value === null)) {
    return { arm, name, ticket };
  }
  const isAsked = isText(ticket) && ticket && isNumber(expiresIn) && expiresIn <= YEAR && answer.report_after < expiresIn;
  if (!isShown || !isAsked) throw unreadable("the agent's decision");
  return { arm, name, ticket, expiresIn, ...termsOf(answer) };
}

/**
 * Tell the agent that a pull was accepted: before there is a reward, so that it tells nothing of one.
 *
 * @param {Exchange} exchange
 * @param {string} ticket
 */
export async function sendAcceptance(exchange, ticket) {
  checkAcknowledged(await exchange("/v1/acceptances", { body: { ticket } }), "accepted");
}

/**
 * Send a response; returns when the agent has counted it, now or before.
 *
 * @param {Exchange} exchange
 * @param {string} ticket
 * @param {number} response
 * @param {number} epsilon by which it was drawn
 */
export async function sendResponse(exchange, ticket, response, epsilon) {
  checkAcknowledged(await exchange("/v1/responses", { body: { ticket, response, epsilon } }), "counted");
}

/**
 * Only the protocol's own words are an acknowledgement: a hotel's login page answers 200 as well.
 *
 * @param {any} answer
 * @param {string} status where it is not known from an earlier try
 */
function checkAcknowledged(answer, status) {
  if (![status, "duplicate"].includes(answer?.status)) throw unreadable("the agent's acknowledgement");
}

/** The agent's codes for a response that it refuses for good. */
const FINAL = ["forged", "changed", "expired", "closed", "impossible", "malformed"];

/**
 * Whether to give a response up. Any other failure may pass, above all one that was not the agent's but came from
 * something between it and the device.
 *
 * @param {unknown} error
 * @returns {error is ServerError}
 */
export function isFinal(error) {
  return error instanceof ServerError && FINAL.includes(error.code);
}
