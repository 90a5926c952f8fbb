// A device reads the offer before it asks for an arm: what it will not take part in costs nobody a ticket.
import assert from "node:assert/strict";
import { test } from "node:test";

import { LimitError, ServerError } from "ldpbandits";

import { Agent, CTB, device, LIMITS, state, until } from "./support/agent.js";

test("a budget that is used up, an epsilon, a range or a report at once beyond the limits: no ticket is asked for", async (t) => {
  const beyond = [{ curator: { ...CTB, epsilon: 2 } }, { curator: { ...CTB, transform: { kind: "range", low: 0, high: 2 } } }, { report_after: 0 }];
  for (const terms of beyond) {
    const { agent, client } = device(t);
    Object.assign(agent.decision, terms);
    await assert.rejects(client.decide(), LimitError);
    assert.equal(agent.asked.length, 0);
  }
  const { agent, client } = device(t, { limits: { ...LIMITS, budget: 1 } });
  await client.decide();
  for (let i = 0; i < 3; i++) await assert.rejects(client.decide(), (error) => error instanceof LimitError && error.code === "limit");
  assert.deepEqual([agent.asked.length, agent.accepted], [1, ["ticket-1"]]);
});

test("an experiment that is paused or closed is refused by its offer, and one that is shipped shows its arm", async (t) => {
  for (const [status, code] of [["paused", 409], ["closed", 410]]) {
    const { agent, client } = device(t);
    agent.offer = { status };
    await assert.rejects(client.decide(), (error) => error instanceof ServerError && error.code === status && error.status === code);
    assert.equal(agent.asked.length, 0);
  }
  const { agent, client, storage } = device(t);
  agent.offer = { status: "shipped", shipped: { arm: 2, name: "blue" } };
  const { arm, name, ticket } = await client.decide();
  assert.deepEqual([arm, name, ticket, agent.asked.length, await storage.read()], [2, "blue", null, 0, null]);
});

for (const [way, change, shown] of [
  ["ship", { status: "shipped", shipped: { arm: 0, name: "red" } }, { arm: 0, name: "red", ticket: null }],
  ["retire", { retired: [1] }, { arm: 0, name: "red", ticket: "ticket-2" }],
  ["pause", { status: "paused" }, undefined],
  ["close", { status: "closed" }, undefined],
]) {
  test(`${way} takes a sticky arm back as soon as the offer says so, and after max_age at the latest`, async (t) => {
    const agent = new Agent();
    agent.decision.sticky = 604800;
    agent.offer = { max_age: 60 };
    const { client, clock, storage } = device(t, { agent });
    await client.decide();
    Object.assign(agent.offer, change);
    Object.assign(agent.decision, { arm: 0, name: "red" });
    clock.time += 59;
    assert.equal((await client.decide()).name, "green", "the offer is kept for max_age");
    clock.time += 1;
    if (shown) {
      const { arm, name, ticket } = await client.decide();
      assert.deepEqual({ arm, name, ticket }, shown);
    } else {
      await assert.rejects(client.decide(), ServerError);
      assert.deepEqual((await state(storage)).arms, []);
    }
  });
}

test("a sticky arm is shown while the offer cannot be read, and not where the experiment is gone", async (t) => {
  const agent = new Agent();
  agent.decision.sticky = 3600;
  const { client } = device(t, { agent });
  await client.decide();
  const failing = [[503, { code: "retry", message: "" }], [200, "<html>a login page</html>"], new Error("offline")];
  for (const answer of failing) {
    agent.before = () => { if (answer instanceof Error) throw answer; return answer; };
    assert.equal((await client.decide()).name, "green");
  }
  agent.before = () => [404, { code: "not_found", message: "there is no experiment named buttons" }];
  await assert.rejects(client.decide(), { code: "not_found" });
});

test("a decision that differs from its offer is refused, unless the offer that is read past the caches agrees", async (t) => {
  for (const terms of [{ curator: { ...CTB, epsilon: 0.5 } }, { default: 1 }, { report_after: 299 }, { sticky: 7 }]) {
    const { agent, client, storage } = device(t);
    agent.offer = terms;
    await assert.rejects(client.decide(), { code: "unreadable" });
    assert.deepEqual([await storage.read(), agent.accepted], [null, []]);
    agent.requests.length = 0;
    agent.before = (path) => { if (path.endsWith("/decisions")) agent.offer = {}; };
    agent.offer = terms;
    await client.decide();
    assert.deepEqual(agent.requests.map(({ cache }) => cache).slice(0, 3), ["default", undefined, "reload"]);
  }
});

