import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { LimitError, memoryStorage, TicketError } from "ldpbandits";

import { Agent, CTB, device, handClock, LIMITS, LOUD, state, until } from "./support/agent.js";

test("observe sends nothing: at the reporting moment the response is sent, and not a moment earlier", async (t) => {
  const { agent, client, clock } = device(t);
  const [first] = [await client.decide(), await client.decide()];
  await first.observe(1);
  clock.time += 299.999;
  assert.deepEqual(await client.flush(), { acknowledged: 0, waiting: 0, refused: [] });
  assert.equal(agent.sent.length, 0);
  clock.time += 0.001;
  assert.equal((await client.flush()).acknowledged, 2);
  assert.deepEqual(agent.sent.map((body) => JSON.parse(body).ticket), ["ticket-1", "ticket-2"], "reward or not");
});

test("without a reward the response is that of the default, by the same curator", async (t) => {
  for (const response of [0, 1]) {
    const agent = new Agent();
    Object.assign(agent.decision, { curator: LOUD.curator, default: response });
    const { client, clock } = device(t, { agent, limits: LOUD.limits });
    await client.decide();
    clock.time += 300;
    await client.flush();
    assert.deepEqual([...agent.counted.values()], [response]);
  }
});

test("a reward at the reporting moment or later is a TicketError that says so", async (t) => {
  const { client, clock } = device(t);
  const pull = await client.decide();
  clock.time += 300;
  await assert.rejects(pull.observe(1), (error) => error instanceof TicketError && /reporting moment of this pull has passed/.test(error.message));
  assert.deepEqual(await client.pulls(), []);
});

test("report_after 0 sends at once, and is refused before it is charged unless the owner allows it by name", async (t) => {
  const agent = new Agent();
  agent.decision.report_after = 0;
  const refusing = device(t, { agent });
  await assert.rejects(refusing.client.decide(), (error) => error instanceof LimitError && /limits.atOnce/.test(error.message));
  assert.equal(await refusing.storage.read(), null);

  const { client } = device(t, { agent, limits: { ...LIMITS, atOnce: true } });
  const pull = await client.decide();
  assert.equal(await pull.observe(1), true);
  assert.equal(agent.counted.size, 1);
});

test("with report_after 0 and no reward the default goes out when a tenth of the ticket's life is left, or a minute", async (t) => {
  for (const [life, margin] of [[3600, 60], [100, 10]]) {
    const agent = new Agent();
    Object.assign(agent.decision, { report_after: 0, expires_in: life });
    const { client, storage, clock } = device(t, { agent, limits: { ...LIMITS, atOnce: true } });
    await client.decide();
    assert.equal((await state(storage)).pulls[0].due, clock.time + life - margin);
  }
});

test("ten daily pulls that were hoarded leave one a day under a budget of one a day, the oldest first", async (t) => {
  const agent = new Agent();
  const day = 86400;
  Object.assign(agent.decision, { report_after: 20 * day, expires_in: 300 * day });
  const { client, clock } = device(t, { agent, limits: { ...LIMITS, budget: 1 } });
  for (let i = 0; i < 10; i++) {
    await client.decide();
    clock.time += day + 1;
  }
  clock.time += 20 * day;
  const left = [];
  for (let hour = 0; hour < 24 * 11; hour++) {
    const { acknowledged, waiting } = await client.flush();
    if (acknowledged) left.push([hour, acknowledged]);
    assert.equal(waiting, 10 - left.length);
    clock.time += 3600;
  }
  assert.deepEqual(left, Array.from({ length: 10 }, (_, i) => [25 * i, 1]));
  assert.deepEqual(agent.sent.map((body) => JSON.parse(body).ticket), Array.from({ length: 10 }, (_, i) => `ticket-${i + 1}`));
});

test("a retry of the same response counts once in the budget of what leaves", async (t) => {
  const { agent, client, storage, clock } = device(t, { limits: { ...LIMITS, budget: 2 } });
  await client.decide();
  await client.decide();
  agent.before = () => [503, { code: "retry", message: "" }];
  clock.time += 300;
  for (let i = 0; i < 5; i++) assert.equal((await client.flush()).waiting, 2);
  assert.equal(agent.sent.length, 10);
  agent.before = () => undefined;
  assert.equal((await client.flush()).acknowledged, 2);
  assert.deepEqual((await state(storage)).left, [[clock.time, 1], [clock.time, 1]]);
});

