import assert from "node:assert/strict";
import { test } from "node:test";

import { LimitError } from "ldpbandits";

import { charge, remaining, spent } from "../src/limits.js";

const empty = () => ({ version: 2, window: 0, spends: [], left: [], pulls: [], arms: [] });

/** How many spends of this epsilon fit. */
function fits(epsilon, limits, state = empty(), now = 0) {
  let count = 0;
  try {
    while (count < 1e5) {
      charge(state, epsilon, { epsilon: 50, window: 1e9, ...limits }, now);
      count++;
    }
  } catch (error) {
    if (!(error instanceof LimitError)) throw error;
  }
  return count;
}

test("ten spends of 0.1 fit in a budget of 1, and never an eleventh", () => {
  assert.equal(fits(0.1, { budget: 1 }), 10);
});

test("a budget of n decimals takes n of them exactly, however the doubles round", () => {
  for (let cents = 1; cents <= 99; cents += 7) {
    for (const count of [1, 2, 3, 7, 10, 49, 100, 333]) {
      assert.equal(fits(cents / 100, { budget: (cents * count) / 100 }), count, `${count} of ${cents / 100}`);
    }
  }
  assert.equal(fits(0.07, { budget: 7 }), 100, "a correctly rounded sum of doubles would refuse the last");
});

test("decimals that add up to the budget fit in any order, and then not even the smallest epsilon does", () => {
  const parts = [0.1, 0.2, 0.3, 0.7, 1e-6, 0.999999, 2.4, 5.3];
  for (let turn = 0; turn < parts.length; turn++) {
    const state = empty();
    const limits = { epsilon: 50, budget: 10, window: 10 };
    for (const epsilon of [...parts.slice(turn), ...parts.slice(0, turn)]) charge(state, epsilon, limits, 0);
    assert.throws(() => charge(state, 1e-6, limits, 0), LimitError);
  }
});

test("a budget as large as a number can be, for an owner who wants none, is one", () => {
  for (const budget of [1e6, 2 ** 53, 1e300, Number.MAX_VALUE]) {
    const [state, limits] = [empty(), { epsilon: 50, budget, window: 10 }];
    charge(state, 50, limits, 0);
    assert.equal(spent(state, limits, 0), 50);
    assert.ok(remaining(state, limits, 0) > 1e5 && remaining(state, limits, 0) <= budget);
  }
});

test("a refusal says what was asked and what is allowed, and leaves the ledger as it was", () => {
  const state = empty();
  const limits = { epsilon: 0.5, budget: 0.75, window: 43200 };
  charge(state, 0.5, limits, 100);
  const before = structuredClone(state);
  assert.throws(() => charge(state, 0.6, limits, 100), /asks for epsilon 0.6; this device allows 0.5 a response/);
  assert.throws(() => charge(state, 0.5, limits, 100), /asks for epsilon 0.5; this device allows 0.75 within 12 hours, of which 0.5 is spent/);
  assert.throws(() => charge(state, 0.5, { ...limits, window: 86400 }, 100), /allows 0.75 within 1 day, of which/);
  for (const [window, said] of [[10, "10 s"], [0.5, "0.5 s"], [90, "1.5 minutes"], [3600, "1 hour"], [30 * 86400, "30 days"]]) {
    assert.throws(() => charge(state, 0.5, { ...limits, window }, 100), new RegExp(`within ${said}, of which`));
  }
  assert.deepEqual(state, before);
});

test("over any window the spends add up to no more than the budget", () => {
  const limits = { epsilon: 1, budget: 1, window: 10 };
  const state = empty();
  const times = [];
  for (let now = 0; now < 100; now += 0.5) times.push(...new Array(fits(0.25, limits, state, now)).fill(now));
  for (const start of times) assert.ok(times.filter((time) => time >= start && time <= start + 10).length <= 4);
  assert.ok(times.length >= 4 * 9, "and it comes free again");
});

test("a spend dated in the future counts: a clock set back gives no budget", () => {
  const state = empty();
  assert.equal(fits(0.5, { budget: 1, window: 60 }, state, 1e6), 2);
  assert.equal(fits(0.5, { budget: 1, window: 60 }, state, 0), 0);
});

test("a clock set forward and back again forgets nothing", () => {
  const state = empty();
  const limits = { budget: 1, window: 60 };
  assert.equal(fits(0.5, limits, state, 1000), 2);
  assert.equal(fits(0.5, limits, state, 1e6), 2);
  assert.equal(fits(0.5, limits, state, 1001), 0);
});

test("spends that were let go together count until the latest of them is old", () => {
  const state = empty();
  const limits = { epsilon: 1, budget: 1.05, window: 60 };
  charge(state, 0.5, limits, 995);
  charge(state, 0.5, limits, 1050);
  charge(state, 0.01, limits, 1e6);
  assert.equal(fits(0.1, limits, state, 1057), 0);
});

test("a client with a short window does not blur the dates that one with a long window needs", () => {
  const state = empty();
  const [long, short] = [{ budget: 1, window: 1000 }, { budget: 1, window: 5 }];
  charge(state, 0.5, { epsilon: 1, ...long }, 0);
  for (const now of [890, 900]) charge(state, 0.25, { epsilon: 1, ...short }, now);
  assert.equal(fits(0.25, long, state, 1001), 2);
});

test("a client with a longer window counts what one with a shorter window had let go", () => {
  const state = empty();
  for (let now = 0; now < 1000; now += 10) charge(state, 0.1, { epsilon: 1, budget: 1, window: 5 }, now);
  assert.equal(fits(0.1, { budget: 10, window: 1e5 }, state, 1000), 0, "a hundred spends of 0.1 are 10");
  assert.equal(fits(0.1, { budget: 10.2, window: 1e5 }, state, 1000), 1, "rounded up, by next to nothing");
});

test("the ledger stays short: what no window asks for is one entry", () => {
  const state = empty();
  for (let now = 0; now < 10_000; now += 10) charge(state, 0.1, { epsilon: 1, budget: 1, window: 50 }, now);
  assert.ok(state.spends.length <= 8, `${state.spends.length} entries`);
});
