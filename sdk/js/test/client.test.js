import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, LimitError, memoryStorage, ParameterError, RewardError, ServerError, TicketError } from "ldpbandits";

import { Outbox } from "../src/outbox.js";
import { Agent, bytesDrawn, CTB, device, handClock, KEY, LIMITS, LOUD, state, until, URL_ } from "./support/agent.js";

const down = () => {
  throw new TypeError("fetch failed");
};

/** Let the reporting moment pass, and send what is due. */
const report = ({ client, clock }) => ((clock.time += 300), client.flush());

test("decide, observe, and at its moment the agent counts one response that its curator can give", async (t) => {
  const { agent, client, clock } = device(t);
  const pull = await client.decide();
  assert.deepEqual([pull.arm, pull.name, pull.ticket, pull.epsilon, pull.reportAt], [1, "green", "ticket-1", 1, clock.time + 300]);
  assert.equal(await pull.observe(1), true);
  assert.deepEqual(await report({ client, clock }), { acknowledged: 1, waiting: 0, refused: [] });
  assert.ok([0, 1].includes(agent.counted.get("ticket-1")));
  assert.deepEqual(await client.pulls(), []);
});

test("the storage never holds a reward", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { mechanism: "laplace", epsilon: 1 };
  const { client, storage } = device(t, { agent });
  await (await client.decide()).observe(0.123456789);
  assert.ok(!(await storage.read()).includes("0.123456789"));
});

test("the spend, the pull and its default's response are stored together before the arm is returned", async (t) => {
  const { client, storage, clock } = device(t);
  const bytes = await bytesDrawn(t, () => client.decide());
  const { spends, pulls } = await state(storage);
  assert.equal(bytes, 8);
  assert.deepEqual(spends, [[clock.time, 1]]);
  const [{ ticket, due, end, response, observed }] = pulls;
  assert.deepEqual([ticket, due, end, observed], ["ticket-1", clock.time + 300, clock.time + 3600, false]);
  assert.ok([0, 1].includes(response));
});

test("an agent that asks for too large an epsilon is refused, nothing is drawn, spent or sent", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { ...CTB, epsilon: 2 };
  const { client, storage } = device(t, { agent });
  const bytes = await bytesDrawn(t, () =>
    assert.rejects(client.decide(), (error) => error instanceof LimitError && /epsilon 2; this device allows 1/.test(error.message)),
  );
  assert.equal(bytes, 0);
  assert.equal(await storage.read(), null);
  assert.equal(agent.asked.length, 0, "and no ticket is taken");
});

test("the budget holds over all experiments and clients of a storage, and is not refunded", async (t) => {
  const [storage, agent] = [memoryStorage(), new Agent()];
  const limits = { ...LIMITS, budget: 3 };
  const clients = ["a", "b", "c"].map((name) => device(t, { storage, agent, limits, experiment: name, url: `https://${name}.test` }).client);
  await (await clients[0].decide()).observe(1);
  await (await clients[1].decide()).observe(1);
  await clients[2].decide();
  for (const client of clients) await assert.rejects(client.decide(), LimitError);
});

test("of many decisions at once as many succeed as the budget allows", async (t) => {
  const [storage, agent] = [memoryStorage(), new Agent()];
  const clients = Array.from({ length: 5 }, (_, i) => device(t, { storage, agent, url: `https://${i}.test` }).client);
  const results = await Promise.allSettled(clients.flatMap((client) => Array.from({ length: 5 }, () => client.decide())));
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 10);
  assert.ok(results.every(({ reason }) => !reason || reason instanceof LimitError));
  assert.equal((await state(storage)).spends.length, 10);
});

test("a decision that cannot be understood is refused and spends nothing", async (t) => {
  const broken = [
    { arm: "1" }, { arm: 1.5 }, { name: 5 }, { expires_in: 0 }, { expires_in: "60" }, { expires_in: null },
    { default: 2 }, { default: "0" }, { default: null },
    { arm: -7 }, { arm: 2 ** 31 }, { name: "x".repeat(1001) }, { expires_in: 1e308 },
    { curator: undefined }, { curator: { ...CTB, seed: 1 } }, { curator: { ...CTB, epsilon: 0 } },
    { report_after: undefined }, { report_after: null }, { report_after: -1 }, { report_after: "300" }, { report_after: 3600 }, { report_after: NaN },
    { sticky: null }, { sticky: -1 }, { sticky: "60" }, { sticky: 1e9 },
    ...["\u0007", "\u001b[2J", "\u007f", "\u0085", "\u2028", "\u2029", "\u202e", "\u2066", "\ud800"].map((bad) => ({ name: `green${bad}` })),
  ];
  for (const change of broken) {
    const agent = new Agent();
    Object.assign(agent.decision, change);
    const { client, storage } = device(t, { agent });
    await assert.rejects(client.decide(), (error) => error instanceof ServerError && error.code === "unreadable", inspect(change));
    assert.equal(await storage.read(), null);
  }
});

