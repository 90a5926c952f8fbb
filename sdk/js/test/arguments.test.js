import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { Client, curatorFromSpec, LDPBanditsError, memoryStorage, ParameterError } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";
import { respondNotPrivate } from "ldpbandits/not-private";
import { LDPBanditsProvider } from "ldpbandits/openfeature";

import { Agent, CTB, device, LIMITS, state, until, URL_ } from "./support/agent.js";

const KEY = "client-secret";
const good = { key: KEY, limits: LIMITS, storage: memoryStorage() };
const make = (changes, url = URL_, experiment = "buttons") => () => new Client(url, experiment, changes && { ...good, ...changes });

/** Refused in one line that has these words, and neither the key nor a password. */
function told(words) {
  return (error) => {
    assert.ok(error instanceof ParameterError, inspect(error));
    for (const word of [words].flat()) assert.ok(error.message.includes(word), `${error.message} | ${word}`);
    assert.ok(!/\n|client-secret|hunter2/.test(error.message), error.message);
    return true;
  };
}

/** Values that are never an object, a text or a number as is needed. */
const SYMBOL = Symbol("s");

test("each wrong argument of Client is refused by the rule and the value, but for keys", () => {
  const cases = [
    [() => new Client(URL_, "buttons"), "Client takes an object with any of key, limits, allowance, storage, onLeave, worker, consent, allowAutomated, fetch, clock"],
    [() => new Client(URL_, "buttons", KEY), "Client takes an object with any of key"],
    [() => new Client(URL_, "buttons", [good]), "Client takes an object with any of key"],
    [make(null), "Client takes an object with any of key"],
    [make({ limit: LIMITS }), ["Client takes an object with any of key, limits, allowance", ", and no limit"]],
    ...[undefined, null, "", 5, {}, SYMBOL].map((url) => [() => new Client(url, "buttons", good), ["url must be a well-formed string", url && typeof url === "object" ? "an object" : `got ${String(url)}`]]),
    ...["agent.example", "ftp://agent.example", "javascript:alert(1)", "/agent", "https://", " https://agent.example", "https://agent.example/ ", "https://a.example?x=1", "https://a.example#x", "https://a.example?", "https://a.example#"].map((url) => [make({}, url), ["url must be an http or https address", `got "${url}"`]]),
    [make({}, "https://user:hunter2@agent.example"), ["without user", "https://...@agent.example"]],
    ...[undefined, null, "", 5, {}, "half \ud83d"].map((name) => [() => new Client(URL_, name, good), "experiment must be a well-formed string, and not empty, got"]),
    ...[undefined, null, "", 5, `${KEY}\n`, `${KEY}\u00fc`, [KEY]].map((key) => [make({ key }), "key must be a string of ASCII characters, and not empty"]),
    ...[null, 5, {}, { read() {} }, { getItem() {}, setItem() {} }].map((storage) => [make({ storage }), "storage must have read and change"]),
    ...["fetch", "clock"].map((name) => [make({ [name]: 5 }), `${name} must be a function, got 5`]),
    ...[undefined, NaN, "1", async () => 1].map((time) => [make({ clock: () => time }), "what clock gives must be a number, finite and > 0, got"]),
    ...[null, 5, "all", []].map((limits) => [make({ limits }), "limits takes an object with any of rewards, epsilon, budget, window, atOnce"]),
    [make({ limits: { ...LIMITS, epsilon: -1 } }), "limits.epsilon must be a number, finite and > 0, got -1"],
    [make({ limits: { ...LIMITS, budget: "5" } }), 'limits.budget must be a number, finite and > 0, got "5"'],
    [make({ limits: { ...LIMITS, budget: 5n } }), "limits.budget must be a number, finite and > 0, got 5n"],
    [make({ limits: { ...LIMITS, window: Infinity } }), "limits.window must be a number, finite and > 0, got Infinity"],
    [make({ limits: { ...LIMITS, atOnce: "yes" } }), 'limits.atOnce must be one of true, false, got "yes"'],
    [make({ limits: { ...LIMITS, rewards: "range" } }), 'the kind of limits.rewards must be one of range, sigmoid, threshold, real-line, got undefined'],
    [make({ limits: { ...LIMITS, rewards: { kind: "log" } } }), 'the kind of limits.rewards must be one of range, sigmoid, threshold, real-line, got "log"'],
    [make({ limits: { ...LIMITS, at_once: true } }), ["limits takes an object with any of rewards", "and no at_once"]],
  ];
  for (const [call, words] of cases) assert.throws(call, told(words), String(call));
});

