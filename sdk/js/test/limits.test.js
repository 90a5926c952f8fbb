import assert from "node:assert/strict";
import { test } from "node:test";

import { Client, LimitError, ParameterError } from "ldpbandits";

import { Agent, CTB, device, LIMITS, URL_ } from "./support/agent.js";

const make = (limits) => new Client(URL_, "e", { key: "k", limits });

test("limits must all be given, finite and > 0", () => {
  for (const name of ["epsilon", "budget", "window"]) {
    for (const value of [undefined, 0, -1, NaN, Infinity, "1"]) {
      assert.throws(
        () => make({ ...LIMITS, [name]: value }),
        (error) => error instanceof ParameterError && error.message.includes(`limits.${name} must be a number, finite and > 0`),
      );
    }
  }
});

test("limits must say what rewards are, and the error tells which there are", () => {
  for (const limits of [undefined, { ...LIMITS, rewards: undefined }]) {
    assert.throws(() => make(limits), (error) => error instanceof ParameterError && /rewards/.test(error.message));
  }
  for (const rewards of [{ kind: "range", low: 1, high: 0 }, { kind: "log" }, { kind: "sigmoid", low: 0 }, "range", { kind: "threshold", theta: NaN }]) {
    assert.throws(() => make({ ...LIMITS, rewards }), ParameterError);
  }
});

test("a limit that is not known is refused, not ignored", () => {
  for (const other of [{ realLine: true }, { at_once: true }, { windows: 1 }]) {
    assert.throws(() => make({ ...LIMITS, ...other }), (error) => error instanceof ParameterError && error.message.endsWith(`, and no ${Object.keys(other)[0]}`));
  }
  assert.throws(() => make({ ...LIMITS, atOnce: 1 }), ParameterError);
});

test("a decision whose rewards are not the owner's is refused before it is charged", async (t) => {
  const ways = [
    { kind: "range", low: 0, high: 1 }, { kind: "range", low: 0.5, high: 1.5 }, { kind: "range", low: 0, high: 2 },
    { kind: "sigmoid" }, { kind: "threshold", theta: 0.9 }, { kind: "threshold", theta: 0.5 }, { kind: "real-line" },
  ];
  for (const rewards of ways) {
    for (const asked of ways) {
      const agent = new Agent();
      Object.assign(agent.decision, { default: 1, curator: { mechanism: "laplace", epsilon: 1, transform: asked } });
      const { client, storage } = device(t, { agent, limits: { ...LIMITS, rewards } });
      if (asked === rewards) {
        assert.equal(await (await client.decide()).observe(1), true);
      } else {
        await assert.rejects(client.decide(), (error) => error instanceof LimitError && error.message.includes(asked.kind) && error.message.includes(rewards.kind));
        assert.equal(await storage.read(), null);
      }
    }
  }
});

test("a threshold without theta is any threshold, and a range without bounds is from 0 to 1", async (t) => {
  for (const theta of [-2, 0.5]) {
    const agent = new Agent();
    agent.decision.curator = { ...CTB, transform: { kind: "threshold", theta } };
    assert.equal((await device(t, { agent, limits: { ...LIMITS, rewards: { kind: "threshold" } } }).client.decide()).arm, 1);
  }
  assert.equal((await device(t, { limits: { ...LIMITS, rewards: { kind: "range" } } }).client.decide()).arm, 1);
  const agent = new Agent();
  agent.decision.curator = { ...CTB, transform: { kind: "sigmoid" } };
  await assert.rejects(device(t, { agent, limits: { ...LIMITS, rewards: { kind: "threshold" } } }).client.decide(), LimitError);
});

test("on the real line, which has no range, a reward is taken as it is, and an infinite one is refused", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { mechanism: "laplace", epsilon: 1, transform: { kind: "real-line" } };
  const { client, clock } = device(t, { agent, limits: { ...LIMITS, rewards: { kind: "real-line" } } });
  const pull = await client.decide();
  await assert.rejects(pull.observe(Infinity), (error) => error.name === "RewardError");
  assert.equal(await pull.observe(1e6), true);
  clock.time += 300;
  await client.flush();
  assert.ok(Math.abs(agent.counted.get("ticket-1") - 1e6) < 100); // beyond it: less than once in e^99
});
