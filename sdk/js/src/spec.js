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

import { ParameterError, SpecError } from "./errors.js";

/** Below 1e-6 a response says next to nothing, above 50 it hides nothing. */
const SMALLEST_EPSILON = 1e-6;
const LARGEST_EPSILON = 50;

/** Beyond it there might be no finite reward on the other side. */
const LARGEST_THETA = 1e300;

/** The fields of each kind of transform, with their defaults. @type {Record<string, object>} */
const TRANSFORMS = { range: { low: 0, high: 1 }, sigmoid: {}, threshold: { theta: undefined }, "real-line": {} };

/**
 * Read a spec, or say what is wrong with it; a key that is not known is refused, not ignored.
 *
 * @param {unknown} data
 * @returns {CuratorSpec} frozen, with every default written out
 */
export function checkSpec(data) {
  const { mechanism, epsilon, transform = { kind: "range" } } = specFields(data);
  checkChoice("mechanism", mechanism, ["bernoulli", "laplace"], SpecError);
  if (!isNumber(epsilon) || epsilon < SMALLEST_EPSILON || epsilon > LARGEST_EPSILON) {
    refuse("epsilon", `a number from ${SMALLEST_EPSILON} to ${LARGEST_EPSILON}`, epsilon, SpecError);
  }
  const checked = checkTransform(transform);
  if (mechanism === "bernoulli" && checked.kind === "real-line") {
    throw new SpecError("the bernoulli mechanism needs rewards in a range: use range, sigmoid or threshold");
  }
  return Object.freeze({ mechanism, epsilon, transform: Object.freeze(checked) });
}

/** @param {unknown} data */
const specFields = (data) => checkFields("a curator spec", /** @type {any} */ (data), ["mechanism", "epsilon", "transform"], SpecError);

/** Epsilons on a menu. */
const MOST = 8;

/**
 * Read a menu: a spec whose epsilon is a number, or a rising list of them, of which the owner picks one.
 *
 * @param {unknown} data
 * @returns {CuratorSpec[]} one for each epsilon, the largest first
 */
export function checkMenu(data) {
  const spec = specFields(data);
  const listed = [spec.epsilon].flat();
  const isMenu = listed.every((epsilon, place) => !place || epsilon > listed[place - 1]) && listed.length && listed.length <= MOST;
  if (!isMenu || (listed.length > 1 && spec.mechanism !== "bernoulli")) {
    throw new SpecError(`a menu has from 1 to ${MOST} epsilons, which rise, and more than 1 for bits only`);
  }
  return listed.map((epsilon) => checkSpec({ ...spec, epsilon })).reverse();
}

/**
 * @param {any} data
 * @param {string} [what] it is
 * @returns {Transform}
 */
export function checkTransform(data, what = "a transform") {
  const kind = data?.kind;
  checkChoice(`the kind of ${what}`, kind, Object.keys(TRANSFORMS), SpecError);
  const defaults = TRANSFORMS[kind];
  const checked = { kind, ...defaults, ...checkFields(what, data, ["kind", ...Object.keys(defaults)], SpecError) };
  const { low, high, theta } = checked;
  // A difference that overflows is no number either: such a range is wider than the largest double.
  if (kind === "range" && (!isNumber(low) || !isNumber(high) || low >= high || !isNumber(high - low))) {
    throw new SpecError(`a range must have finite numbers low < high, got [${quoted(low)}, ${quoted(high)}]`);
  }
  if (kind === "threshold" && (!isNumber(theta) || Math.abs(theta) > LARGEST_THETA)) {
    refuse("theta", `a finite number of size <= ${LARGEST_THETA}`, theta, SpecError);
  }
  return checked;
}

/**
 * @param {string} name
 * @param {string} rule
 * @param {unknown} value that is not a key and not a reward
 * @param {typeof ParameterError} [Kind] of error
 * @returns {never}
 */
export function refuse(name, rule, value, Kind = ParameterError) {
  throw new Kind(`${name} must be ${rule}, got ${quoted(value)}`);
}

/**
 * @param {string} name
 * @param {unknown} value
 * @param {unknown[]} choices
 * @param {typeof ParameterError} [Kind] of error
 */
export function checkChoice(name, value, choices, Kind) {
  if (!choices.includes(value)) refuse(name, `one of ${choices.join(", ")}`, value, Kind);
}

/**
 * An object with these fields and no others. The error shows no value: it may be a reward.
 *
 * @template {object} T
 * @param {string} what
 * @param {T} data
 * @param {string[]} names
 * @param {typeof ParameterError} [Kind] of error
 * @returns {T}
 */
export function checkFields(what, data, names, Kind = ParameterError) {
  const isObject = data && typeof data === "object" && !Array.isArray(data);
  const unknown = isObject && Object.keys(data).find((name) => !names.includes(name));
  if (!isObject || unknown !== undefined) {
    throw new Kind(`${what} takes an object with any of ${names.join(", ")}${isObject ? `, and no ${shown(unknown)}` : ""}`);
  }
  return data;
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
