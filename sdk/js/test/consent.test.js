// Who takes part: nothing is asked and nothing stored of who does not.
import assert from "node:assert/strict";
import { test } from "node:test";

import { LimitError, TicketError } from "ldpbandits";

import { Agent, device, LIMITS, state } from "./support/agent.js";

/** Whether this is a LimitError with this code. */
const refused = (code) => (error) => error instanceof LimitError && error.code === code;

/** What a browser says of itself, while the test runs. */
function browser(t, navigator) {
  const former = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: navigator, configurable: true });
  t.after(() => (former ? Object.defineProperty(globalThis, "navigator", former) : delete globalThis.navigator));
}

test("with consent required nothing is asked and nothing stored before optIn, and then all is as it was", async (t) => {
  const { agent, client, storage } = device(t, { consent: "required" });
  await assert.rejects(client.decide(), refused("consent_required"));
  assert.deepEqual([await storage.read(), agent.requests], [null, []]);
  await client.optIn();
  const pull = await client.decide();
  assert.equal(await pull.observe(1), true);
});

test("optOut ends all pulls of all experiments: nothing more is asked, taken or sent, by no client, until optIn", async (t) => {
  const first = device(t);
  const { agent, storage, clock } = first;
  const second = device(t, { agent, storage, clock, experiment: "other" });
  const [pull] = [await first.client.decide(), await second.client.decide()];
  await second.client.optOut();
  await assert.rejects(pull.observe(1), TicketError);
  for (const { client } of [first, second]) await assert.rejects(client.decide(), refused("opted_out"));
  const { length } = agent.requests;
  clock.time += 300;
  for (const { client } of [first, second]) assert.deepEqual(await client.flush(), { acknowledged: 0, waiting: 0, refused: [] });
  await first.client.leave();
  assert.equal(agent.requests.length, length);
  await first.client.optIn();
  assert.equal((await second.client.decide()).name, "green");
});

test("who opts out while an arm is asked for is shown none, and is charged nothing", async (t) => {
  const { agent, client, storage } = device(t);
  let answer = () => {};
  agent.before = (path) => (path.endsWith("/decisions") ? new Promise((resolve) => (answer = resolve)) : undefined);
  const deciding = client.decide();
  while (!agent.asked.length) await new Promise((resolve) => setImmediate(resolve));
  await client.optOut();
  answer();
  await assert.rejects(deciding, refused("opted_out"));
  assert.deepEqual((await state(storage)).spends, []);
});

test("forget leaves the refusal and one sum of what was spent, so that the budget is not full again", async (t) => {
  const agent = new Agent();
  agent.decision.sticky = 3600;
  const { client, storage, clock } = device(t, { agent, limits: { ...LIMITS, budget: 2 } });
  await client.decide();
  await client.forget();
  const kept = await state(storage);
  assert.deepEqual({ ...kept, window: 0 }, { version: 3, window: 0, spends: [[clock.time, 1]], left: [], pulls: [], arms: [], consent: "out" });
  await assert.rejects(client.decide(), refused("opted_out"));
  await client.optIn();
  await client.decide();
  assert.equal(await client.remaining(), 0);
});

test("Global Privacy Control is a refusal, unless this site's visitor has opted in", async (t) => {
  browser(t, { userAgent: "Mozilla/5.0 Firefox/140.0", globalPrivacyControl: true });
  const { agent, client, storage } = device(t, { allowAutomated: false });
  await assert.rejects(client.decide(), refused("signal"));
  assert.deepEqual([await storage.read(), agent.requests], [null, []]);
  await client.optIn();
  assert.equal((await client.decide()).name, "green");
});

test("automated browsers and crawlers do not take part unless it is said, also after optIn; a telephone does", async (t) => {
  const crawlers = ["Mozilla/5.0 (compatible; Googlebot/2.1)", "Mozilla/5.0 HeadlessChrome/156.0", "facebookexternalhit/1.1", "Baiduspider", "Bot", "Mozilla/5.0 Chrome-Lighthouse"];
  for (const navigator of [{ webdriver: true, userAgent: "Mozilla/5.0" }, ...crawlers.map((userAgent) => ({ userAgent }))]) {
    browser(t, navigator);
    const { agent, client } = device(t, { allowAutomated: false });
    await assert.rejects(client.decide(), refused("automated"), navigator.userAgent);
    assert.equal(agent.requests.length, 0);
    await client.optIn();
    await assert.rejects(client.decide(), refused("automated"));
    await device(t, { allowAutomated: true }).client.decide();
  }
  browser(t, { webdriver: false, userAgent: "Mozilla/5.0 (Linux; Android 12; CUBOT NOTE 40) AppleWebKit/537.36" });
  await device(t, { allowAutomated: false }).client.decide();
});

test("a test by qa shows its arm, whoever asks: nobody is asked, nothing is stored or counted", async (t) => {
  browser(t, { webdriver: true, userAgent: "HeadlessChrome", globalPrivacyControl: true });
  const { agent, client, storage } = device(t, { allowAutomated: false, consent: "required" });
  const pull = await client.decide({ qa: "blue" });
  assert.deepEqual([pull.arm, pull.name, pull.ticket, pull.epsilon, await pull.observe(1)], [null, "blue", null, 0, false]);
  assert.deepEqual([await storage.read(), agent.requests, await client.pulls()], [null, [], []]);
});

test("a process may have many clients without a warning", async (t) => {
  const warned = [];
  const note = ({ message }) => warned.push(message);
  process.on("warning", note);
  t.after(() => process.off("warning", note));
  for (let i = 0; i < 20; i++) device(t);
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(warned, []);
});

test("a listener is told when somebody opts in or out, until it ends", async (t) => {
  const { client } = device(t);
  let told = 0;
  const end = client.onConsent(() => told++);
  await client.optOut();
  await client.optIn();
  end();
  await client.forget();
  assert.equal(told, 2);
});
