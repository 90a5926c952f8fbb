import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { curatorFromSpec, RewardError, SpecError } from "ldpbandits/curators";
import { respondNotPrivate } from "ldpbandits/not-private";

const RANGE = { kind: "range", low: 0, high: 1 };
const ctb = (epsilon, transform = RANGE) => curatorFromSpec({ mechanism: "bernoulli", epsilon, transform });
const ctl = (epsilon, transform = RANGE) => curatorFromSpec({ mechanism: "laplace", epsilon, transform });

/** How many of the 2^64 values of a word make `isBelow` true, when those are 0, 1, ... up to some threshold. */
function threshold(isBelow) {
  let [low, high] = [0n, 1n << 64n];
  while (low < high) {
    const middle = (low + high) >> 1n;
    if (isBelow(middle)) low = middle + 1n;
    else high = middle;
  }
  return low;
}

test("what a spec leaves out is written out, and the result is frozen", () => {
  const { spec } = curatorFromSpec({ mechanism: "laplace", epsilon: 1 });
  assert.deepEqual(spec, { mechanism: "laplace", epsilon: 1, transform: { kind: "range", low: 0, high: 1 } });
  assert.ok(Object.isFrozen(spec) && Object.isFrozen(spec.transform));
  assert.deepEqual(ctb(1, { kind: "range", high: 5 }).spec.transform, { kind: "range", low: 0, high: 5 });
});

test("a spec that no curator can honour is refused, and the message names the rule", () => {
  const good = { mechanism: "bernoulli", epsilon: 1 };
  const bad = [
    [null, /takes an object/],
    [[], /takes an object/],
    ["bernoulli", /takes an object with any of mechanism, epsilon, transform$/],
    [{}, /mechanism must be/],
    [{ ...good, mechanism: "gauss" }, /got "gauss"/],
    [{ ...good, mechanism: "toString" }, /got "toString"/],
    [{ mechanism: "laplace" }, /epsilon must be a number from 0.000001 to 50, got undefined/],
    ...[0, -1, 9.9e-7, 50.1, NaN, Infinity, "1", true, 1n, [1]].map((epsilon) => [{ ...good, epsilon }, /epsilon must/]),
    [{ ...good, seed: 1 }, /a curator spec takes .*, and no seed/],
    [{ ...good, transform: null }, /the kind of a transform must be one of/],
    [{ ...good, transform: {} }, /the kind of a transform must be/],
    [{ ...good, transform: { kind: "log" } }, /got "log"/],
    [{ ...good, transform: { kind: "sigmoid", low: 0 } }, /a transform takes .*, and no low/],
    [{ ...good, transform: { kind: "range", step: 1 } }, /with any of kind, low, high, and no step/],
    [{ ...good, transform: { kind: "range", low: 1, high: 1 } }, /low < high, got \[1, 1\]/],
    [{ ...good, transform: { kind: "range", low: "0" } }, /low < high, got \["0", 1\]/],
    [{ ...good, transform: { kind: "range", low: -1e308, high: 1e308 } }, /finite numbers low < high/],
    [{ ...good, transform: { kind: "real-line" } }, /needs rewards in a range/],
    [{ ...good, transform: { kind: "threshold", theta: 0, at: 1 } }, /with any of kind, theta, and no at/],
    ...[undefined, NaN, Infinity, 2e300, -2e300, "0", null, [1]].map((theta) => [{ ...good, transform: { kind: "threshold", theta } }, /theta must be a finite number of size <= 1e\+300, got/]),
  ];
  for (const [spec, message] of bad) {
    assert.throws(() => curatorFromSpec(spec), (error) => error instanceof SpecError && message.test(error.message), inspect(spec));
  }
  assert.throws(() => curatorFromSpec({ ...good, mechanism: "x".repeat(1e6) }), (error) => error.message.length < 300);
});

test("the ends of epsilon's range are accepted", () => {
  for (const epsilon of [1e-6, 50]) {
    for (const curator of [ctb(epsilon), ctl(epsilon)]) assert.ok(Number.isFinite(curator.respond(0.5)));
  }
});

