import assert from "node:assert/strict";
import { test } from "node:test";

import { OpenFeature, ProviderEvents, StandardResolutionReasons } from "@openfeature/web-sdk";

import { ParameterError } from "ldpbandits";
import { LDPBanditsProvider } from "ldpbandits/openfeature";

import { Agent, device, LIMITS, LOUD } from "./support/agent.js";

const LABELS = { red: "Buy", green: "Buy now" };

/** A client of OpenFeature with this provider, in a domain of its own. */
async function flagsOf(t, provider) {
  await OpenFeature.setProviderAndWait(t.name, provider);
  t.after(() => OpenFeature.clearProviders());
  return OpenFeature.getClient(t.name);
}

test("a flag has the page's own value for the arm, of any type, and its variant is the arm", async (t) => {
  const values = { text: "Buy now", number: 7, boolean: true, object: { colour: "green" } };
  const flags = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, { client: device(t).client, values: { green: value } }]));
  const client = await flagsOf(t, new LDPBanditsProvider(flags));
  assert.equal(client.getStringValue("text", "Buy"), "Buy now");
  assert.equal(client.getNumberValue("number", 1), 7);
  assert.equal(client.getBooleanValue("boolean", false), true);
  assert.deepEqual(client.getObjectValue("object", {}), { colour: "green" });
  const { reason, variant, errorCode } = client.getStringDetails("text", "Buy");
  assert.deepEqual([reason, variant, errorCode], [StandardResolutionReasons.SPLIT, "green", undefined]);
});

test("one decision is taken for a flag, when the provider starts, however often it is evaluated or set", async (t) => {
  const { client, agent } = device(t);
  const provider = new LDPBanditsProvider({ button: { client, values: LABELS } });
  const flags = await flagsOf(t, provider);
  for (let i = 0; i < 5; i++) assert.equal(flags.getStringValue("button", "Buy"), "Buy now");
  await Promise.all([provider.initialize(), provider.initialize()]);
  assert.equal(agent.asked.length, 1);
  assert.equal(await client.spent(), 1);
});

test("the value of a tracked event is the reward, and nothing of it leaves but the response", async (t) => {
  const { client, agent, clock } = device(t, { limits: LOUD.limits });
  const other = device(t, { agent, clock, experiment: "headline", limits: LOUD.limits });
  agent.decision.curator = LOUD.curator;
  const provider = new LDPBanditsProvider({ button: { client, values: LABELS }, headline: { client: other.client, values: LABELS, event: "read" } });
  const flags = await flagsOf(t, provider);
  flags.track("button", { value: 1 });
  flags.track("read", { value: 0 });
  flags.track("other", { value: 1 });
  await provider.onClose();
  assert.deepEqual([...agent.counted.values()].sort(), [0, 1]);
  assert.ok(agent.sent.every((body) => Object.keys(JSON.parse(body)).join() === "ticket,response,epsilon"));
});

test("what the page tells OpenFeature of its visitor is sent nowhere", async (t) => {
  const { client, agent } = device(t);
  await OpenFeature.setContext(t.name, { targetingKey: "visitor-4711", age: 42 });
  const provider = new LDPBanditsProvider({ button: { client, values: LABELS } });
  const flags = await flagsOf(t, provider);
  flags.getStringValue("button", "Buy");
  flags.track("button", { value: 1, product: "visitor-4711" });
  await provider.onClose();
  assert.equal(agent.requests.length, 4, "an offer, a question, an acceptance, a response");
  assert.ok(!JSON.stringify(agent.requests).includes("4711"));
});

