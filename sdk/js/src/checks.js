/**
 * Validation of arguments, where callers pass them. An error names the rule in one line, and the value unless that may be
 * a key, or a reward: no error shows an argument of `observe` or `respond`, in whatever order they come.
 */

import { ParameterError } from "./errors.js";
import { isNumber, quoted, shown } from "./spec.js";

/**
 * The options of a call: an object with these names and no others.
 *
 * @template {object} T
 * @param {string} call
 * @param {T} options
 * @param {string[]} names
 * @returns {T}
 */
export function checkOptions(call, options, names) {
  if (!options || typeof options !== "object" || Array.isArray(options)) {
    throw new ParameterError(`the options of ${call} must be an object, with any of: ${names.join(", ")}`);
  }
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new ParameterError(`${call} has no option ${shown(unknown)}, only: ${names.join(", ")}`);
  }
  return options;
}

/**
 * Whether a reward out of range counts as the nearest in range, as the options of `observe` or `respond` say.
 *
 * @param {string} call
 * @param {{ clip?: boolean }} options
 * @param {boolean} otherwise
 */
export function clipOf(call, options, otherwise) {
  const { clip = otherwise } = checkOptions(call, options, ["clip"]);
  if (typeof clip !== "boolean") throw new ParameterError("clip must be true or false");
  return clip;
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function checkPositive(name, value) {
  if (!isNumber(value) || value <= 0) {
    throw new ParameterError(`${name} must be a number, finite and > 0, got ${quoted(value)}`);
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function checkFlag(name, value) {
  if (typeof value !== "boolean") throw new ParameterError(`${name} must be true or false, got ${quoted(value)}`);
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {string[]} choices
 * @param {string} [reason] to name one
 */
export function checkChoice(name, value, choices, reason) {
  if (choices.includes(/** @type {string} */ (value))) return;
  const listed = choices.map((choice) => `"${choice}"`).join(" or ");
  throw new ParameterError(`${name} must be ${listed}, got ${quoted(value)}${reason ? `: ${reason}` : ""}`);
}

/**
 * A text of whole characters: half of one cannot be sent.
 *
 * @param {string} name
 * @param {unknown} value
 */
export function checkText(name, value) {
  if (!value || typeof value !== "string" || /\p{Cs}/u.test(value)) {
    throw new ParameterError(`${name} must be a well-formed string, and not empty, got ${quoted(value)}`);
  }
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
    const told = quoted(url.replace(/\/\/.*@/, "//...@")); // without a password
    throw new ParameterError(`url must be an http or https address, without user, query and fragment, got ${told}`);
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
