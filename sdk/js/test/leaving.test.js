// A page without a browser: the document must be there before a client is, since it is then that it looks for one.
import assert from "node:assert/strict";
import { test } from "node:test";

import { LedgerError, ParameterError, TicketError } from "ldpbandits";

import { Agent, bytesDrawn, device, handClock, LIMITS, LOUD, state } from "./support/agent.js";
import { site } from "./support/tabs.js";

const [window, document] = [new EventTarget(), Object.assign(new EventTarget(), { visibilityState: "visible" })];
Object.assign(globalThis, { document, addEventListener: window.addEventListener.bind(window) });

/** Leave every page of this process, as a browser tells it; all that counts must be done when this returns. */
const leave = () => window.dispatchEvent(new Event("pagehide"));

function show(visibilityState) {
  document.visibilityState = visibilityState;
  document.dispatchEvent(new Event("visibilitychange"));
}

/** A tab of a site, with a client; what is not given is new. */
function tab(t, { of = site(), agent = new Agent(), clock = handClock(), ...options } = {}) {
  const { storage } = of.tab();
  const { client } = device(t, { storage, agent, clock, ...options });
  return { of, agent, clock, client, storage };
}

const loud = () => Object.assign(new Agent(), { decision: { ...new Agent().decision, curator: LOUD.curator } });
const later = { onLeave: "next-visit" };

test("a page without a service worker names what becomes of its responses, and the error says what each gives away", (t) => {
  const { storage } = site().tab();
  for (const onLeave of [null, "", "later", 5]) assert.throws(() => device(t, { storage, onLeave }), ParameterError);
  assert.throws(
    () => device(t, { storage, onLeave: null }),
    /onLeave must be "send", which tells when a page was left, or "next-visit", which tells who comes back, got null$/,
  );
});

test("pagehide with onLeave send: the responses are sent then, reward or not, before the listener returns", async (t) => {
  const agent = loud();
  const { client } = tab(t, { agent, limits: LOUD.limits });
  const [first, second] = [await client.decide(), await client.decide()];
  await first.observe(1);
  show("hidden");
  assert.equal(agent.sent.length, 0, "to be hidden is not to be left");
  leave();
  assert.deepEqual(agent.sent.map((body) => JSON.parse(body)), [
    { ticket: first.ticket, response: 1, epsilon: 50 },
    { ticket: second.ticket, response: 0, epsilon: 50 },
  ]);
  assert.ok(agent.requests.filter(({ path }) => path === "/v1/responses").every(({ keepalive }) => keepalive));
  await assert.rejects(first.observe(1), TicketError);
  await assert.rejects(second.observe(1), TicketError);
});

test("with next-visit nothing is sent as a page is left: another page of the site takes the reward, and one of several sends at the moment", async (t) => {
  const agent = loud();
  const first = tab(t, { agent, limits: LOUD.limits, ...later });
  const pull = await first.client.decide();
  leave();
  await first.client.close();
  assert.equal(agent.sent.length, 0);
  const { of, clock } = first;
  const tabs = [1, 2, 3].map(() => tab(t, { of, agent, clock, limits: LOUD.limits, ...later }).client);
  assert.deepEqual((await tabs[0].pulls()).map(({ ticket }) => ticket), [pull.ticket]);
  clock.time += 299;
  assert.equal(await tabs[1].observeLatest(1), true);
  assert.equal(await tabs[2].observeLatest(1), false, "there is no other that awaits one");
  clock.time += 1;
  await Promise.all(tabs.map((client) => client.flush()));
  assert.deepEqual(agent.sent.map((body) => JSON.parse(body).response), [1]);
  assert.deepEqual([...of.notes], [], "and its note is gone");
});

test("of two tabs that observe the same pull one is taken, and the other is told", async (t) => {
  const { of, agent, clock, client } = tab(t, later);
  const pull = await client.decide();
  const other = tab(t, { of, agent, clock, ...later }).client;
  const [same] = await other.pulls();
  const results = await Promise.allSettled([pull.observe(1), same.observe(0)]);
  assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected"]);
  assert.ok(results[1].reason instanceof TicketError);
});

