// An agent sees only when responses arrive, and guesses the rewards. It learns from the first half of the pulls of a
// flow what goes with which reward, and guesses those of the second half. If no time depends on the reward, each guess is
// right with probability 1/2, whatever the rule. The Python device has the same test: test_nothing_but_the_response.py.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { memoryStorage } from "ldpbandits";

import { Agent, CTB, device, handClock, LIMITS } from "./support/agent.js";
import { site } from "./support/tabs.js";

const LIFE = fileURLToPath(new URL("support/life.js", import.meta.url));

// Pages without a browser: the document must be there before a client is. Processes of their own have none.
const window = new EventTarget();
Object.assign(globalThis, { document: new EventTarget(), addEventListener: window.addEventListener.bind(window) });
const leave = () => window.dispatchEvent(new Event("pagehide"));

/** Half to learn from, half to guess. */
const PULLS = 48;
/** An alarm is at least this many right guesses of 24: by chance with probability 25 / 2^24 = 1.5e-6 for each feature. */
const ALARM = 23;
const EPSILON = 0.01;

/** Fair coins, the same in each run: no reward, or a reward of 1. */
const REWARDS = coins(PULLS).map((coin) => (coin ? 1 : null));

/** What the agent looks at, for each ticket: in which life of the device its response came first, and how early. */
const FEATURES = {
  time: ({ life }) => life,
  order: ({ place }) => place < PULLS / 2,
};

/** Coins by the generator of Park and Miller. */
function coins(count) {
  let seed = 7;
  return Array.from({ length: count }, () => (seed = (seed * 48271) % 2147483647) > 1073741823);
}

/** The features by which the rewards of the second half are guessed, and how many of them. */
function alarms(seen) {
  const found = {};
  for (const [name, feature] of Object.entries(FEATURES)) {
    const rewarded = new Map();
    const values = seen.map(feature);
    values.slice(0, PULLS / 2).forEach((value, i) => rewarded.set(value, (rewarded.get(value) ?? 0) + (REWARDS[i] ? 1 : -1)));
    const right = values.slice(PULLS / 2).filter((value, i) => (rewarded.get(value) ?? 0) > 0 === (REWARDS[PULLS / 2 + i] === 1)).length;
    if (right >= ALARM) found[name] = right;
  }
  return found;
}

/** An agent that notes in which life of the device each response came. */
class Watcher extends Agent {
  life = 1;
  #first = new Map();

