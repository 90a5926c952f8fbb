/** Whether two samples of traces may come from the same law, feature by feature. */

/**
 * The largest distance of two empirical distribution functions.
 *
 * @param {number[]} a
 * @param {number[]} b
 */
export function distance(a, b) {
  const below = (sample, x) => sample.filter((y) => y <= x).length / sample.length;
  return Math.max(...[...a, ...b].map((x) => Math.abs(below(a, x) - below(b, x))));
}

/**
 * Where two samples of n and m of the same law are farther apart with probability at most `alarm`: by the inequality of
 * Dvoretzky, Kiefer and Wolfowitz for two samples, P(D > t) <= 2.17 e^(-2 t^2 nm / (n + m)) (Wei and Dudley, 2012).
 */
export function threshold(n, m, alarm) {
  return Math.sqrt(((n + m) / (2 * n * m)) * Math.log(2.17 / alarm));
}

/** Texts as numbers, so that they can be compared: the same number for the same text. */
function numbered(samples) {
  const numbers = new Map();
  const number = (value) => (typeof value === "number" ? value : (numbers.has(value) || numbers.set(value, numbers.size), numbers.get(value)));
  return samples.map((sample) => sample.map(number));
}

/**
 * The features in which two samples of traces differ, when all of them together alarm falsely with probability `alarm`.
 *
 * @param {Record<string, number | string>[]} ones
 * @param {Record<string, number | string>[]} others
 * @param {number} alarm
 */
export function differences(ones, others, alarm) {
  const names = [...new Set([...ones, ...others].flatMap(Object.keys))];
  return names.filter((name) => {
    const [a, b] = numbered([ones, others].map((traces) => traces.map((trace) => trace[name] ?? "none")));
    return distance(a, b) > threshold(a.length, b.length, alarm / names.length);
  });
}