test("a decision that says nothing of sticky is for once", async (t) => {
  const agent = new Agent();
  delete agent.decision.sticky;
  const { client } = device(t, { agent });
  assert.notEqual((await client.decide()).ticket, (await client.decide()).ticket);
});

test("a ticket that is out already is refused: its response would be drawn twice", async (t) => {
  const { agent, client, storage } = device(t);
  await client.decide();
  agent.before = () => [200, { ...agent.decision, ticket: "ticket-1" }];
  await assert.rejects(client.decide(), ServerError);
  assert.equal((await state(storage)).spends.length, 1);
});

test("a lost reply is followed by the same bytes, and the agent counts once", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { mechanism: "laplace", epsilon: 1 };
  const { client, clock } = device(t, { agent });
  await (await client.decide()).observe(0.5);
  agent.after = down;
  assert.deepEqual(await report({ client, clock }), { acknowledged: 0, waiting: 1, refused: [] });
  agent.after = () => undefined;
  assert.deepEqual(await client.flush(), { acknowledged: 1, waiting: 0, refused: [] });
  assert.equal(agent.sent.length, 2);
  assert.equal(agent.sent[0], agent.sent[1]);
  assert.equal(agent.counted.size, 1);
});

test("a crash before the reporting moment loses nothing: the next client sends what is stored, without a draw", async (t) => {
  const first = device(t);
  await (await first.client.decide()).observe(1);
  const { response } = (await state(first.storage)).pulls[0];
  await first.client.close({ keep: true });

  first.clock.time += 400;
  const second = device(t, { storage: first.storage, clock: first.clock });
  const bytes = await bytesDrawn(t, () => second.client.flush());
  assert.equal(bytes, 0);
  assert.deepEqual(second.agent.sent, [JSON.stringify({ ticket: "ticket-1", response, epsilon: 1 })]);
});

test("a client sends by itself what an earlier one left", async (t) => {
  const first = device(t);
  await first.client.decide();
  await first.client.close({ keep: true });
  first.clock.time += 300;
  const second = device(t, { storage: first.storage, clock: first.clock });
  await until(() => second.agent.counted.size === 1);
});

test("a flush while a response is on its way waits for it, and does not send it twice", async (t) => {
  const { agent, client, clock } = device(t);
  await client.decide();
  let open = () => {};
  agent.before = () => new Promise((resolve) => (open = () => resolve(undefined)));
  const first = report({ client, clock });
  while (agent.sent.length === 0) await sleep(1);
  const second = client.flush();
  await sleep(20);
  assert.equal(agent.sent.length, 1);
  open();
  assert.equal((await first).acknowledged, 1);
  assert.equal((await second).acknowledged, 1);
  assert.equal(agent.sent.length, 1);
});

test("a second reward for a pull is a TicketError and draws nothing, before its moment and after", async (t) => {
  const { agent, client, clock } = device(t);
  const pull = await client.decide();
  await pull.observe(1);
  const bytes = await bytesDrawn(t, () => assert.rejects(pull.observe(0), (error) => error instanceof TicketError && /has had its reward/.test(error.message)));
  assert.equal(bytes, 0);
  await report({ client, clock });
  await assert.rejects(pull.observe(0), TicketError);
  await assert.rejects(client.observe("no such ticket", 0), TicketError);
  assert.equal(agent.counted.size, 1);
});

test("of two observations at the same moment one is taken and one is an error", async (t) => {
  const { client } = device(t);
  const { ticket } = await client.decide();
  const results = await Promise.allSettled([client.observe(ticket, 1), client.observe(ticket, 0)]);
  assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected"]);
});

test("a reward out of range counts as the nearest one in range", async (t) => {
  for (const [reward, response] of [[86.75309, 1], [-3, 0], [Infinity, 1]]) {
    const agent = new Agent();
    agent.decision.curator = LOUD.curator;
    agent.decision.default = 1 - response;
    const { client, clock } = device(t, { agent, limits: LOUD.limits });
    assert.equal(await (await client.decide()).observe(reward), true);
    await report({ client, clock });
    assert.deepEqual([...agent.counted.values()], [response]);
  }
});

test("without clip, and when it is no number, a reward is refused, in no error, and the pull stays open", async (t) => {
  const agent = new Agent();
  Object.assign(agent.decision, { curator: LOUD.curator, default: 1 });
  const { client, clock } = device(t, { agent, limits: LOUD.limits });
  const pull = await client.decide();
  for (const [reward, options] of [[86.75309, { clip: false }], [NaN, {}], ["86.75309", {}], [undefined, {}]]) {
    await assert.rejects(pull.observe(reward, options), (error) => {
      assert.ok(error instanceof RewardError);
      assert.ok(!inspect(error, { depth: 9 }).includes("86.75"));
      return true;
    });
  }
  assert.equal((await client.pulls()).length, 1);
  await report({ client, clock });
  assert.deepEqual([...agent.counted.values()], [1], "what is sent is the default's response");
});