  constructor(decision = {}) {
    super();
    Object.assign(this.decision, { curator: { ...CTB, epsilon: EPSILON }, ...decision });
    this.before = (path) => {
      if (path !== "/v1/responses") return undefined;
      const { ticket } = JSON.parse(this.sent.at(-1));
      if (!this.#first.has(ticket)) this.#first.set(ticket, { life: this.life, place: this.#first.size });
      return undefined;
    };
  }

  /** What was seen of each ticket, in the order of the decisions. */
  get seen() {
    return REWARDS.map((_, i) => this.#first.get(`ticket-${i + 1}`) ?? { life: "none", place: PULLS });
  }
}

/** Run one life of a device as a process of its own; resolves to its exit code or the signal that ended it. */
async function live(given) {
  const child = spawn(process.execPath, [LIFE, JSON.stringify({ rewards: REWARDS, ...given })], { stdio: ["ignore", "inherit", "inherit"] });
  return new Promise((resolve) => child.on("close", (code, signal) => resolve(signal ?? code)));
}

/** What a first process does, and how it ends; what a second one does; whether arms are sticky. */
const FLOWS = {
  "exit, restart, pulls(), an end": [["play", "exit"], 0, ["pulls"]],
  "exit, restart, pulls(), leave()": [["play", "exit"], 0, ["pulls", "leave", "exit"]],
  "close({ keep: true }), restart, pulls(), close()": [["play", "keep"], 0, ["pulls", "close"]],
  "kill -9, restart, pulls(), an end": [["play", "kill"], "SIGKILL", ["pulls"]],
  "SIGTERM, restart, a sticky decide(), an end": [["play", "terminate"], "SIGTERM", ["decide"], true],
  "close({ keep: true }), restart, a sticky decide(), leave()": [["play", "keep"], 0, ["decide", "leave", "exit"], true],
  "a child process that calls pulls() and close()": [["play", "a child", "exit"], 0, []],
  "a thread that calls pulls() and close()": [["play", "a thread", "exit"], 0, []],
  "two storages on one folder in one process": [["play", "another client", "pulls", "close", "exit"], 0, []],
};

for (const [name, [steps, end, next, sticky]] of Object.entries(FLOWS)) {
  test(`${name}: what a process did not decide it sends at its moment, and no time tells the reward`, async (t) => {
    // False alarm: 2 features * 25 / 2^24 = 3e-6; the coins are fixed.
    const agent = new Watcher({ sticky: sticky ? 1800 : 0 });
    const { url, stop } = await agent.serve();
    t.after(stop);
    const home = mkdtempSync(join(tmpdir(), "ldpbandits-"));
    t.after(() => rmSync(home, { recursive: true, force: true }));
    const device = { url, ledger: join(home, "ledger"), sticky };
    assert.equal(await live({ ...device, steps }), end);
    agent.life = 2;
    assert.equal(await live({ ...device, steps: next }), 0);
    agent.life = 3;
    assert.equal(await live({ ...device, steps: ["flush"], ahead: 301 }), 0);
    assert.deepEqual(alarms(agent.seen), {});
    assert.deepEqual(new Set(agent.seen.map(({ life }) => life)), new Set([3]), "at its moment");
  });
}

test("what a process decided it sends when it ends, reward or not, and no time tells the reward", async (t) => {
  // False alarm: 2 features * 25 / 2^24 = 3e-6; the coins are fixed.
  for (const steps of [["play"], ["play", "pulls", "leave", "exit"], ["play", "close"]]) {
    const agent = new Watcher();
    const { url, stop } = await agent.serve();
    t.after(stop);
    const home = mkdtempSync(join(tmpdir(), "ldpbandits-"));
    t.after(() => rmSync(home, { recursive: true, force: true }));
    assert.equal(await live({ url, ledger: join(home, "ledger"), steps }), 0);
    assert.deepEqual(alarms(agent.seen), {});
    assert.deepEqual(new Set(agent.seen.map(({ life }) => life)), new Set([1]), "at its end");
  }
});

/** What ends the first tab's part, after its pulls; and what a second tab of the site does. */
const PAGES = {
  "a tab that crashed, and the next visit": [() => undefined, async (second) => (await second.pulls(), second.close())],
  "a tab that crashed, and a sticky decide() of the next visit": [() => undefined, async (second) => (await second.decide(), second.close()), 1800],
  "a tab that is left, and the next visit": [leave, async (second) => (await second.pulls(), second.close())],
  "with next-visit, a tab that is left, and the next visit": [leave, async (second) => (await second.pulls(), second.close()), 0, "next-visit"],
  "close({ keep: true }), and the next visit": [(first) => first.close({ keep: true }), async (second) => (await second.pulls(), second.close())],
};

for (const [name, [end, visit, sticky = 0, onLeave]] of Object.entries(PAGES)) {
  test(`${name}: of a web page no time tells the reward`, async (t) => {
    // False alarm: 2 features * 25 / 2^24 = 3e-6; the coins are fixed.
    const [agent, clock, of] = [new Watcher({ sticky }), handClock(), site()];
    const limits = { ...LIMITS, budget: 1000 };
    const clients = () => {
      const { storage } = of.tab();
      return REWARDS.map((_, i) => device(t, { storage, agent, clock, limits, onLeave, experiment: sticky ? `e${i}` : "e" }).client);
    };
    const first = clients();
    for (const [i, reward] of REWARDS.entries()) {
      const pull = await first[i].decide();
      if (reward !== null) await pull.observe(reward);
    }
    for (const client of first) await end(client);
    agent.life = 2;
    const second = clients();
    for (const client of second) await visit(client);
    agent.life = 3;
    clock.time += 320;
    for (const client of clients()) await client.flush();
    assert.deepEqual(alarms(agent.seen), {});
    assert.ok(agent.seen.every(({ life }) => life !== "none"));
  });
}

test("a reward on a later page, where a page that is left sends nothing: no time tells the reward", async (t) => {
  // False alarm: 2 features * 25 / 2^24 = 3e-6; the coins are fixed.
  const [agent, clock, of] = [new Watcher(), handClock(), site()];
  const page = () => device(t, { storage: of.tab().storage, agent, clock, limits: { ...LIMITS, budget: 1000 }, onLeave: "next-visit" }).client;
  for (const reward of REWARDS) {
    const first = page();
    await first.decide();
    leave();
    await first.close();
    const thanks = page();
    if (reward !== null) assert.equal(await thanks.observeLatest(reward), true);
    leave();
    await thanks.close();
    clock.time++; // an agent may see which was decided first
  }
  agent.life = 2;
  clock.time += 300;
  await page().flush();
  assert.deepEqual(alarms(agent.seen), {});
  assert.deepEqual(new Set(agent.seen.map(({ life }) => life)), new Set([2]), "at its moment");
});

/** Storages of two that share one ledger: in Node, and two tabs of a page. */
const SHARED = {
  "in Node": () => {
    const shared = memoryStorage();
    return [{ ...shared }, { ...shared }];
  },
  "on a web page": () => {
    const of = site();
    return [of.tab().storage, of.tab().storage];
  },
};

for (const [where, storages] of Object.entries(SHARED)) {
  test(`to observe a reward ${where}, or to look for its pull, sends nothing of what another left behind`, async (t) => {
    // Somebody who shares the ledger has died with a response that is due since. Whoever sends it must not do so when a
    // reward comes. False alarm: 2 features * 25 / 2^24 = 3e-6; the coins are fixed.
    const seen = [];
    for (const reward of REWARDS) {
      const [agent, clock, [mine, theirs]] = [new Watcher(), handClock(), storages()];
      const first = device(t, { agent, clock, storage: mine }).client;
      const { ticket } = await first.decide();
      agent.decision.report_after = 5;
      const dead = device(t, { agent, clock, storage: theirs }).client;
      await dead.decide();
      await dead.close({ keep: true });
      clock.time += 20;
      if (reward !== null) await (await first.pulls()).find((pull) => pull.ticket === ticket).observe(reward);
      await sleep(10); // a timer of 0 s, and what it starts
      agent.life = 2;
      clock.time += 300;
      await first.flush();
      seen.push(agent.seen[1]);
    }
    assert.deepEqual(alarms(seen), {});
    assert.deepEqual(new Set(seen.map(({ life }) => life)), new Set([2]));
  });
}

test("a device that sends early only what has no reward is found, and so is one that sends it first", () => {
  const early = REWARDS.map((reward, i) => ({ life: reward === null ? 2 : 3, place: i }));
  const first = REWARDS.map((reward, i) => ({ life: 3, place: reward === null ? 0 : PULLS }));
  assert.deepEqual([alarms(early), alarms(first)], [{ time: PULLS / 2 }, { order: PULLS / 2 }]);
});