test("refused, unreachable, an arm without a value, a flag of another type or of no name: the default, and a reason", async (t) => {
  const strange = new Agent();
  strange.decision.name = "constructor";
  const down = new Agent();
  down.before = () => { throw new Error("down"); };
  const cases = {
    poor: [device(t, { limits: { ...LIMITS, epsilon: 0.5 } }).client, "GENERAL", /allows 0.5 a response/],
    down: [device(t, { agent: down }).client, "GENERAL", /cannot be reached/],
    strange: [device(t, { agent: strange }).client, "GENERAL", /no value/],
  };
  const flags = Object.fromEntries(Object.entries(cases).map(([key, [client]]) => [key, { client, values: LABELS }]));
  const typed = { client: device(t).client, values: { green: 7 } };
  const client = await flagsOf(t, new LDPBanditsProvider({ ...flags, typed }));
  const expected = { ...cases, typed: [, "TYPE_MISMATCH", /no string/], missing: [, "FLAG_NOT_FOUND", /no such flag/] };
  for (const [key, [, code, words]] of Object.entries(expected)) {
    const { value, errorCode, errorMessage, reason } = client.getStringDetails(key, "Buy");
    assert.deepEqual([value, errorCode, reason], ["Buy", code, "ERROR"], key);
    assert.match(errorMessage, words);
    client.track(key, { value: 1 }); // there is no arm to observe
  }
  const fresh = new LDPBanditsProvider({ button: { client: device(t).client, values: LABELS } });
  assert.equal(fresh.resolveStringEvaluation("button", "Buy").errorCode, "PROVIDER_NOT_READY");
});

test("a reward that cannot be taken is told, and not shown", async (t) => {
  const { client } = device(t);
  const told = [];
  const flags = await flagsOf(t, new LDPBanditsProvider({ button: { client, values: LABELS } }, { warn: (error) => told.push(error) }));
  flags.track("button");
  flags.track("button", { value: "0.123" });
  flags.track("button", { value: 1 });
  flags.track("button", { value: 0.123 });
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(told.map(({ name }) => name), ["RewardError", "RewardError", "TicketError"]);
  assert.ok(!told.some(({ message }) => message.includes("0.123")));
});

test("wrong arguments are refused by the rule; a server's SDK is refused", (t) => {
  const { client } = device(t);
  const button = { client, values: LABELS };
  const cases = [
    [[undefined], /needs flags/], [[{}], /needs flags/], [[{ button: client }], /the flag button/], [[{ button: { values: LABELS } }], /the flag button needs a Client/],
    [[{ button: { client } }], /a value for each arm/], [[{ button: { ...button, arms: 1 } }], /the flag button takes .*, and no arms/],
    [["button"], /needs flags/], [[[button]], /needs flags/], [[{ button: { client, values: ["Buy"] } }], /a value for each arm/],
    ...[null, "", 5, ["buy"]].map((event) => [[{ button: { ...button, event } }], /the event of the flag button must be a well-formed string/]),
    [[{ button }, 5], /LDPBanditsProvider takes an object with any of warn/], [[{ button }, { warn: 5 }], /warn must be a function/],
  ];
  for (const [given, words] of cases) assert.throws(() => new LDPBanditsProvider(...given), (error) => error instanceof ParameterError && words.test(error.message));
  assert.equal(new LDPBanditsProvider({ button }).runsOn, "client");
});

test("who opts out gets the default, who opts in again the arm, and with qa an arm for which nobody is asked", async (t) => {
  const { client, agent } = device(t, { consent: "required" });
  const flags = await flagsOf(t, new LDPBanditsProvider({ button: { client, values: LABELS }, tested: { client, values: LABELS, qa: "red" } }));
  const settled = () => new Promise((resolve) => setTimeout(resolve, 20));
  assert.deepEqual([flags.getStringValue("button", "none"), flags.getStringValue("tested", "none"), agent.requests.length], ["none", "Buy", 0]);
  await client.optIn();
  await settled();
  assert.equal(flags.getStringValue("button", "none"), "Buy now");
  const changed = [];
  flags.addHandler(ProviderEvents.ConfigurationChanged, ({ flagsChanged }) => changed.push(...flagsChanged, flags.getStringValue("button", "none")));
  await client.optOut();
  await settled();
  assert.equal(flags.getStringValue("button", "none"), "none");
  assert.deepEqual(changed.sort(), ["button", "none", "none", "tested"], "a page that shows the flag hears of it");
});
