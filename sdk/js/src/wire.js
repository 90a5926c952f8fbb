/**
 * The messages to and from the agent. None has a field in which a reward could travel, and no request carries a cookie
 * or says which page it comes from.
 *
 * @import { CuratorSpec } from "./spec.js"
 *
 * @typedef {(path: string, body: object) => Promise<any>} Post sends a message and gives the answer of a 200
 * @typedef {{ arm: number, name: string, ticket: string, curators: CuratorSpec[], default: number, expiresIn: number }} Decision by
 *   each curator that the agent leaves a choice of, the largest epsilon first
 */

import { ServerError } from "./errors.js";
import { checkMenu, isNumber, shown } from "./spec.js";
import { transformed } from "./transforms.js";

const UNREADABLE = "unreadable";

/**
 * @param {typeof globalThis.fetch} fetch
 * @param {string} url
 * @param {string} key
 * @returns {Post}
 */
export function poster(fetch, url, key) {
  return async (path, body) => {
    let status = 0;
    let answer;
    try {
      const reply = await fetch(url + path, {
        method: "POST",
        headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/json" },
        body: JSON.stringify(body),
        credentials: "omit",
        referrerPolicy: "no-referrer",
        redirect: "error",
        signal: AbortSignal.timeout(30_000),
      });
      status = reply.status;
      answer = await reply.json();
    } catch (cause) {
      const [said, code] = status ? [`answered ${status} without JSON`, UNREADABLE] : ["cannot be reached", "unreachable"];
      throw new ServerError(`the agent ${said}`, status, code, cause);
    }
    if (status !== 200) {
      const { code = UNREADABLE, message } = answer ?? {};
      throw new ServerError(`the agent answered ${status} ${shown(code)}: ${shown(message)}`, status, shown(code));
    }
    return answer;
  };
}

const LONGEST_LIFETIME = 366 * 24 * 3600;

/**
 * Whether this is a text that a device may have to store: an agent must not fill its storage.
 *
 * @param {unknown} text
 */
const isText = (text) => typeof text === "string" && text.length <= 1000;

/**
 * Ask for an arm, and believe nothing about the answer that was not checked.
 *
 * @param {Post} post
 * @param {string} experiment
 * @returns {Promise<Decision>}
 */
export async function askDecision(post, experiment) {
  const answer = await post(`/v1/experiments/${encodeURIComponent(experiment)}/decisions`, {});
  const { arm, name, ticket, default: reward, expires_in: expiresIn } = answer ?? {};
  const isRead =
    Number.isInteger(arm) && arm >= 0 && arm < 2 ** 31 && isText(name) && isText(ticket) && ticket &&
    isNumber(expiresIn) && expiresIn > 0 && expiresIn <= LONGEST_LIFETIME;
  if (!isRead) throw new ServerError("the agent's decision cannot be read", 200, UNREADABLE);
  let curators;
  try {
    curators = checkMenu(answer.curator);
    transformed(curators[0].transform, reward);
  } catch (cause) {
    throw new ServerError("the agent asks for a curator there is not, or its default is no reward", 200, UNREADABLE, cause);
  }
  return { arm, name, ticket, curators, default: reward, expiresIn };
}

/**
 * Send a response; returns when the agent has counted it, now or before.
 *
 * @param {Post} post
 * @param {string} ticket
 * @param {number | undefined} response
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
 */
export function isFinal(error) {
  return error instanceof ServerError && FINAL.includes(error.code);
}