test("with onLeave send a pull is its page's: another page neither observes it nor sends it before its moment", async (t) => {
  const { of, client, clock, agent } = tab(t);
  await client.decide();
  const other = tab(t, { of, clock, agent });
  assert.deepEqual(await other.client.pulls(), [], "it is not that tab's to observe");
  await assert.rejects(other.client.observe("ticket-1", 1), TicketError);
  assert.equal(await other.client.observeLatest(1), false);
  clock.time += 299;
  assert.deepEqual(await other.client.flush(), { acknowledged: 0, waiting: 0, refused: [] });
  clock.time += 1;
  assert.equal((await other.client.flush()).acknowledged, 1);
});

test("a page that is hidden and then left sends each response once", async (t) => {
  const { agent, client } = tab(t);
  await client.decide();
  show("hidden");
  leave();
  await client.close();
  assert.equal(agent.sent.length, 1);
});

test("a page that is left sends what is stored, so that a pull has one response whatever becomes of the page", async (t) => {
  const agent = loud();
  const { of, storage, client, clock } = tab(t, { agent, limits: LOUD.limits });
  const add = storage.note;
  let store = () => {};
  storage.note = (note) => (note.left === undefined ? new Promise((resolve) => (store = resolve)).then(() => add(note)) : add(note));
  const pull = await client.decide();
  const observed = assert.rejects(pull.observe(1), TicketError); // a click on a link, and a storage that is slow
  leave();
  store();
  await observed;
  agent.counted.clear();
  clock.time += 3000;
  await tab(t, { of, agent, clock, limits: LOUD.limits }).client.flush();
  assert.deepEqual(new Set(agent.sent.map((body) => JSON.parse(body).response)), new Set([0]));
});

test("what did not get through is sent by the next visit, the same, and counted once", async (t) => {
  const first = tab(t, { agent: new Agent() });
  first.agent.decision.curator = { mechanism: "laplace", epsilon: 1 };
  const pull = await first.client.decide();
  await pull.observe(0.25);
  first.agent.before = () => new Promise(() => {}); // on its way when the page is gone
  leave();
  const visit = tab(t, { of: first.of, clock: first.clock });
  assert.deepEqual(await visit.client.flush(), { acknowledged: 0, waiting: 1, refused: [] }, "for the time of an exchange it is left alone");
  first.clock.time += 10;
  assert.equal((await visit.client.flush()).acknowledged, 1);
  assert.deepEqual(visit.agent.sent, first.agent.sent);
  assert.deepEqual([...first.of.notes], [], "and its note is gone");
});

test("two tabs whose timers fire together send each response once", async (t) => {
  const { of, client, clock, agent } = tab(t);
  for (let i = 0; i < 5; i++) await client.decide();
  const other = tab(t, { of, clock, agent });
  clock.time += 320;
  const flushed = await Promise.all([client.flush(), other.client.flush()]);
  assert.equal(agent.sent.length, 5);
  assert.equal(flushed[0].acknowledged + flushed[1].acknowledged, 5);
});

test("a tab that dies while it sends is followed by another after the time of an exchange", async (t) => {
  const { of, client, clock, agent } = tab(t);
  await client.decide();
  agent.before = () => new Promise(() => {});
  clock.time += 300;
  void client.flush();
  while (!agent.sent.length) await new Promise((resolve) => setImmediate(resolve));
  const other = tab(t, { of, clock });
  clock.time += 9;
  assert.deepEqual(await other.client.flush(), { acknowledged: 0, waiting: 1, refused: [] });
  clock.time += 1;
  assert.equal((await other.client.flush()).acknowledged, 1);
  assert.deepEqual(other.agent.sent, agent.sent);
});

test("a clock that was ahead while another tab sent the default: the reward comes too late", async (t) => {
  const agent = loud();
  const { of, client, clock } = tab(t, { agent, limits: LOUD.limits });
  const pull = await client.decide();
  const other = tab(t, { of, clock, agent, limits: LOUD.limits });
  agent.after = () => { throw new Error("lost"); };
  clock.time += 400;
  await other.client.flush();
  clock.time -= 400;
  await assert.rejects(pull.observe(1), TicketError);
  leave();
  clock.time += 400;
  await client.flush();
  assert.deepEqual(new Set(agent.sent.map((body) => JSON.parse(body).response)), new Set([0]));
});

