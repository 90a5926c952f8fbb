import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, LimitError, memoryStorage, ParameterError, RewardError, ServerError, TicketError } from "ldpbandits";

import { Outbox } from "../src/outbox.js";
import { Agent, bytesDrawn, CTB, device, handClock, KEY, LIMITS, state, until, URL_ } from "./support/agent.js";

const down = () => {
  throw new TypeError("fetch failed");
};

test("decide, observe: the agent counts one response that its curator can give", async (t) => {
  const { agent, client } = device(t);
  const pull = await client.decide();
  assert.deepEqual([pull.arm, pull.name, pull.ticket], [1, "green", "ticket-1"]);
  assert.equal(await pull.observe(1), true);
  assert.ok([0, 1].includes(agent.counted.get("ticket-1")));
  assert.deepEqual(await client.pulls(), []);
});

test("requests carry the key, no cookie and no referrer, and their bodies have no other field", async (t) => {
  const { agent, client } = device(t, { url: `${URL_}/`, experiment: "a b/c" });
  await (await client.decide()).observe(0.123456789);
  assert.deepEqual(
    agent.requests.map(({ url }) => url),
    [`${URL_}/v1/experiments/a%20b%2Fc/decisions`, `${URL_}/v1/responses`],
  );
  for (const request of agent.requests) {
    assert.equal(request.method, "POST");
    assert.equal(request.headers.Authorization, `Bearer ${KEY}`);
    assert.deepEqual([request.credentials, request.referrerPolicy, request.redirect], ["omit", "no-referrer", "error"]);
    assert.ok(!inspect(request, { depth: 9 }).includes("0.123456789"));
  }
  assert.equal(agent.requests[0].body, "{}");
  assert.deepEqual(Object.keys(JSON.parse(agent.sent[0])), ["ticket", "response", "epsilon"]);
});

test("the storage never holds a reward", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { mechanism: "laplace", epsilon: 1 };
  const { client, storage } = device(t, { agent });
  const pull = await client.decide();
  agent.before = down;
  await pull.observe(0.123456789);
  assert.ok(!(await storage.getItem("ldpbandits")).includes("0.123456789"));
});

test("the spend and the open pull are stored before the arm is returned", async (t) => {
  const { client, storage, clock } = device(t);
  await client.decide();
  const { spends, pulls } = await state(storage);
  assert.deepEqual(spends, [[clock.time, 1]]);
  assert.equal(pulls[0].ticket, "ticket-1");
  assert.equal(pulls[0].due, clock.time + 3600 - 60);
});

test("a short ticket is due when a tenth of its life is left", async (t) => {
  const agent = new Agent();
  agent.decision.expires_in = 100;
  const { client, storage, clock } = device(t, { agent });
  await client.decide();
  assert.equal((await state(storage)).pulls[0].due, clock.time + 90);
});

test("an agent that asks for too large an epsilon is refused, nothing is drawn, spent or sent", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { ...CTB, epsilon: 2 };
  const { client, storage } = device(t, { agent });
  const bytes = await bytesDrawn(t, () =>
    assert.rejects(client.decide(), (error) => error instanceof LimitError && /epsilon 2; this device allows 1/.test(error.message)),
  );
  assert.equal(bytes, 0);
  assert.equal(await storage.getItem("ldpbandits"), null);
  assert.equal(agent.requests.length, 1);
});

