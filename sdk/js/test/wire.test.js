import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { test } from "node:test";
import { inspect } from "node:util";

import { Client, memoryStorage, ServerError } from "ldpbandits";

import { Agent, device, KEY, LIMITS, URL_ } from "./support/agent.js";

const moment = async ({ client, clock }) => ((clock.time += 300), client.flush());

test("a decision carries the key, a response none; both no cookie and no referrer, and their bodies no other field", async (t) => {
  const { agent, client, clock } = device(t, { url: `${URL_}/`, experiment: "a b/c" });
  await (await client.decide()).observe(0.123456789);
  await moment({ client, clock });
  const [offered, asked, accepted, told] = agent.requests;
  const place = `${URL_}/v1/experiments/a%20b%2Fc`;
  assert.deepEqual(agent.requests.map(({ url }) => url), [`${place}/offer`, `${place}/decisions`, `${URL_}/v1/acceptances`, `${URL_}/v1/responses`]);
  for (const request of agent.requests) {
    assert.equal(request.method, request === offered ? undefined : "POST");
    assert.deepEqual([request.credentials, request.referrerPolicy, request.redirect], ["omit", "no-referrer", "error"]);
    assert.ok(!inspect(request, { depth: 9 }).includes("0.123456789"));
  }
  assert.deepEqual(asked.headers, { Authorization: `Bearer ${KEY}`, "Content-Type": "application/json" });
  assert.deepEqual([offered.headers, offered.body, offered.keepalive], [{}, undefined, false], "the same for everybody");
  for (const { headers, keepalive } of [accepted, told]) assert.deepEqual([headers, keepalive], [{}, true], "a simple request, which outlives its page");
  assert.deepEqual(Object.keys(JSON.parse(accepted.body)), ["ticket"]);
  assert.equal(asked.body, "{}");
  assert.deepEqual(Object.keys(JSON.parse(told.body)), ["ticket", "response", "epsilon"]);
});

test("over real HTTP, with replies that are lost, each response is counted once, as plain text without a key", async (t) => {
  const agent = new Agent();
  agent.decision.report_after = 0.001;
  const { url, stop } = await agent.serve();
  t.after(stop);
  const client = new Client(url, "buttons", { key: KEY, limits: LIMITS, storage: memoryStorage() });
  t.after(() => client.close());
  let lost = 0;
  agent.after = (path) => {
    if (path === "/v1/responses" && ++lost % 2) throw new Error("lost");
  };
  for (let i = 0; i < 5; i++) await client.decide();
  while ((await client.flush()).waiting || agent.counted.size < 5);
  const told = agent.requests.filter(({ path }) => path === "/v1/responses");
  assert.ok(told.length > 5);
  for (const { headers } of told) {
    assert.equal(headers["content-type"], "text/plain;charset=UTF-8");
    assert.ok(!headers.authorization && !headers.cookie && !headers.referer);
  }
});

/** An agent that answers each request by this handler; returns a client of it and the number of open connections. */
async function against(t, handler) {
  const server = createServer(handler);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => (server.closeAllConnections(), server.close()));
  const client = new Client(`http://127.0.0.1:${server.address().port}`, "e", { key: KEY, limits: LIMITS, storage: memoryStorage() });
  t.after(() => client.close());
  return client;
}

test("an exchange ends after ten seconds as a whole, also while its body drips", async (t) => {
  let [dripped, closed] = [() => {}, () => {}];
  const [dripping, closing] = [new Promise((resolve) => (dripped = resolve)), new Promise((resolve) => (closed = resolve))];
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const client = await against(t, (request, reply) => {
    reply.writeHead(200, { "content-type": "application/json" }).write("[");
    let drops = 0;
    const drip = setInterval(() => (reply.write(" "), ++drops === 3 && dripped()), 5);
    reply.on("close", () => (clearInterval(drip), closed()));
  });
  const asked = client.decide();
  await dripping;
  t.mock.timers.tick(9_999);
  let settled = false;
  void asked.catch(() => {}).then(() => (settled = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.ok(!settled);
  t.mock.timers.tick(1);
  await assert.rejects(asked, (error) => error instanceof ServerError && error.code === "unreachable" && /in time/.test(error.message));
  await closing; // and the connection with it
});

test("a fetch that does not heed its signal is given up all the same", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { agent, client } = device(t);
  let asked = () => {};
  const asking = new Promise((resolve) => (asked = resolve));
  agent.before = () => (asked(), new Promise(() => {}));
  const decided = client.decide();
  await asking;
  t.mock.timers.tick(10_000);
  await assert.rejects(decided, { code: "unreachable" });
});

test("a reply above 1 MB is refused while it arrives", async (t) => {
  let [sent, closed] = [0, () => {}];
  const closing = new Promise((resolve) => (closed = resolve));
  const spaces = Buffer.alloc(1 << 16, " ");
  const client = await against(t, (request, reply) => {
    reply.writeHead(200, { "content-type": "application/json" });
    const pour = () => {
      while (!reply.destroyed && reply.write(spaces)) sent += spaces.length;
    };
    reply.on("drain", pour).on("close", closed);
    pour();
  });
  await assert.rejects(client.decide(), (error) => error instanceof ServerError && error.code === "unreadable" && /1 MB/.test(error.message));
  await closing;
  assert.ok(sent < 2 ** 25, `${sent} bytes were sent`); // what the sockets between hold is not the device's
});

test("a reply of 1 MB is read", async (t) => {
  const { agent, client } = device(t);
  agent.before = (path) => (path.endsWith("/decisions") ? [200, JSON.stringify({ ...agent.decision, ticket: "t" }).padEnd(1 << 20)] : undefined);
  assert.equal((await client.decide()).ticket, "t");
  agent.before = (path) => (path.endsWith("/decisions") ? [200, JSON.stringify({ ...agent.decision, ticket: "u" }).padEnd((1 << 20) + 1)] : undefined);
  await assert.rejects(client.decide(), { code: "unreadable" });
});

test("the agent's words are shown without control characters, in no error and in none of its causes", async (t) => {
  const hidden = ["\u0000", "\u0007", "\n", "\r", "\u001b[31m", "\u007f", "\u0085", "\u009b", "\u2028", "\u2029", "\u200e", "\u202a", "\u202e", "\u2066", "\u2069", "\u061c"];
  const words = `a${hidden.join("b")}c`;
  const answers = [
    [409, { code: words, message: words }], [200, words], [500, `{${words}`], [409, [words]],
    [200, { arm: 0, name: words }], [200, { ...new Agent().decision, ticket: "t", curator: { mechanism: words, epsilon: 1 } }],
    [200, { ...new Agent().decision, ticket: "t", curator: { mechanism: "laplace", epsilon: 1, [words]: 1 } }],
  ];
  for (const answer of answers) {
    const { agent, client } = device(t);
    agent.before = () => answer;
    await assert.rejects(client.decide(), (error) => {
      for (let told = error; told; told = told.cause) {
        assert.ok(hidden.every((character) => !`${told.message}${told.code}`.includes(character)), inspect(told));
      }
      return true;
    });
  }
});