test("a reward that cannot be taken is refused, draws nothing, and is not in the error", (t) => {
  const spy = t.mock.method(crypto, "getRandomValues");
  const secret = 86.75309;
  const refused = [
    [ctb(1), secret],
    [ctl(1), -secret],
    [ctb(1), NaN],
    [ctb(1), `${secret}`],
    [ctb(1), { secret }],
    [ctb(1), undefined],
    [ctb(1), 1n],
    [ctl(1, { kind: "sigmoid" }), Infinity],
    [ctb(1, { kind: "threshold", theta: 0.9 }), Infinity],
    [ctb(1, { kind: "threshold", theta: 0.9 }), NaN],
    [ctl(1, { kind: "real-line" }), -Infinity],
    [ctl(1, { kind: "real-line" }), NaN],
  ];
  for (const [curator, reward] of refused) {
    assert.throws(() => curator.respond(reward), (error) => {
      assert.ok(error instanceof RewardError);
      assert.ok(!inspect(error, { showHidden: true, depth: 9 }).includes("86.75"));
      return true;
    });
  }
  assert.throws(() => ctl(1, { kind: "real-line" }).respond(1, { clip: true }), RewardError);
  assert.equal(spy.mock.callCount(), 0);
});

test("with clip, a reward out of range counts as the nearest one in range", () => {
  for (const word of [1n << 40n, 1n << 62n, (1n << 63n) + 12345n, (1n << 64n) - 1n]) {
    const draw = (count) => new Array(count).fill(word).fill(0n, 0, 1);
    const wide = ctl(1, { kind: "range", low: -2, high: 10 });
    for (const [beyond, nearest] of [[11, 10], [Infinity, 10], [-3, -2], [-Infinity, -2], [4, 4]]) {
      const clipped = respondNotPrivate(wide, beyond, draw, { clip: true });
      assert.equal(clipped, respondNotPrivate(wide, nearest, draw));
    }
    const sigmoid = ctl(1, { kind: "sigmoid" });
    assert.equal(respondNotPrivate(sigmoid, Infinity, draw, { clip: true }), respondNotPrivate(ctl(1), 1, draw));
    assert.equal(respondNotPrivate(sigmoid, -Infinity, draw, { clip: true }), respondNotPrivate(ctl(1), 0, draw));
  }
});

test("behind a threshold, all rewards on one side of theta have the same responses, and theta itself is not above", () => {
  for (const make of [ctb, ctl]) {
    const above = make(1, { kind: "threshold", theta: 0.9 });
    for (const word of [1n << 40n, 1n << 62n, (1n << 63n) + 12345n, (1n << 64n) - 1n]) {
      const draw = (count) => new Array(count).fill(word).fill(0n, 0, 1);
      for (const [reward, value] of [[0.9, 0], [-1e308, 0], [0, 0], [0.9 + 2 ** -53, 1], [1e308, 1]]) {
        assert.equal(respondNotPrivate(above, reward, draw), respondNotPrivate(make(1), value, draw));
      }
      assert.equal(respondNotPrivate(above, -Infinity, draw, { clip: true }), respondNotPrivate(make(1), 0, draw));
    }
  }
});

test("CTB: the rarer response has probability ceil(2^64 / (1 + e^epsilon)) / 2^64, the nearest that keeps the promise", () => {
  // e to 50 decimals, from tables, as an integer; epsilon = 1 and 2, where e^epsilon is a product of it.
  const digits = 271828182845904523536028747135266249775724709369995n;
  const one = 10n ** 50n;
  const powers = [[1, digits, digits + 1n], [2, (digits * digits) / one, ((digits + 1n) * (digits + 1n)) / one + 1n]];
  for (const [epsilon, low, high] of powers) {
    const [least, most] = [0, 1].map((reward) => threshold((word) => respondNotPrivate(ctb(epsilon), reward, () => [word]) === 1));
    assert.equal(least + most, 1n << 64n);
    assert.ok(least * (one + low) >= one << 64n, "rounded up");
    assert.ok((least - 1n) * (one + high) < one << 64n, "by less than one");
  }
});