test("the budget holds over all experiments and clients of a storage, and is not refunded", async (t) => {
  const storage = memoryStorage();
  const limits = { ...LIMITS, budget: 3 };
  const clients = ["a", "b", "c"].map((experiment) => device(t, { storage, limits, experiment, url: `https://${experiment}.test` }).client);
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

test("the real line needs the owner's leave: there epsilon is promised only for rewards within 1", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { mechanism: "laplace", epsilon: 1, transform: { kind: "real-line" } };
  await assert.rejects(device(t, { agent }).client.decide(), (error) => error instanceof LimitError && /real line/.test(error.message));
  const { client } = device(t, { agent, limits: { ...LIMITS, realLine: true } });
  assert.equal(await (await client.decide()).observe(1e6), true);
});

test("a decision that cannot be understood is refused and spends nothing", async (t) => {
  const broken = [
    { arm: "1" }, { arm: 1.5 }, { name: 5 }, { expires_in: 0 }, { expires_in: "60" }, { expires_in: null },
    { default: 2 }, { default: "0" }, { default: null },
    { arm: -7 }, { arm: 2 ** 31 }, { name: "x".repeat(1001) }, { expires_in: 1e308 },
    { curator: undefined }, { curator: { ...CTB, seed: 1 } }, { curator: { ...CTB, epsilon: 0 } },
  ];
  for (const change of broken) {
    const agent = new Agent();
    Object.assign(agent.decision, change);
    const { client, storage } = device(t, { agent });
    await assert.rejects(client.decide(), (error) => error instanceof ServerError && error.code === "unreadable", inspect(change));
    assert.equal(await storage.getItem("ldpbandits"), null);
  }
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
  const { client } = device(t, { agent });
  const pull = await client.decide();
  agent.after = (path) => path === "/v1/responses" && down();
  assert.equal(await pull.observe(0.5), false);
  agent.after = () => undefined;
  assert.deepEqual(await client.flush(), { acknowledged: 1, waiting: 0, refused: [] });
  assert.equal(agent.sent.length, 2);
  assert.equal(agent.sent[0], agent.sent[1]);
  assert.equal(agent.counted.size, 1);
});

test("a crash between the store and the send loses nothing: the next client sends what is stored, without a draw", async (t) => {
  const first = device(t);
  const pull = await first.client.decide();
  first.agent.before = () => new Promise(() => {}); // the process dies while it waits
  void pull.observe(1);
  while ((await state(first.storage)).pulls[0].response === undefined) await sleep(1);
  const { response } = (await state(first.storage)).pulls[0];
  first.client.close();

  const second = device(t, { storage: first.storage, clock: first.clock });
  const bytes = await bytesDrawn(t, () => second.client.flush());
  assert.equal(bytes, 0);
  assert.deepEqual(second.agent.sent, [JSON.stringify({ ticket: "ticket-1", response, epsilon: 1 })]);
});

test("a flush while a response is on its way waits for it, and does not send it twice", async (t) => {
  const { agent, client } = device(t);
  const pull = await client.decide();
  let open = () => {};
  agent.before = () => new Promise((resolve) => (open = () => resolve(undefined)));
  const observed = pull.observe(1);
  while (agent.sent.length === 0) await sleep(1);
  const flushed = client.flush();
  await sleep(20);
  assert.equal(agent.sent.length, 1);
  open();
  assert.equal(await observed, true);
  assert.equal((await flushed).acknowledged, 1);
  assert.equal(agent.sent.length, 1);
});

test("a client sends by itself what an earlier one left", async (t) => {
  const first = device(t);
  const pull = await first.client.decide();
  first.agent.before = down;
  assert.equal(await pull.observe(1), false);
  first.client.close();
  const second = device(t, { storage: first.storage, clock: first.clock });
  await until(() => second.agent.counted.size === 1);
});

test("a second observation of a ticket is an error and draws nothing, sent or not", async (t) => {
  const { agent, client } = device(t);
  const pull = await client.decide();
  agent.before = down;
  await pull.observe(1);
  const bytes = await bytesDrawn(t, () => assert.rejects(pull.observe(0), TicketError));
  assert.equal(bytes, 0);
  agent.before = () => undefined;
  await client.flush();
  await assert.rejects(pull.observe(0), TicketError);
  await assert.rejects(client.observe("no such ticket", 0), TicketError);
  assert.equal(agent.counted.size, 1);
});

test("of two observations at the same moment one is taken and one is an error", async (t) => {
  const { agent, client } = device(t);
  const { ticket } = await client.decide();
  const results = await Promise.allSettled([client.observe(ticket, 1), client.observe(ticket, 0)]);
  assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected"]);
  assert.equal(agent.sent.length, 1);
});

test("a reward that is refused leaves the pull open and is in no error", async (t) => {
  const { client } = device(t);
  const pull = await client.decide();
  await assert.rejects(pull.observe(86.75309), (error) => {
    assert.ok(error instanceof RewardError);
    assert.ok(!inspect(error, { depth: 9 }).includes("86.75"));
    return true;
  });
  assert.equal((await client.pulls()).length, 1);
  assert.equal(await pull.observe(86.75309, { clip: true }), true);
});

test("after a reload the open pulls of this experiment are there, and can be observed", async (t) => {
  const { agent, client, storage, clock } = device(t);
  await client.decide();
  client.close();
  const other = device(t, { storage, clock, experiment: "other" });
  assert.deepEqual(await other.client.pulls(), []);
  const again = device(t, { agent, storage, clock });
  const [pull] = await again.client.pulls();
  assert.deepEqual([pull.arm, pull.name, pull.ticket], [1, "green", "ticket-1"]);
  assert.equal(await pull.observe(1), true);
});

test("no reward in time: the default is privatised once and sent, and not a moment earlier", async (t) => {
  const { agent, client, clock } = device(t);
  const pull = await client.decide();
  clock.time += 3539;
  assert.deepEqual(await client.flush(), { acknowledged: 0, waiting: 0, refused: [] });
  assert.equal(agent.sent.length, 0);
  clock.time += 1;
  const bytes = await bytesDrawn(t, () => client.flush());
  assert.equal(bytes, 8);
  assert.equal(agent.counted.size, 1);
  await assert.rejects(pull.observe(1), TicketError);
});

test("the default goes through the same curator: with epsilon 50 it arrives as it is", async (t) => {
  const agent = new Agent();
  Object.assign(agent.decision, { curator: { ...CTB, epsilon: 50 }, default: 1 });
  const { client, clock } = device(t, { agent, limits: { epsilon: 50, budget: 50, window: 60 } });
  await client.decide();
  clock.time += 3600;
  await client.flush();
  assert.deepEqual([...agent.counted.values()], [1]);
});

test("the timer sends the default by itself, unless the client is closed", async (t) => {
  const agent = new Agent();
  agent.decision.expires_in = 0.2;
  const clock = () => Date.now() / 1000;
  const { client } = device(t, { agent, clock });
  await client.decide();
  await until(() => agent.counted.size === 1);

  const closed = device(t, { agent, clock });
  await closed.client.decide();
  closed.client.close();
  await sleep(300);
  assert.equal(agent.counted.size, 1);
});

test("the timer tries again by itself after a failure", async (t) => {
  const agent = new Agent();
  const { client } = device(t, { agent, clock: () => Date.now() / 1000 });
  const pull = await client.decide();
  agent.before = down;
  assert.equal(await pull.observe(1), false);
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
    const { agent, client } = device(t);
    const pull = await client.decide();
    agent.before = () => answer;
    assert.equal(await pull.observe(1), false, inspect(answer));
    assert.deepEqual(await client.flush(), { acknowledged: 0, waiting: 1, refused: [] });
    agent.before = () => undefined;
    assert.equal((await client.flush()).acknowledged, 1);
    assert.equal(new Set(agent.sent).size, 1);
  }
});

