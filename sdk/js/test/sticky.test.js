import assert from "node:assert/strict";
import { test } from "node:test";

import { Agent, device, LIMITS, state } from "./support/agent.js";

const SHIPPED = { ticket: null, curator: null, default: null, report_after: null, sticky: 0, expires_at: null, expires_in: null };

test("a shipped experiment gives its arm: no response is asked for, nothing is spent, stored or sent", async (t) => {
  const { agent, client, storage } = device(t);
  agent.before = (path) => (path.endsWith("/decisions") ? [200, { ...agent.decision, ...SHIPPED }] : undefined);
  const pull = await client.decide();
  assert.deepEqual([pull.arm, pull.name, pull.ticket, pull.epsilon, pull.reportAt], [1, "green", null, 0, null]);
  assert.equal(await pull.observe(1), false);
  assert.equal(await pull.observe("whatever"), false);
  assert.equal(await storage.read(), null);
  assert.equal(agent.sent.length, 0);
});

test("a decision with a ticket and without a curator, or the other way round, is nonsense", async (t) => {
  for (const name of ["ticket", "curator", "default", "report_after", "expires_in"]) {
    const { agent, client } = device(t);
    agent.before = (path) => (path.endsWith("/decisions") ? [200, { ...agent.decision, ticket: "t", ...SHIPPED, [name]: { ticket: "t", ...agent.decision }[name] }] : undefined);
    await assert.rejects(client.decide(), { code: "unreadable" }, name);
  }
});

test("a sticky arm is kept: the same pull while it awaits its reward, then one for which no response is asked", async (t) => {
  const agent = new Agent();
  agent.decision.sticky = 7200;
  const { client, clock, storage } = device(t, { agent, limits: { ...LIMITS, budget: 1 } });
  const first = await client.decide();
  agent.decision.arm = 0;
  const again = await client.decide();
  assert.deepEqual([again.ticket, again.arm], [first.ticket, 1]);
  assert.equal(await again.observe(1), true);
  const shown = await client.decide();
  assert.deepEqual([shown.arm, shown.name, shown.ticket, shown.epsilon], [1, "green", null, 0]);
  assert.equal(await shown.observe(1), false);
  clock.time += 300;
  assert.equal((await client.flush()).acknowledged, 1);
  assert.equal((await client.decide()).ticket, null);
  assert.equal(agent.counted.size, 1, "one response only");
  assert.equal(agent.asked.length, 1, "nobody was asked again");
  assert.equal((await state(storage)).spends.length, 1);
});

test("after its time the arm is asked for again, and other experiments have their own", async (t) => {
  const agent = new Agent();
  agent.decision.sticky = 1000;
  const { client, clock, storage } = device(t, { agent });
  await client.decide();
  const other = device(t, { agent, storage, clock, experiment: "other" });
  assert.equal((await other.client.decide()).ticket, "ticket-2");
  clock.time += 999;
  assert.equal((await client.decide()).ticket, null);
  clock.time += 1;
  assert.equal((await client.decide()).ticket, "ticket-3");
  assert.equal((await state(storage)).arms.length, 1, "and what is over is forgotten");
});

test("a sticky arm outlives the client, and two that ask at the same moment show the same arm for one response", async (t) => {
  const agent = new Agent();
  agent.decision.sticky = 1000;
  const { client, clock, storage } = device(t, { agent });
  const second = device(t, { agent, storage, clock }).client;
  const [one, other] = await Promise.all([client.decide(), second.decide()]);
  assert.equal(one.ticket, other.ticket);
  assert.equal((await state(storage)).spends.length, 1);
  await client.close();
  await second.close();
  const third = await device(t, { agent, storage, clock }).client.decide();
  assert.deepEqual([third.arm, third.ticket], [1, null]);
});