test("an address is taken with a port and a path, and on a web page also one of its own site", (t) => {
  const clients = ["http://127.0.0.1:8000", "https://agent.example/a/b/"].map((url) => make({}, url)());
  globalThis.document = { baseURI: "https://shop.example/page", addEventListener() {} };
  globalThis.addEventListener = () => {};
  t.after(() => (delete globalThis.document, delete globalThis.addEventListener));
  clients.push(make({}, "/agent")());
  assert.equal(clients.length, 3);
});

test("each wrong argument of decide and close is refused by the rule and the value", async (t) => {
  const { client, agent } = device(t);
  for (const epsilon of [0, -1, NaN, Infinity, "1", null, {}]) {
    await assert.rejects(client.decide({ epsilon }), told(["epsilon must be a number, finite and > 0, got", epsilon && typeof epsilon === "object" ? "an object" : String(epsilon)]));
  }
  for (const options of [null, 1, "x", []]) {
    await assert.rejects(client.decide(options), told("decide takes an object with any of epsilon, qa"));
    await assert.rejects(client.close(options), told("close takes an object with any of keep"));
  }
  await assert.rejects(client.decide({ epsilons: 1 }), told("decide takes an object with any of epsilon, qa, and no epsilons"));
  await assert.rejects(client.close({ leave: true }), told("close takes an object with any of keep, and no leave"));
  await assert.rejects(client.close({ keep: 1 }), told("keep must be one of true, false, got 1"));
  assert.equal(agent.requests.length, 0);
  assert.equal((await client.decide()).arm, 1, "and the client goes on");
});

test("no wrong argument of observe or respond is shown, in whatever order they come: one may be the reward", async (t) => {
  const { client, storage } = device(t);
  const pull = await client.decide();
  await until(async () => (await state(storage)).pulls[0].accepted);
  const before = await storage.read();
  const curator = curatorFromSpec(CTB);
  const REWARD = 0.123456789;
  const hidden = (words) => (error) => told(words)(error) && !inspect(error, { depth: 9 }).includes("0.1234");
  for (const call of [() => client.observe(REWARD, pull.ticket), () => client.observe(REWARD), () => client.observe(null, REWARD), () => client.observe(undefined, REWARD)]) {
    await assert.rejects(call, hidden("ticket must be a string, as pull.ticket is"));
  }
  const options = [[REWARD, "observe takes an object with any of clip"], [[REWARD], "takes an object"], [null, "takes an object"], [{ clip: REWARD }, "clip must be true or false"], [{ clamp: REWARD }, "with any of clip, and no clamp"]];
  for (const [given, words] of options) {
    await assert.rejects(pull.observe(REWARD, given), hidden(words));
    assert.throws(() => curator.respond(REWARD, given), hidden(words.replace("observe", "respond")));
    assert.throws(() => respondNotPrivate(curator, REWARD, (n) => new BigUint64Array(n), given), hidden(words.replace("observe", "respondNotPrivate")));
  }
  assert.throws(() => respondNotPrivate(REWARD, curator, () => []), hidden("curator must be one that curatorFromSpec has made"));
  assert.throws(() => respondNotPrivate({ spec: { transform: { kind: "range" } } }, REWARD, () => []), hidden("mechanism must be"));
  assert.throws(() => respondNotPrivate(curator, REWARD, REWARD), hidden("draw must be a function"));
  for (const words of [undefined, [], [1], ["1"]]) assert.throws(() => respondNotPrivate(curator, REWARD, () => words), hidden("draw must give as many BigInts"));
  assert.equal(await storage.read(), before, "the pull is as it was");
  for (const reward of [undefined, null, "1", NaN, {}, [REWARD], true, 1n]) {
    await assert.rejects(pull.observe(reward), (error) => error.name === "RewardError" && error.message === "a reward must be a number, and not NaN");
  }
  assert.equal(await pull.observe(REWARD), true);
});

test("each wrong argument of fileStorage and curatorFromSpec is refused by the rule and the value", () => {
  for (const path of [undefined, null, "", 5, {}]) assert.throws(() => fileStorage(path), told("the path of a ledger must be a well-formed string, and not empty, got"));
  for (const [spec, words] of [
    [undefined, "a curator spec takes an object with any of mechanism, epsilon, transform"], [[], "a curator spec takes an object"],
    [{ ...CTB, mechanism: "gauss" }, 'mechanism must be one of bernoulli, laplace, got "gauss"'],
    [{ ...CTB, epsilon: "1" }, 'epsilon must be a number from 0.000001 to 50, got "1"'],
    [{ ...CTB, eps: 1 }, ", and no eps"], [{ ...CTB, transform: { kind: "log" } }, 'got "log"'],
    [{ ...CTB, mechanism: () => "secret" }, "mechanism must be one of bernoulli, laplace, got a function"],
  ]) assert.throws(() => curatorFromSpec(spec), told(words));
});