test("an offer is kept for an hour at most, whatever the agent says and wherever the clock is set", async (t) => {
  const agent = new Agent();
  agent.offer = { max_age: 1e9 };
  const { client, clock } = device(t, { agent });
  const offersRead = () => agent.requests.filter(({ path }) => path.endsWith("/offer")).length;
  for (const [change, read] of [[0, 1], [3599, 1], [1, 2], [-30, 2], [-86400, 3]]) {
    clock.time += change;
    await client.decide();
    assert.equal(offersRead(), read, `${change}`);
  }
});

test("an offer that makes no sense is refused and asks for nothing", async (t) => {
  const broken = [
    { status: "odd" }, { status: null }, { retired: null }, { retired: ["1"] }, { max_age: -1 }, { max_age: null }, { shipped: { arm: 0, name: "red" } },
    { status: "shipped" }, { status: "shipped", shipped: { arm: -1, name: "red" } }, { status: "shipped", shipped: { arm: 1, name: "\u202e" } },
    { curator: null }, { default: 2 }, { report_after: -1 }, { sticky: 1e9 },
  ];
  for (const offer of broken) {
    const { agent, client } = device(t);
    agent.offer = offer;
    await assert.rejects(client.decide(), (error) => error instanceof ServerError && error.code === "unreadable", JSON.stringify(offer));
    assert.equal(agent.asked.length, 0);
  }
});

test("a server from before offers gets one clear error", async (t) => {
  const old = [[404, { code: "not_found", message: "not found: see /docs" }], [404, "<html>"], [405, { code: "method_not_allowed", message: "method not allowed: see /docs" }]];
  for (const answer of old) {
    const { agent, client } = device(t);
    agent.before = () => answer;
    await assert.rejects(client.decide(), /is older than this device: update the server first/);
  }
});

test("an acceptance is sent before there is a reward, told again until it is known, and then no more", async (t) => {
  const { agent, client, storage, clock } = device(t);
  agent.before = (path) => (path === "/v1/acceptances" ? [503, { code: "retry", message: "" }] : undefined);
  const pull = await client.decide();
  await until(() => agent.requests.some(({ path }) => path === "/v1/acceptances"));
  agent.before = () => undefined;
  await pull.observe(1);
  clock.time += 20;
  await client.flush();
  assert.deepEqual([agent.accepted, (await state(storage)).pulls[0].accepted, agent.sent.length], [["ticket-1"], true, 0]);
  await client.flush();
  assert.equal(agent.accepted.length, 1);
});

test("an acceptance is told again by itself, and by the next client of the ledger", async (t) => {
  let ahead = 0;
  const clock = () => Date.now() / 1000 + ahead;
  const { agent, client, storage } = device(t, { clock });
  agent.before = (path) => (path === "/v1/acceptances" ? [503, { code: "retry", message: "" }] : undefined);
  await client.decide();
  await until(() => agent.requests.length === 3);
  await client.close({ keep: true });
  ahead += 20;
  const next = device(t, { storage, clock });
  await until(() => next.agent.accepted.length === 1);
});

test("the agent that refuses an acceptance for good is not asked again", async (t) => {
  const { agent, client, storage, clock } = device(t);
  agent.before = (path) => (path === "/v1/acceptances" ? [410, { code: "closed", message: "" }] : undefined);
  await client.decide();
  await until(async () => (await state(storage)).pulls[0].accepted);
  const { length } = agent.requests;
  clock.time += 20;
  await client.flush();
  assert.equal(agent.requests.length, length);
});

test("a ledger of the version before goes on: its pulls are observed and sent, and need no acceptance", async (t) => {
  const { storage, client, clock } = device(t);
  await client.decide();
  await client.close({ keep: true });
  await storage.change((text) => {
    const former = { ...JSON.parse(text), version: 2 };
    for (const pull of former.pulls) delete pull.accepted, delete pull.ofPage;
    return JSON.stringify(former);
  });
  const next = device(t, { storage, clock });
  assert.equal(await next.client.observeLatest(1), true);
  clock.time += 300;
  assert.equal((await next.client.flush()).acknowledged, 1);
  assert.deepEqual([next.agent.accepted, (await state(storage)).version], [[], 3]);
});