test("after a restart the open pulls of this experiment are there, and can be observed", async (t) => {
  const { agent, client, storage, clock } = device(t);
  await client.decide();
  await client.close({ keep: true });
  const other = device(t, { storage, clock, experiment: "other" });
  assert.deepEqual(await other.client.pulls(), []);
  const again = device(t, { agent, storage, clock });
  const [pull] = await again.client.pulls();
  assert.deepEqual([pull.arm, pull.name, pull.ticket], [1, "green", "ticket-1"]);
  assert.equal(await pull.observe(1), true);
});

test("the timer sends at the moment by itself", async (t) => {
  const agent = new Agent();
  Object.assign(agent.decision, { report_after: 0.1, expires_in: 60 });
  const { client } = device(t, { agent, clock: () => Date.now() / 1000 });
  await client.decide();
  await until(() => agent.counted.size === 1);
});

test("the timer tries again by itself after a failure", async (t) => {
  const agent = new Agent();
  Object.assign(agent.decision, { report_after: 0.05, expires_in: 60 });
  const { client } = device(t, { agent, clock: () => Date.now() / 1000 });
  await client.decide();
  agent.before = down;
  await until(() => agent.sent.length === 1);
  agent.before = () => undefined;
  await until(() => agent.counted.size === 1);
  assert.equal(agent.sent[0], agent.sent[1]);
});

test("what may pass is kept: a network error, 401, 429, 5xx, and answers that are not the agent's", async (t) => {
  const passing = [
    [401, { code: "unauthorized", message: "" }], [429, { code: "slow_down", message: "" }],
    [500, "oops"], [503, { code: "retry", message: "" }], [404, { code: "not_found", message: "" }],
    [403, "<html>a proxy</html>"], [200, "<html>a login page</html>"], [200, {}], [200, null], [410, null],
  ];
  for (const answer of passing) {
    const { agent, client, clock } = device(t);
    await client.decide();
    agent.before = () => answer;
    assert.deepEqual(await report({ client, clock }), { acknowledged: 0, waiting: 1, refused: [] }, inspect(answer));
    agent.before = () => undefined;
    assert.equal((await client.flush()).acknowledged, 1);
    assert.equal(new Set(agent.sent).size, 1);
  }
});

test("what the agent will never take is dropped, and reported by flush, once", async (t) => {
  const final = [[403, "forged"], [409, "changed"], [410, "expired"], [410, "closed"], [422, "impossible"], [400, "malformed"]];
  for (const [status, code] of final) {
    const { agent, client, storage, clock } = device(t);
    await client.decide();
    agent.before = () => [status, { code, message: "a sentence" }];
    const { refused, ...counts } = await report({ client, clock });
    assert.deepEqual(counts, { acknowledged: 0, waiting: 0 });
    assert.deepEqual(refused.map((error) => [error.status, error.code, error.message.includes("a sentence")]), [[status, code, true]]);
    assert.deepEqual((await state(storage)).pulls, []);
    assert.deepEqual((await client.flush()).refused, []);
  }
});

test("a response whose ticket has ended is not sent: it is dropped and reported", async (t) => {
  const { agent, client, storage, clock } = device(t);
  await client.decide();
  clock.time += 3600;
  const { refused } = await client.flush();
  assert.deepEqual(refused.map(({ code }) => code), ["expired"]);
  assert.equal(agent.sent.length, 0);
  assert.deepEqual((await state(storage)).pulls, []);
});

test("a refused decision says why: its status and code are the agent's", async (t) => {
  for (const [status, code] of [[401, "unauthorized"], [409, "paused"], [410, "closed"], [503, "retry"]]) {
    const { agent, client } = device(t);
    agent.before = () => [status, { code, message: "m" }];
    await assert.rejects(client.decide(), (error) => error.status === status && error.code === code);
  }
  const { agent, client } = device(t);
  agent.before = down;
  await assert.rejects(client.decide(), (error) => error.status === 0 && error.code === "unreachable");
});

test("attempts are 1, 2, 4, ... 300 seconds apart, less up to half by chance; failures of one round count once", () => {
  const clock = handClock();
  const outbox = new Outbox({ storage: memoryStorage(), clock, own: new Map(), exchangeWith: () => async () => {}, mine: () => [], clear: () => {} });
  const jitters = new Set();
  for (let i = 0; i < 12; i++) {
    outbox.backOff();
    const wait = outbox.retryAt - clock.time;
    outbox.backOff();
    assert.equal(outbox.retryAt - clock.time, wait);
    const longest = Math.min(300, 2 ** i);
    assert.ok(wait >= longest / 2 - 1e-6 && wait <= longest + 1e-6, `attempt ${i}: ${wait}`);
    jitters.add((wait / longest).toFixed(3));
    clock.time = outbox.retryAt;
  }
  assert.ok(jitters.size > 3);
});

test("the agent's address, the experiment and the key must be given", () => {
  for (const [url, experiment, key] of [["", "e", "k"], [URL_, undefined, "k"], [URL_, "e", 5]]) {
    assert.throws(() => new Client(url, experiment, { key, limits: LIMITS }), ParameterError);
  }
});
