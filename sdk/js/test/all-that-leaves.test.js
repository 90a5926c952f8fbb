// Somebody sees every request of a device: when, in which order, with which options, headers and body, but for the
// response itself. In each visit a fair coin picks a reward or none (or 0 or 1). The observer learns from the first half
// of the visits what goes with which side, and guesses the coins of the second. If nothing depends on the reward, each
// guess is right with probability 1/2, whatever the rule. The Python device has the same test: test_nothing_but_the_response.py.
import assert from "node:assert/strict";
import { test } from "node:test";

import { Agent, CTB, device, handClock, LIMITS, until } from "./support/agent.js";
import { site } from "./support/tabs.js";

const window = new EventTarget();
Object.assign(globalThis, { document: new EventTarget(), addEventListener: window.addEventListener.bind(window) });
const leave = () => window.dispatchEvent(new Event("pagehide"));

/** Half to learn from, half to guess. */
const VISITS = 48;
/** An alarm is at least this many right guesses of 24: by chance with probability 25 / 2^24 = 1.5e-6 for each feature. */
const ALARM = 23;
const REWARDS = [[null, 1], [0, 1], [0.4, 7]];

/** What is looked at in the requests of a visit. */
const FEATURES = {
  number: (sent) => sent.length,
  times: (sent) => JSON.stringify(sent.map(({ time }) => time)),
  order: (sent) => JSON.stringify(sent.map(({ path }) => path)),
  tickets: (sent) => JSON.stringify(sent.map(({ body }) => body?.match(/ticket-\d+/)?.[0])),
  everything: (sent) => JSON.stringify(sent),
};

/** Coins by the generator of Park and Miller. */
function coins() {
  let seed = 11;
  return Array.from({ length: VISITS }, () => (seed = (seed * 48271) % 2147483647) > 1073741823);
}

/** The features by which nearly all coins of the second half are guessed. */
function alarms(visits, sides) {
  return Object.entries(FEATURES).filter(([, feature]) => {
    const values = visits.map(feature);
    const heads = new Map();
    values.slice(0, VISITS / 2).forEach((value, i) => heads.set(value, (heads.get(value) ?? 0) + (sides[i] ? 1 : -1)));
    return values.slice(VISITS / 2).filter((value, i) => (heads.get(value) ?? 0) > 0 === sides[VISITS / 2 + i]).length >= ALARM;
  }).map(([name]) => name);
}

/** One visitor: an agent that notes all it is sent, pages of one site, and a clock. */
function visitor(t, { changes = {}, before, ...options } = {}) {
  const [agent, clock, of, sent] = [new Agent(), handClock(), site(), []];
  Object.assign(agent.decision, { curator: { ...CTB, epsilon: 0.5 }, ...changes });
  agent.before = (path) => {
    const { signal, body, ...others } = agent.requests.at(-1);
    sent.push({ time: clock.time, ...others, body: body?.replace(/"response":[01]/, '"response":x') });
    return before?.(path, agent);
  };
  const page = (more = {}) => device(t, { agent, clock, storage: of.tab().storage, limits: LIMITS, ...options, ...more }).client;
  const accepted = () => until(async () => JSON.parse(await of.ledger.read()).pulls.every((pull) => pull.accepted !== false));
  return { agent, clock, page, sent, accepted };
}

/** Decide and observe, as a page does. */
async function play({ page, accepted }, reward) {
  const client = page();
  const pull = await client.decide();
  await accepted().catch(() => {}); // an agent may refuse it
  if (reward !== null) await pull.observe(reward);
  return client;
}

/** Send what is due now, and after the moment. */
async function goOn({ page, clock }) {
  for (const seconds of [1, 300, 600]) {
    clock.time += seconds;
    await page().flush();
  }
}

const BUSY = [503, { code: "retry", message: "" }];
/** The first answers to requests of a path are these. */
const first = (path, ...replies) => (asked) => (asked.endsWith(path) ? replies.shift() : undefined);