test("what the agent will never take is dropped and reported, by observe and by flush", async (t) => {
  const final = [[403, "forged"], [409, "changed"], [410, "expired"], [410, "closed"], [422, "impossible"], [400, "malformed"]];
  for (const [status, code] of final) {
    const { agent, client, storage } = device(t);
    const [first, second] = [await client.decide(), await client.decide()];
    agent.before = down;
    await second.observe(1);
    agent.before = () => [status, { code, message: "a sentence" }];
    await assert.rejects(first.observe(1), (error) => {
      assert.ok(error instanceof ServerError && error.message.includes("a sentence"));
      assert.deepEqual([error.status, error.code], [status, code]);
      return true;
    });
    const { refused, ...counts } = await client.flush();
    assert.deepEqual(counts, { acknowledged: 0, waiting: 0 });
    assert.deepEqual(refused.map((error) => error.code), [code]);
    assert.deepEqual((await state(storage)).pulls, []);
    assert.deepEqual((await client.flush()).refused, []);
  }
});

test("a refused decision says why: its status and code are the agent's", async (t) => {
  for (const [status, code] of [[401, "unauthorized"], [404, "not_found"], [409, "paused"], [410, "closed"], [503, "retry"]]) {
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
  const outbox = new Outbox(async () => {}, memoryStorage(), clock);
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

test("over real HTTP, with a reply that is lost, each response is counted once", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  const client = new Client(url, "buttons", { key: KEY, limits: LIMITS, storage: memoryStorage() });
  t.after(() => client.close());
  let lost = 0;
  agent.after = (path) => path === "/v1/responses" && ++lost % 2 && down();
  for (let i = 0; i < 5; i++) await (await client.decide()).observe(1);
  while ((await client.flush()).waiting);
  assert.equal(agent.counted.size, 5);
  assert.ok(agent.requests.every(({ headers }) => headers.authorization === `Bearer ${KEY}` && !headers.cookie && !headers.referer));
});
