/**
 * The page defines the value of each arm: the agent's names choose among the page's own values, and are never used as
 * text, as a link or as a style.
 */

import { ParameterError, ServerError } from "./errors.js";

/**
 * Check what a page hands in: a client, and what each arm stands for.
 *
 * @param {string} call
 * @param {unknown} client
 * @param {unknown} values
 */
export function checkShown(call, client, values) {
  if (typeof (/** @type {any} */ (client)?.decide) !== "function") {
    throw new ParameterError(`${call} needs a Client: make it once, and not in each render`);
  }
  if (!values || typeof values !== "object" || Array.isArray(values) || !Object.keys(values).length) {
    throw new ParameterError(`${call} needs a value for each arm, such as { plain: "Buy", eager: "Buy now" }`);
  }
}

/**
 * Whether there is a value for an arm; if not, there is an error to tell, and no reward is for that arm.
 *
 * @param {object} values
 * @param {string} name of the arm
 * @returns {ServerError | undefined}
 */
export function unknownArm(values, name) {
  if (Object.hasOwn(values, name)) return undefined;
  return new ServerError("the agent has chosen an arm for which this page has no value", 200, "unreadable");
}