/** How a visitor's agent behaves, and what the visitor does. @type {Record<string, [() => object, (visit: any, reward: number | null) => Promise<unknown>]>} */
const LIVES = {
  "a page that stays": [() => ({}), async (visit, reward) => (await play(visit, reward), goOn(visit))],
  "an agent that is busy with acceptances": [() => ({ before: first("/acceptances", BUSY, BUSY) }), async (visit, reward) => {
    const client = visit.page();
    const pull = await client.decide();
    await until(() => visit.sent.some(({ path }) => path.endsWith("/acceptances")));
    if (reward !== null) await pull.observe(reward);
    await goOn(visit);
  }],
  "an agent that is busy with responses": [() => ({ before: first("/responses", BUSY, BUSY) }), async (visit, reward) => (await play(visit, reward), goOn(visit))],
  "an agent that refuses a response": [() => ({ before: first("/responses", [410, { code: "expired", message: "" }]) }), async (visit, reward) => (await play(visit, reward), goOn(visit))],
  "an offer that another decision follows, and is read again": [() => ({ before: (_path, agent) => void (agent.offer = agent.requests.at(-1).cache === "reload" ? {} : { default: 1 }) }), async (visit, reward) => {
    await play(visit, reward);
    await visit.page().decide();
    await goOn(visit);
  }],
  "an experiment that is paused after the reward": [() => ({}), async (visit, reward) => {
    const client = await play(visit, reward);
    visit.agent.offer = { status: "paused" };
    await assert.rejects(client.decide());
    await goOn(visit);
  }],
  "a sticky arm, asked for again before the moment and after": [() => ({ changes: { sticky: 1000 } }), async (visit, reward) => {
    const client = await play(visit, reward);
    await client.decide();
    await goOn(visit);
    await visit.page().decide();
  }],
  "a page that sends as it is left": [() => ({ onLeave: "send" }), async (visit, reward) => {
    await play(visit, reward);
    leave();
    await until(() => visit.sent.some(({ path }) => path === "/v1/responses"));
    await goOn(visit);
  }],
  "next-visit, a page that is left": [() => ({ onLeave: "next-visit" }), async (visit, reward) => (await play(visit, reward), leave(), goOn(visit))],
  "next-visit, a reward on a later page": [() => ({ onLeave: "next-visit" }), async (visit, reward) => {
    await play(visit, null);
    leave();
    if (reward !== null) await visit.page().observeLatest(reward);
    await goOn(visit);
  }],
  "optOut after the reward, and optIn": [() => ({ onLeave: "next-visit" }), async (visit, reward) => {
    const client = await play(visit, reward);
    await client.optOut();
    await goOn(visit);
    await client.optIn();
    await client.decide();
    await visit.accepted();
  }],
  "forget after the reward, as the page is left, and optIn": [() => ({ onLeave: "send" }), async (visit, reward) => {
    const client = await play(visit, reward);
    await client.forget();
    leave();
    await goOn(visit);
    await client.optIn();
    await client.decide();
    await visit.accepted();
  }],
  "a flush right after the reward": [() => ({}), async (visit, reward) => (await (await play(visit, reward)).flush(), goOn(visit))],
};

for (const [name, [setting, live]] of Object.entries(LIVES)) {
  test(`${name}: all that leaves is the same whatever the reward, but for the response`, async (t) => {
    // False alarm: 3 pairs * 5 features * 25 / 2^24 = 2.3e-5; the coins are fixed.
    const sides = coins();
    for (const pair of REWARDS) {
      const visits = [];
      for (const side of sides) {
        const visit = visitor(t, setting());
        await live(visit, pair[Number(side)]);
        assert.ok(visit.sent.some(({ path }) => path.endsWith("/acceptances")), "all is seen");
        visits.push(visit.sent);
      }
      assert.deepEqual(alarms(visits, sides), [], String(pair));
    }
  });
}

test("a device that is allowed to send a response with its reward is found, and so is one that says more", async (t) => {
  const sides = coins();
  const visits = { atOnce: [], loud: [] };
  for (const side of sides) {
    const early = visitor(t, { changes: { report_after: 0 }, limits: { ...LIMITS, atOnce: true } });
    await play(early, side ? 1 : null);
    await goOn(early);
    visits.atOnce.push(early.sent);
    const other = visitor(t);
    await play(other, side ? 1 : 0);
    await goOn(other);
    visits.loud.push(other.sent.map((request) => ({ ...request, more: side })));
  }
  assert.ok(["times", "everything"].every((name) => alarms(visits.atOnce, sides).includes(name)));
  assert.deepEqual(alarms(visits.loud, sides), ["everything"]);
});