test("a note that cannot be written: the reward is refused with a LedgerError, and the default leaves in time", async (t) => {
  const agent = loud();
  const { storage } = site().tab();
  storage.note = async () => { throw new Error("QuotaExceededError"); };
  const { client } = device(t, { agent, storage, limits: LOUD.limits });
  const pull = await client.decide();
  await assert.rejects(pull.observe(1), LedgerError);
  leave();
  assert.equal(JSON.parse(agent.sent[0]).response, 0);
});

test("a response beyond the budget of what leaves is held back as the page is left, and sent when it fits", async (t) => {
  const agent = new Agent();
  Object.assign(agent.decision, { report_after: 200_000, expires_in: 400_000 });
  const { of, client, clock } = tab(t, { agent, limits: { ...LIMITS, budget: 1 } });
  await client.decide();
  clock.time += 86401;
  const second = await client.decide();
  leave();
  assert.deepEqual(agent.sent.map((body) => JSON.parse(body).ticket), ["ticket-1"]);
  await assert.rejects(second.observe(1), TicketError);
  while ((await state(of.ledger)).pulls.length > 1);
  const visit = tab(t, { of, clock, agent, limits: { ...LIMITS, budget: 1 } });
  clock.time += 86400;
  assert.equal((await visit.client.flush()).acknowledged, 0);
  clock.time += 200_000;
  assert.equal((await visit.client.flush()).acknowledged, 1);
});

test("what left with its page counts in the budget although nobody noted it, and from then on", async (t) => {
  const { of, client, clock, agent } = tab(t, { limits: { ...LIMITS, budget: 1, window: 5000 } });
  await client.decide();
  agent.before = () => new Promise(() => {});
  clock.time += 20;
  leave();
  const time = clock.time;
  clock.time += 4000; // the ticket has ended, and nobody knows whether the response has arrived
  agent.before = () => undefined;
  const visit = tab(t, { of, clock, agent, limits: { ...LIMITS, budget: 1, window: 5000 } });
  await assert.rejects(visit.client.decide(), { name: "LimitError" });
  clock.time += 981;
  await visit.client.decide();
  assert.deepEqual((await state(of.ledger)).pulls.map(({ cleared }) => cleared), [true, false]);
  assert.deepEqual((await visit.client.flush()).refused, [], "that it may have arrived is no refusal");
  const { left, pulls } = await state(of.ledger);
  assert.deepEqual([left, pulls.map(({ cleared }) => cleared)], [[[time, 1]], [false]]);
});

test("a page that is left after its ticket's end sends nothing: nobody would take it", async (t) => {
  const { agent, client, clock } = tab(t);
  await client.decide();
  clock.time += 3600;
  leave();
  assert.equal(agent.sent.length, 0);
});

test("with report_after 0 the response has left when observe returns", async (t) => {
  const agent = loud();
  agent.decision.report_after = 0;
  const { client } = tab(t, { agent, limits: { ...LOUD.limits, atOnce: true } });
  const pull = await client.decide();
  assert.equal(await pull.observe(1), true);
  assert.equal(agent.counted.size, 1);
});

test("close reports what is open, and with keep another client of the page goes on with it", async (t) => {
  const { storage } = site().tab();
  const { agent, client, clock } = device(t, { storage });
  await client.decide();
  await client.close({ keep: true });
  leave();
  assert.equal(agent.sent.length, 0);
  const next = device(t, { storage, agent, clock });
  const [pull] = await next.client.pulls();
  assert.equal(await pull.observe(1), true);
  await next.client.close();
  assert.equal(agent.counted.size, 1);
});

test("leaving draws nothing: the response was drawn when the arm was accepted", async (t) => {
  const { client } = tab(t);
  await client.decide();
  assert.equal(await bytesDrawn(t, async () => leave()), 0);
});

test("a client that is closed takes no pull up, which nobody would report: not even one that was asked for before", async (t) => {
  const { agent, client, storage } = device(t);
  let answer = () => {};
  agent.before = (path) => (path.endsWith("/decisions") ? new Promise((resolve) => (answer = resolve)) : undefined);
  const deciding = client.decide();
  while (!agent.asked.length) await new Promise((resolve) => setImmediate(resolve));
  await client.close();
  answer(undefined);
  for (const late of [deciding, client.decide()]) {
    await assert.rejects(late, (error) => error instanceof LedgerError && /this client is closed/.test(error.message));
  }
  assert.deepEqual([await storage.read(), agent.asked.length], [null, 1], "nothing was spent, and nobody asked");
});
