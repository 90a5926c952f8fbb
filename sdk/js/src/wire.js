/**
 * The messages to and from the agent. None has a field in which a reward could travel, and no request carries a cookie
 * or says which page it comes from.
 *
 * A response needs no key, since its ticket is signed. So it goes as plain text without a header of its own: a browser
 * sends that to another site without asking the site first, and also while its page is being left.
 *
 * @import { CuratorSpec } from "./spec.js"
 *
 * @typedef {(path: string, body: object, key?: string) => Promise<any>} Post sends a message and gives the answer of a 200
 * @typedef {{ arm: number, name: string }} Arm
 * @typedef {object} Asked what is asked of the device that shows the arm
 * @property {string} ticket
 * @property {CuratorSpec[]} curators one for each epsilon that the agent leaves a choice of, the largest first
 * @property {number} default
 * @property {number} reportAfter
 * @property {number} sticky
 * @property {number} expiresIn
 */

import { ServerError } from "./errors.js";
import { checkMenu, isNumber, isText, shown } from "./spec.js";
import { transformed } from "./transforms.js";

const UNREADABLE = "unreadable";

/** For a whole exchange, in seconds. */
export const DEADLINE = 10;

/** In bytes. */
const LONGEST_REPLY = 1 << 20;

/**
 * @param {typeof globalThis.fetch} fetch
 * @param {string} url
 * @returns {Post & { end: () => void }} `end` gives up every exchange that is under way
 */
export function poster(fetch, url) {
  /** @type {Set<AbortController>} */
  const underWay = new Set();

  /** @type {Post} */
  const post = async (path, body, key) => {
    const ending = new AbortController();
    underWay.add(ending);
    const timer = setTimeout(() => ending.abort(), DEADLINE * 1000);
    /** @type {any} */ (timer).unref?.(); // in Node: the exchange itself keeps the process, if there still is one
    const ended = new Promise((_, reject) => ending.signal.addEventListener("abort", reject));
    let status = 0;
    let answer;
    try {
      const exchange = async () => {
        const reply = await fetch(url + path, {
          method: "POST",
          headers: key ? { Authorization: `Bearer ${key}`, "Content-Type": "application/json" } : {},
          body: JSON.stringify(body),
          credentials: "omit",
          referrerPolicy: "no-referrer",
          redirect: "error",
          keepalive: !key,
          signal: ending.signal,
        });
        status = reply.status;
        return JSON.parse(await textOf(reply));
      };
      answer = await Promise.race([exchange(), ended]); // a fetch may not heed its signal, above all while a body drips
    } catch (cause) {
      // Of a reply that cannot be read no cause is given: it would quote the agent.
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
  return Object.assign(post, { end: () => underWay.forEach((ending) => ending.abort()) });
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

/**
 * Ask for an arm, and believe nothing about the answer that was not checked.
 *
 * @param {Post} post
 * @param {string} experiment
 * @param {string} key
 * @param {string} [allowance]
 * @returns {Promise<Arm & (Asked | { ticket: null })>} without a ticket, no response is asked for
 */
export async function askDecision(post, experiment, key, allowance) {
  const answer = (await post(`/v1/experiments/${encodeURIComponent(experiment)}/decisions`, { allowance }, key)) ?? {};
  const { arm, name, ticket, default: reward, report_after: reportAfter, sticky = 0, expires_in: expiresIn } = answer;
  const isArm =
    Number.isInteger(arm) && arm >= 0 && arm < 2 ** 31 && isText(name) &&
    isNumber(sticky) && sticky >= 0 && sticky <= YEAR;
  if (isArm && [ticket, answer.curator, reward, reportAfter, expiresIn].every((value) => value === null)) {
    return { arm, name, ticket };
  }
  const isAsked =
    isText(ticket) && ticket && isNumber(expiresIn) && expiresIn <= YEAR &&
    isNumber(reportAfter) && reportAfter >= 0 && reportAfter < expiresIn;
  if (!isArm || !isAsked) throw new ServerError("the agent's decision cannot be read", 200, UNREADABLE);
  let curators;
  try {
    curators = checkMenu(answer.curator);
    transformed(curators[0].transform, reward);
  } catch (cause) {
    throw new ServerError("the agent asks for a curator there is not, or its default is no reward", 200, UNREADABLE, cause);
  }
  return { arm, name, ticket, curators, default: reward, reportAfter, sticky, expiresIn };
}

/**
 * Send a response; returns when the agent has counted it, now or before.
 *
 * @param {Post} post
 * @param {string} ticket
 * @param {number} response
 * @param {number} epsilon by which it was drawn
 */
export async function sendResponse(post, ticket, response, epsilon) {
  const answer = await post("/v1/responses", { ticket, response, epsilon });
  // Only the protocol's own words are an acknowledgement: a hotel's login page answers 200 as well.
  if (answer?.status !== "counted" && answer?.status !== "duplicate") {
    throw new ServerError("the agent's acknowledgement cannot be read", 200, UNREADABLE);
  }
}

/** What the agent says of a response that it will never take. */
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
