/**
 * Validation of arguments, where callers pass them. An error names the rule in one line, and the value unless that may be
 * a key, or a reward: no error shows an argument of `observe` or `respond`, in whatever order they come.
 */

import { ParameterError } from "./errors.js";
import { checkChoice, checkFields, isNumber, refuse } from "./spec.js";

/**
 * Whether a reward out of range counts as the nearest in range, as the options of `observe` or `respond` say.
 *
 * @param {string} call
 * @param {{ clip?: boolean }} options
 * @param {boolean} otherwise
 */
export function clipOf(call, options, otherwise) {
  const { clip = otherwise } = checkFields(call, options, ["clip"]);
  if (typeof clip !== "boolean") throw new ParameterError("clip must be true or false");
  return clip;
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function checkPositive(name, value) {
  if (!isNumber(value) || value <= 0) refuse(name, "a number, finite and > 0", value);
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function checkFlag(name, value) {
  checkChoice(name, value, [true, false]);
}

/**
 * A text of whole characters: half of one cannot be sent.
 *
 * @param {string} name
 * @param {unknown} value
 */
export function checkText(name, value) {
  if (!value || typeof value !== "string" || /\p{Cs}/u.test(value)) refuse(name, "a well-formed string, and not empty", value);
}

/**
 * An address to which paths are added, on a web page perhaps one of its own site.
 *
 * @param {string} url
 */
export function checkUrl(url) {
  checkText("url", url);
  const { protocol, username, password } = parsed(url) ?? {};
  if (!/^https?:$/.test(protocol ?? "") || /[\s?#]/.test(url) || username || password) {
    refuse("url", "an http or https address, without user, query and fragment", url.replace(/\/\/.*@/, "//...@")); // without a password
  }
}

/** @param {string} url */
function parsed(url) {
  try {
    return new URL(url, globalThis.document?.baseURI);
  } catch {
    return undefined;
  }
}