test("a pull that nobody comes back for holds its place among what leaves until its ticket ends, and for one window", async (t) => {
  const [storage, clock, agent, limits] = [memoryStorage(), handClock(), new Agent(), { ...LIMITS, budget: 1, window: 1000 }];
  await device(t, { storage, clock, agent, limits, experiment: "abandoned" }).client.decide();
  const { client } = device(t, { storage, clock, agent, limits });
  for (const [wait, cleared] of [[4600, false], [1001, true]]) {
    clock.time += wait;
    await client.decide();
    assert.equal((await state(storage)).pulls[1].cleared, cleared);
  }
});

test("a response that is held back does not keep the device busy", async (t) => {
  const memory = memoryStorage();
  let changes = 0;
  const storage = { ...memory, change: (edit) => (changes++, memory.change(edit)) };
  const agent = new Agent();
  Object.assign(agent.decision, { report_after: 0.01, expires_in: 1e6 });
  let ahead = 0;
  const { client } = device(t, { agent, storage, clock: () => ahead + Date.now() / 1000, limits: { ...LIMITS, budget: 1, window: 1000 } });
  await client.decide();
  ahead = 1001; // the first may be accepted again before it has left
  await client.decide();
  await until(() => agent.counted.size === 1);
  const before = changes;
  await sleep(300);
  assert.ok(changes - before < 5, `${changes - before} changes`);
});

test("a clock that is set back while a response is on its way does not keep it from being sent again", async (t) => {
  const [storage, clock, agent] = [memoryStorage(), handClock(), new Agent()];
  const { client } = device(t, { storage, clock, agent });
  await client.decide();
  agent.before = () => new Promise(() => {}); // a process that dies while it sends
  clock.time += 3000;
  void client.flush();
  await until(() => agent.sent.length === 1);
  agent.before = () => undefined;
  clock.time -= 2000;
  assert.equal((await device(t, { storage, clock, agent }).client.flush()).acknowledged, 1);
});

test("a clock that is set back behind a pull delays no moment: the pull takes no reward, and is sent at once", async (t) => {
  const { agent, client, clock } = device(t);
  const pull = await client.decide();
  clock.time -= 60;
  assert.equal((await client.flush()).acknowledged, 0);
  assert.equal((await client.pulls()).length, 1, "some seconds are not worth it");
  clock.time -= 1;
  await assert.rejects(pull.observe(1), TicketError);
  assert.equal((await client.flush()).acknowledged, 1);
  assert.equal(agent.counted.size, 1);
});

test("leave reports at once what was decided here, reward or not, and the client goes on", async (t) => {
  const { agent, client, clock } = device(t);
  const [first, second] = [await client.decide(), await client.decide()];
  await first.observe(1);
  await client.leave();
  assert.equal(agent.counted.size, 2);
  await assert.rejects(second.observe(1), TicketError);
  await client.decide();
  clock.time += 300;
  assert.equal((await client.flush()).acknowledged, 1);
});

test("that a response leaves is stored before it does", async (t) => {
  const { agent, client, storage, clock } = device(t);
  await client.decide();
  let before;
  agent.before = async () => {
    before = await state(storage);
    return undefined;
  };
  clock.time += 300;
  await client.flush();
  assert.deepEqual(before.left, [[clock.time, 1]]);
  assert.equal(before.pulls[0].left, clock.time);
});

test("over any window what leaves of all experiments is within the budget, whatever the agents ask for", async (t) => {
  // Agents with short and long moments, and a device that is away for a while: 200 steps with a fixed seed.
  const [storage, clock, agent] = [memoryStorage(), handClock(), new Agent()];
  const limits = { ...LIMITS, budget: 2, window: 1000 };
  const clients = ["a", "b"].map((name) => device(t, { storage, clock, agent, limits, experiment: name }).client);
  const left = new Map();
  agent.before = (path) => {
    if (path !== "/v1/responses") return undefined;
    const { ticket, epsilon } = JSON.parse(agent.sent.at(-1));
    if (!left.has(ticket)) left.set(ticket, [clock.time, epsilon]);
    return random() < 0.5 ? [503, { code: "retry", message: "" }] : undefined;
  };
  let seed = 1;
  const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;
  for (let step = 0; step < 200; step++) {
    const client = clients[step % 2];
    Object.assign(agent.decision, { report_after: 10 ** (3.5 * random()), expires_in: 20000, curator: { ...CTB, epsilon: [0.25, 0.5, 1][Math.floor(3 * random())] } });
    await client.decide().catch((error) => assert.ok(error instanceof LimitError));
    clock.time += random() < 0.05 ? 3000 : 100 * random();
    await client.flush();
  }
  const spends = [...left.values()];
  for (const [start] of spends) {
    const sum = spends.filter(([time]) => time >= start && time <= start + limits.window).reduce((total, [, epsilon]) => total + epsilon, 0);
    assert.ok(sum <= limits.budget, `${sum} within a window`);
  }
  assert.ok(left.size > 30, `${left.size} have left`);
});
