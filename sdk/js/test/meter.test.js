import assert from "node:assert/strict";
import { test } from "node:test";

import { LedgerError, LimitError } from "ldpbandits";

import { Agent, CTB, device, LIMITS } from "./support/agent.js";

test("spent() and remaining() tell what this device has spent within the window, and what is left of its budget", async (t) => {
  const { client, clock, agent, storage } = device(t, { limits: { ...LIMITS, budget: 2.5, window: 100 } });
  assert.deepEqual([await client.spent(), await client.remaining()], [0, 2.5]);
  await client.decide();
  assert.deepEqual([await client.spent(), await client.remaining()], [1, 1.5]);
  clock.time += 60;
  const other = device(t, { agent, clock, storage, experiment: "headlines", limits: { ...LIMITS, budget: 9, window: 50 } });
  await other.client.decide();
  assert.deepEqual([await client.spent(), await client.remaining()], [2, 0.5], "all experiments of the device count");
  assert.deepEqual([await other.client.spent(), await other.client.remaining()], [1, 8], "each by the limits of its client");
  clock.time += 41;
  assert.deepEqual([await client.spent(), await client.remaining()], [1, 1.5], "the first is older than the window");
  assert.equal(agent.sent.length, 0);
  assert.equal(agent.requests.length, 6, "for two decisions, and nobody is asked");
});

test("what remains is what decides: decimals that add up to the budget leave nothing, and never less than nothing", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { ...CTB, epsilon: 0.1 };
  const { client, storage, clock } = device(t, { agent, limits: { ...LIMITS, budget: 1 } });
  for (let i = 0; i < 10; i++) {
    assert.ok(Math.abs((await client.remaining()) - (1 - i / 10)) < 1e-15);
    await client.decide();
  }
  assert.deepEqual([await client.spent(), await client.remaining()], [1, 0]);
  await assert.rejects(client.decide(), LimitError);
  const poorer = device(t, { agent, storage, clock, limits: { ...LIMITS, budget: 0.5 } }).client;
  assert.deepEqual([await poorer.spent(), await poorer.remaining()], [1, 0]);
});

test("a ledger that cannot be read has no meter", async (t) => {
  const { client } = device(t, { storage: { read: async () => "{", change: async () => {} } });
  for (const call of [client.spent(), client.remaining()]) await assert.rejects(call, LedgerError);
});
