/**
 * The spec of a curator, which an agent asks for. It is data, and an invalid spec is refused:
 *
 *     {"mechanism": "bernoulli", "epsilon": 1, "transform": {"kind": "range", "low": 0, "high": 5}}
 *
 * | spec               | in the paper           | rewards           | neighbours: any two rewards ... |
 * |--------------------|------------------------|-------------------|---------------------------------|
 * | bernoulli, range   | CTB                    | in [low, high]    | in [low, high]                  |
 * | bernoulli, sigmoid | CTB-S                  | any finite number | at all                          |
 * | bernoulli, threshold | -                    | any finite number | at all                          |
 * | laplace, range     | CTL                    | in [low, high]    | in [low, high]                  |
 * | laplace, sigmoid   | CTL-S                  | any finite number | at all                          |
 * | laplace, threshold | -                      | any finite number | at all                          |
 * | laplace, real-line | remark after Theorem 2 | any finite number | that differ by at most 1        |
 *
 * @typedef {{ readonly kind: "range", readonly low: number, readonly high: number }} Range rewards in [low, high]
 * @typedef {{ readonly kind: "sigmoid" }} Sigmoid any finite reward r, taken to 1 / (1 + e^-r)
 * @typedef {{ readonly kind: "threshold", readonly theta: number }} Threshold any finite reward, taken to 1 above theta, else to 0
 * @typedef {{ readonly kind: "real-line" }} RealLine any finite reward, taken as it is
 * @typedef {Range | Sigmoid | Threshold | RealLine} Transform
 * @typedef {{ readonly mechanism: "bernoulli" | "laplace", readonly epsilon: number, readonly transform: Transform }} CuratorSpec
 */

import { SpecError } from "./errors.js";

/** Below 1e-6 a response says next to nothing, above 50 it hides nothing. */
const SMALLEST_EPSILON = 1e-6;
const LARGEST_EPSILON = 50;

/** Beyond it there might be no finite reward on the other side. */
const LARGEST_THETA = 1e300;

/**
 * Read a spec, or say what is wrong with it; a key that is not known is refused, not ignored.
 *
 * @param {unknown} data
 * @returns {CuratorSpec} frozen, with every default written out
 */
export function checkSpec(data) {
  const { mechanism, epsilon, transform = { kind: "range" }, ...others } = object("a curator spec", data);
  refuseOthers("a curator spec", others);
  if (mechanism !== "bernoulli" && mechanism !== "laplace") {
    throw new SpecError(`mechanism must be bernoulli or laplace, got ${quoted(mechanism)}`);
  }
  if (!isNumber(epsilon) || epsilon < SMALLEST_EPSILON || epsilon > LARGEST_EPSILON) {
    throw new SpecError(
      `epsilon must be a number, finite and > 0, from ${SMALLEST_EPSILON} to ${LARGEST_EPSILON}, got ${quoted(epsilon)}`,
    );
  }
  const checked = checkTransform(transform);
  if (mechanism === "bernoulli" && checked.kind === "real-line") {
    throw new SpecError("the bernoulli mechanism needs rewards in a range: use range, sigmoid or threshold");
  }
  return Object.freeze({ mechanism, epsilon, transform: Object.freeze(checked) });
}

/** Epsilons on a menu. */
const MOST = 8;

/**
 * Read a menu: a spec whose epsilon is a number, or a rising list of them, of which the owner picks one.
 *
 * @param {unknown} data
 * @returns {CuratorSpec[]} one for each epsilon, the largest first
 */
export function checkMenu(data) {
  const spec = object("a curator spec", data);
  if (!Array.isArray(spec.epsilon)) return [checkSpec(spec)];
  const listed = spec.epsilon;
  if (listed.length < 1 || listed.length > MOST || listed.some((epsilon, place) => place && !(epsilon > listed[place - 1]))) {
    throw new SpecError(`a menu has from 1 to ${MOST} epsilons, which rise`);
  }
  if (listed.length > 1 && spec.mechanism !== "bernoulli") throw new SpecError("a menu of several epsilons is for bits");
  return listed.map((epsilon) => checkSpec({ ...spec, epsilon })).reverse();
}

/**
 * @param {unknown} data
 * @param {string} [what] it is
 * @returns {Transform}
 */
export function checkTransform(data, what = "a transform") {
  const { kind, ...others } = object(what, data);
  if (kind === "range") {
    const { low = 0, high = 1, ...unknown } = others;
    refuseOthers("a range", unknown);
    // A difference that overflows is no number either: such a range is wider than the largest double.
    if (!isNumber(low) || !isNumber(high) || low >= high || !isNumber(high - low)) {
      throw new SpecError(`a range needs two finite numbers low < high, got [${quoted(low)}, ${quoted(high)}]`);
    }
    return { kind, low, high };
  }
  if (kind === "threshold") {
    const { theta, ...unknown } = others;
    refuseOthers("a threshold", unknown);
    if (!isNumber(theta) || Math.abs(theta) > LARGEST_THETA) {
      throw new SpecError(`a threshold needs a finite theta of size <= ${LARGEST_THETA}, got ${quoted(theta)}`);
    }
    return { kind, theta };
  }
  if (kind !== "sigmoid" && kind !== "real-line") {
    throw new SpecError(`the kind of ${what} must be range, sigmoid, threshold or real-line, got ${quoted(kind)}`);
  }
  refuseOthers(`a ${kind}`, others);
  return { kind };
}

/**
 * @param {string} what
 * @param {unknown} data
 * @returns {Record<string, unknown>}
 */
function object(what, data) {
  if (!data || typeof data !== "object" || Array.isArray(data)) {
    throw new SpecError(`${what} must be an object, got ${quoted(data)}`);
  }
  return /** @type {Record<string, unknown>} */ (data);
}

/**
 * @param {string} what
 * @param {object} others
 */
export function refuseOthers(what, others) {
  const unknown = Object.keys(others);
  if (unknown.length) {
    throw new SpecError(`${what} has no ${shown(unknown.join(", "))}`);
  }
}

/**
 * @param {unknown} value
 * @returns {value is number}
 */
export function isNumber(value) {
  return Number.isFinite(value);
}

/** Control characters, line ends, direction marks and lone surrogates: no agent needs them. */
const UNSEEN = /[\p{Cc}\p{Zl}\p{Zp}\p{Cs}\p{Bidi_C}]/gu;

/**
 * Write a value for an error, in one line of bearable length, without what is not seen.
 *
 * @param {unknown} value
 */
export function shown(value) {
  const type = typeof value;
  if (type === "function") return "a function";
  return value && type === "object" ? "an object" : String(value).replace(UNSEEN, "").slice(0, 120);
}

/**
 * Write what a caller has given so that one sees what it is: "5" is not 5.
 *
 * @param {unknown} value
 */
export function quoted(value) {
  const text = shown(value);
  return typeof value === "string" ? `"${text}"` : typeof value === "bigint" ? `${text}n` : text;
}

/**
 * Whether this is a text that a device may show and store: an agent must not fill its storage.
 *
 * @param {unknown} text
 * @returns {text is string}
 */
export function isText(text) {
  return typeof text === "string" && text.length <= 1000 && text.search(UNSEEN) < 0;
}