/** What a caller may hand in by mistake, wherever something else is wanted. */
const MISTAKES = [
  undefined, null, NaN, 0, -0, -1, 1, 5e-324, Number.MAX_VALUE, Infinity, -Infinity, 2 ** 53, 1n, -(10n ** 400n), true, false, SYMBOL,
  "", "1", "\ud800", "a\nb", "x".repeat(5000), {}, [], [1], ["a"], Object.create(null), new Map(), new Date(NaN), /x/, new String("x"),
  new Proxy({}, {}), new Proxy(() => 1, {}), () => 1, async () => 1, Object.assign(() => 1, { toString: null }), { toString: null }, JSON.parse('{"__proto__":{"x":1}}'),
];

test("whatever is handed in for whatever is wanted, it is taken, or refused in one line of ours, at once", async (t) => {
  const REWARD = 0.123456789;
  const curator = curatorFromSpec(CTB);
  const { client, agent } = device(t, { limits: { ...LIMITS, budget: 1e6 } });
  const used = async (url, experiment, changes, limits) => {
    const options = { ...good, fetch: new Agent().fetch, limits: { ...LIMITS, ...limits }, storage: memoryStorage(), ...changes };
    const made = new Client(url, experiment, options);
    await made.remaining();
    await (await made.decide()).observe(REWARD);
    await made.close();
  };
  const calls = {
    url: (value) => used(value, "buttons"),
    experiment: (value) => used(URL_, value),
    options: (value) => void new Client(URL_, "buttons", value),
    clock: (value) => used(URL_, "buttons", { clock: () => value }),
    ...Object.fromEntries(["key", "limits", "storage"].map((name) => [name, (value) => used(URL_, "buttons", { [name]: value })])),
    ...Object.fromEntries(["rewards", "epsilon", "budget", "window", "atOnce"].map((name) => [`limits.${name}`, (value) => used(URL_, "buttons", {}, { [name]: value })])),
    decide: (value) => client.decide(value),
    epsilon: (value) => client.decide({ epsilon: value }),
    ticket: (value) => client.observe(value, REWARD),
    reward: async (value) => (await client.decide()).observe(value),
    observe: async (value) => (await client.decide()).observe(REWARD, value),
    clip: async (value) => (await client.decide()).observe(REWARD, { clip: value }),
    close: (value) => device(t).client.close(value),
    keep: (value) => device(t).client.close({ keep: value }),
    spec: curatorFromSpec,
    ...Object.fromEntries(["mechanism", "epsilon", "transform"].map((name) => [`spec.${name}`, (value) => curatorFromSpec({ ...CTB, [name]: value })])),
    ...Object.fromEntries(["kind", "low", "high", "theta"].map((name) => [`transform.${name}`, (value) => curatorFromSpec({ ...CTB, transform: { kind: name === "theta" ? "threshold" : "range", [name]: value } })])),
    respond: (value) => curator.respond(value),
    "options of respond": (value) => curator.respond(REWARD, value),
    "curator of respondNotPrivate": (value) => respondNotPrivate(value, REWARD, (count) => new BigUint64Array(count)),
    "spec of respondNotPrivate": (value) => respondNotPrivate({ spec: { transform: value } }, REWARD, (count) => new BigUint64Array(count)),
    "words of respondNotPrivate": (value) => respondNotPrivate(curator, REWARD, () => value),
    path: fileStorage,
    flags: (value) => void new LDPBanditsProvider(value),
    flag: (value) => void new LDPBanditsProvider({ button: value }),
    ...Object.fromEntries(["client", "values", "event"].map((name) => [`flag.${name}`, (value) => void new LDPBanditsProvider({ button: { client, values: { green: 1 }, [name]: value } })])),
    warn: (value) => void new LDPBanditsProvider({ button: { client, values: { green: 1 } } }, { warn: value }),
  };
  for (const [name, call] of Object.entries(calls)) {
    for (const value of MISTAKES) {
      try {
        await call(value);
      } catch (error) {
        const what = `${name}: ${inspect(value)}: ${inspect(error)}`;
        assert.ok(error instanceof LDPBanditsError && error.cause === undefined, what);
        assert.ok(!/\n|\p{Cs}|0\.1234/u.test(error.message) && error.message.length < 400, what);
      }
    }
  }
  assert.ok(agent.requests.length > 0);
});
