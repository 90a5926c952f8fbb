import assert from "node:assert/strict";
import { test } from "node:test";

import { Window } from "happy-dom";
import { act, createElement as h, StrictMode, useEffect } from "react";

import { LimitError, ParameterError, RewardError, TicketError } from "ldpbandits";
import { useDecision } from "ldpbandits/react";

import { Agent, device, LOUD, LIMITS } from "./support/agent.js";

const LABELS = { red: "Buy", green: "Buy now" };

const window = new Window({ url: "https://shop.example/" });
const { document, navigator } = window;
const globals = { window, document, navigator, addEventListener: window.addEventListener.bind(window), IS_REACT_ACT_ENVIRONMENT: true };
for (const [name, value] of Object.entries(globals)) Object.defineProperty(globalThis, name, { value, configurable: true }); // Node has some
const { createRoot } = await import("react-dom/client");
const { renderToString } = await import("react-dom/server");

/** Put components into a document; `seen` is what useDecision last gave to each, by name. */
async function mounted(t, element) {
  const root = createRoot(document.createElement("div"));
  t.after(() => act(() => root.unmount()));
  await act(() => root.render(element));
  return root;
}

/** A component that shows a decision, and lends it to the test. */
function component(client, seen, { values = LABELS, otherwise = "Buy" } = {}) {
  return function Shown() {
    const decision = useDecision(client, values, otherwise);
    seen.renders = (seen.renders ?? 0) + 1;
    useEffect(() => void (seen.effects = (seen.effects ?? 0) + 1), []);
    Object.assign(seen, decision);
    return decision.value;
  };
}

test("a component shows the page's own value for the arm, and until it is there the other", async (t) => {
  const { client, agent } = device(t);
  const seen = {};
  let answer = () => {};
  agent.before = (path) => (path.endsWith("/decisions") ? new Promise((resolve) => (answer = resolve)) : undefined);
  await mounted(t, h(component(client, seen)));
  assert.deepEqual([seen.value, seen.isPending, seen.error], ["Buy", true, undefined]);
  assert.equal(await seen.observe(1), false, "there is no arm yet");
  await act(async () => answer(undefined));
  assert.deepEqual([seen.value, seen.isPending, seen.error], ["Buy now", false, undefined]);
  assert.equal(await seen.observe(1), true);
});

test("strict mode mounts twice and takes one decision; so do components that share a client, and those that come back", async (t) => {
  const { client, agent } = device(t);
  const seen = [{}, {}];
  const strict = h(StrictMode, null, ...seen.map((one, i) => h(component(client, one), { key: i })));
  const root = await mounted(t, strict);
  assert.ok(seen.every(({ effects }) => effects === 2), "each was mounted twice");
  assert.equal(agent.asked.length, 1);
  assert.deepEqual(seen.map(({ value }) => value), ["Buy now", "Buy now"]);
  assert.equal(await client.spent(), 1);
  await act(() => root.render(null));
  await act(() => root.render(h(component(client, seen[0]))));
  assert.deepEqual([seen[0].value, agent.asked.length], ["Buy now", 1]);
});

test("a client that is made in each render is not asked in each", async (t) => {
  const agent = new Agent();
  let renders = 0;
  function Careless() {
    renders++;
    return useDecision(device(t, { agent }).client, LABELS, "Buy").value;
  }
  const root = await mounted(t, h(Careless));
  for (let i = 0; i < 5; i++) await act(() => root.render(h(Careless)));
  assert.ok(renders > 5);
  assert.equal(agent.asked.length, 1);
});

test("next() takes one decision more, however often it is called meanwhile, and all stays as it is until it is there", async (t) => {
  const { client, agent } = device(t);
  const seen = {};
  await mounted(t, h(StrictMode, null, h(component(client, seen))));
  agent.decision.name = "red";
  let answer = () => {};
  agent.before = (path) => (path.endsWith("/decisions") ? new Promise((resolve) => (answer = resolve)) : undefined);
  let both;
  await act(async () => void (both = Promise.all([seen.next(), seen.next()])));
  assert.deepEqual([seen.value, seen.isPending], ["Buy now", true]);
  await act(() => (answer(undefined), both));
  assert.deepEqual([seen.value, agent.asked.length, await client.spent()], ["Buy", 2, 2]);
  assert.equal(await seen.observe(1), true);
});