test("CTB: the probability of a 1 grows with the reward, from the least to the most", () => {
  const counts = [0, 2 ** -60, 0.1, 0.25, 0.5, 0.75, 1 - 2 ** -53, 1].map((reward) =>
    threshold((word) => respondNotPrivate(ctb(0.5), reward, () => [word]) === 1),
  );
  assert.deepEqual([...counts].sort((a, b) => (a < b ? -1 : Number(a > b))), counts);
  const half = counts[4] - (1n << 63n);
  assert.ok(half >= -1n && half <= 1n, "a reward of 1/2 is a fair coin");
});

test("CTL: digit k of the noise is one with probability 1 / (1 + e^(2^k epsilon / 2^20))", () => {
  const never = (1n << 64n) - 1n;
  for (const epsilon of [1e-6, 0.1, 1, 50]) {
    const curator = ctl(epsilon);
    let count = 0;
    respondNotPrivate(curator, 0, (asked) => new Array((count = asked)).fill(1n << 62n).fill(never, 1));
    for (let k = 0; k < count - 2; k += 5) {
      const heads = threshold((word) => {
        const words = new Array(count).fill(never);
        words[0] = 0n;
        words[2 + k] = word;
        // At equality a further word is asked for; the largest leaves it at tails.
        return respondNotPrivate(curator, 0, (asked) => (asked === count ? words : [never])) * 2 ** 20 === 2 ** k;
      });
      const expected = 2 ** 64 / (1 + Math.exp(2 ** (k - 20) * epsilon));
      assert.ok(Math.abs(Number(heads) - expected) <= 1 + expected * 1e-13, `epsilon ${epsilon}, digit ${k}`);
    }
  }
});

test("CTL on the real line takes the largest doubles, and answers the nearest double", () => {
  const draw = (count) => new Array(count).fill((1n << 64n) - 1n).fill(0n, 0, 1);
  const line = ctl(1, { kind: "real-line" });
  for (const reward of [Number.MAX_VALUE, -Number.MAX_VALUE, 2 ** 1003, 2 ** 1004, -1e300, 5e-324, -0.25, 2 ** -21]) {
    const grid = Math.abs(reward) < 1 ? Math.floor(reward * 2 ** 20 + 0.5) / 2 ** 20 : reward;
    assert.equal(respondNotPrivate(line, reward, draw), grid);
  }
});

test("each response draws its own words, all at once, and keeps none for the next", (t) => {
  const spy = t.mock.method(crypto, "getRandomValues");
  const bit = ctb(1);
  const noise = ctl(1);
  assert.equal(spy.mock.callCount(), 0);
  for (let i = 0; i < 3; i++) bit.respond(0.5);
  assert.deepEqual(spy.mock.calls.map((call) => call.arguments[0].byteLength), [8, 8, 8]);
  spy.mock.resetCalls();
  noise.respond(0.5);
  assert.deepEqual(spy.mock.calls.map((call) => call.arguments[0].byteLength), [8 * (2 + 26)]);
});

test("real responses have the promised mean and spread (false alarm below 1e-8)", () => {
  const n = 20_000;
  const mean = (curator, reward) => {
    let sum = 0;
    for (let i = 0; i < n; i++) sum += curator.respond(reward);
    return sum / n;
  };
  const heads = (0.8 * Math.E + 0.2) / (1 + Math.E);
  assert.ok(Math.abs(mean(ctb(1), 0.8) - heads) < 6 * Math.sqrt((heads * (1 - heads)) / n));
  assert.ok(Math.abs(mean(ctl(1), 0.8) - 0.8) < 6 * Math.sqrt(2 / n));
  const noise = ctl(1);
  const size = Array.from({ length: n }, () => Math.abs(noise.respond(0))).reduce((a, b) => a + b) / n;
  assert.ok(Math.abs(size - 1) < 6 / Math.sqrt(n), "|Laplace| of scale 1 has mean 1");
});