test("a next() that fails leaves what is shown as it is, with the error, and its reward is still taken", async (t) => {
  const { client, agent } = device(t);
  const seen = {};
  await mounted(t, h(component(client, seen)));
  agent.before = () => [503, { code: "retry", message: "later" }];
  await act(() => seen.next());
  assert.deepEqual([seen.value, seen.isPending, seen.error?.code], ["Buy now", false, "retry"]);
  assert.equal(await seen.observe(1), true);
  agent.before = () => undefined;
  await act(() => seen.next());
  assert.deepEqual([seen.value, seen.error, agent.asked.length], ["Buy now", undefined, 2]);
});

test("an arm that the page has no value for is not shown, and takes no reward; no words of the agent's are a key by chance", async (t) => {
  for (const name of ["blue", "constructor", "__proto__", "toString"]) {
    const { client, agent, clock } = device(t, { limits: LOUD.limits });
    Object.assign(agent.decision, { name, curator: LOUD.curator });
    const seen = {};
    await mounted(t, h(component(client, seen)));
    assert.deepEqual([seen.value, seen.error?.name], ["Buy", "ServerError"]);
    assert.ok(!seen.error.message.includes(name));
    assert.equal(await seen.observe(1), false);
    clock.time += 300;
    await client.flush();
    assert.equal(agent.counted.get("ticket-1"), 0, "the default's");
  }
});

test("refused by the owner's limits, or too late: the component goes on, and the error is there for its author", async (t) => {
  const poor = device(t, { limits: { ...LIMITS, epsilon: 0.5 } });
  const seen = {};
  await mounted(t, h(component(poor.client, seen)));
  assert.ok(seen.value === "Buy" && seen.error instanceof LimitError && !seen.isPending);

  const late = device(t);
  await mounted(t, h(component(late.client, seen)));
  await late.client.leave();
  let kept;
  await act(async () => (kept = await seen.observe(1)));
  assert.ok(kept === false && seen.error instanceof TicketError && seen.value === "Buy now");
});

test("wrong arguments are errors, and no reward is shown", async (t) => {
  const { client } = device(t);
  const seen = {};
  await mounted(t, h(component(client, seen)));
  await assert.rejects(seen.observe("0.123"), (error) => error instanceof RewardError && !error.message.includes("0.123"));
  await assert.rejects(seen.observe(1, 0.123), (error) => error instanceof ParameterError && !error.message.includes("0.123"));
  for (const [wrong, values] of [[undefined, LABELS], [{}, LABELS], [client, undefined], [client, {}], [client, "red"], [client, ["red", "green"]]]) {
    assert.throws(() => renderToString(h(component(wrong, {}, { values: values === undefined ? null : values }))), ParameterError);
  }
});

test("a server renders the value for otherwise, and takes no decision", async (t) => {
  const { client, agent } = device(t);
  assert.equal(renderToString(h(component(client, {}))), "Buy");
  assert.equal(agent.asked.length, 0);
});

test("who opts out sees the other value, in all components, and who opts in again an arm; with qa nobody is asked", async (t) => {
  const { client, agent } = device(t, { consent: "required" });
  const seen = {};
  await mounted(t, h(component(client, seen)));
  assert.deepEqual([seen.value, seen.error?.code, agent.requests.length], ["Buy", "consent_required", 0]);
  const settled = () => act(() => new Promise((resolve) => setTimeout(resolve, 20)));
  await client.optIn();
  await settled();
  assert.deepEqual([seen.value, seen.error], ["Buy now", undefined]);
  await client.forget();
  await settled();
  assert.deepEqual([seen.value, seen.error?.code, agent.asked.length, await seen.observe(1)], ["Buy", "opted_out", 1, false]);
  const forced = {};
  await mounted(t, h(() => (Object.assign(forced, useDecision(client, LABELS, "Buy", { qa: "green" })), forced.value)));
  assert.deepEqual([forced.value, forced.error, await forced.observe(1)], ["Buy now", undefined, false]);
});
