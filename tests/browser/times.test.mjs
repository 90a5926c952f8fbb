// An agent, or a proxy in front of it, sees when the requests of each visitor arrive, and guesses the reward from these
// times alone. It learns from the first half of the visits, and guesses those of the second. If no time depends on the
// reward, each guess is right with probability 1/2, whatever the rule. docs/privacy.md quotes what this prints.
//
// Playwright's connection keeps a service worker alive for longer than a browser without it would. That changes nothing
// here: a Chromium without any such connection let the worker live for 300 s after its page (benchmarks/worker_life.mjs).
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, CTB, LIMITS } from "../../sdk/js/test/support/agent.js";
import { newContext, startBrowser, startSite } from "./support/browser.mjs";

/** Until when a reward may come, in seconds: short, for the sake of who waits for this test. */
const WINDOW = 5;
/** Visits of each kind with each mode: half to learn from, half to guess. */
const VISITS = 16;
const AT_A_TIME = 6;
/** Of four times 8 guesses so many are right by chance with probability 9.7e-6. */
const ALARM = 28;

/** What a visitor does after an arm was shown, by whether there is a reward; `at` waits until so many seconds after it. */
const KINDS = {
  "a reward for those who stay": async ({ page, at }, reward) => {
    await at(reward ? 3.5 : 0.3);
    if (reward) await page.evaluate(() => window.pull.observe(1).catch(() => {}));
    await page.close();
  },
  "a click on a link that leads away": async ({ page, at }, reward) => {
    if (reward) await page.evaluate(() => (document.querySelector("#away").onclick = () => void window.pull.observe(1).catch(() => {})));
    await at(reward ? 0.3 : 3.5);
    if (reward) await page.click("#away");
    await page.waitForLoadState();
    await page.close();
  },
  "a reward on a later page of the site": async ({ page, at }, reward) => {
    await at(reward ? 0.3 : 3.5);
    if (reward) {
      await page.click("#thanks");
      await page.waitForFunction(() => window.thanked);
    }
    await page.close();
  },
  "a visit that is longer than the window": async ({ page, at }, reward) => {
    await at(0.3);
    if (reward) await page.evaluate(() => window.pull.observe(1).catch(() => {}));
    await at(reward ? WINDOW + 2 : 0.6);
    await page.close();
  },
};

const MODES = {
  "with a service worker": "worker: sdk.registerWorker('/worker.js')",
  'onLeave: "next-visit"': "onLeave: 'next-visit'",
  'onLeave: "send"': "onLeave: 'send'",
};

/** Coins by the generator of Park and Miller. */
function coins(count, seed) {
  return Array.from({ length: count }, () => (seed = (seed * 48271) % 2147483647) > 1073741823);
}

/** Limits halfway between the times that were seen: a later visit may be a little slower than all of these. */
function between(times) {
  const sorted = [...new Set(times)].sort((a, b) => a - b);
  return sorted.map((time, i) => (sorted[i + 1] < Infinity ? (time + sorted[i + 1]) / 2 : time + 1));
}

/** How many of the second half are guessed by the best threshold on one of the times, as learned on the first half. */
function guessed(seen) {
  const [known, others] = [seen.slice(0, seen.length / 2), seen.slice(seen.length / 2)];
  const rules = seen[0].times.flatMap((_, i) =>
    between(known.map(({ times }) => times[i])).flatMap((limit) => [true, false].map((above) => (visit) => (visit.times[i] > limit) === above)));
  const right = (visits, rule) => visits.filter((visit) => rule(visit) === visit.reward).length;
  const [best] = rules.sort((a, b) => right(known, b) - right(known, a));
  return right(others, best);
}

test("who sees only times guesses rewards by chance with a service worker, and better with every other mode", async (t) => {
  const agent = new Agent();
  Object.assign(agent.decision, { curator: CTB, report_after: WINDOW, expires_in: 600 });
  const arrivals = new Map(); // by visitor: a proxy knows them by their connections
  agent.before = () => {
    const { path, headers, method } = agent.requests.at(-1);
    if (!arrivals.has(headers.origin)) arrivals.set(headers.origin, []);
    arrivals.get(headers.origin).push({ what: `${method} ${path}`, time: performance.now() / 1000 });
  };
  const { url, stop } = await agent.serve();
  t.after(stop);
  const elsewhere = await startSite(t, { "/": "<title>elsewhere</title>" });
  const client = (mode) => `<script type="module">
    import * as sdk from "/ldpbandits/src/index.js";
    const limits = ${JSON.stringify({ ...LIMITS, budget: 1000 })};
    const client = new sdk.Client(${JSON.stringify(url)}, "buttons", { key: "k", limits, allowAutomated: true, ${MODES[mode]} });`;
  const pages = Object.keys(MODES).flatMap((mode, i) => [
    [`/${i}`, `<!doctype html><title>shop</title><link rel="icon" href="data:,"><a id="away" href="${elsewhere.url}">away</a>
      <a id="thanks" href="/thanks${i}">buy</a>${client(mode)} window.pull = await client.decide();</script>`],
    [`/thanks${i}`, `<!doctype html><title>thanks</title><link rel="icon" href="data:,">
      ${client(mode)} await client.observeLatest(1).catch(() => {}); window.thanked = true;</script>`],
  ]);
  const site = await startSite(t, Object.fromEntries(pages));
  const context = await newContext(t, await startBrowser(t));

  const visits = Object.keys(MODES).flatMap((mode, i) => Object.keys(KINDS).flatMap((kind, j) =>
    coins(VISITS, 11 + 7 * i + j).map((reward, k) => ({ mode, kind, reward, path: `/${i}`, origin: `http://v${i}-${j}-${k}.localhost:${site.port}` }))));
  const inTurn = visits.map((_, i) => visits[(i * 5) % visits.length]); // not one kind after the other: a machine may be slower later
  await Promise.all(Array.from({ length: AT_A_TIME }, async () => {
    for (let visit; (visit = inTurn.shift()); ) {
      const page = await context.newPage();
      await page.goto(visit.origin + visit.path);
      await page.waitForFunction(() => window.pull);
      const start = performance.now();
      const at = (seconds) => sleep(Math.max(start + seconds * 1000 - performance.now(), 0));
      await KINDS[visit.kind]({ page, at }, visit.reward);
    }
  }));
  await sleep((WINDOW + 3) * 1000);

  for (const visit of visits) {
    const seen = arrivals.get(visit.origin) ?? [];
    const timeOf = (what) => seen.find((arrival) => arrival.what === what)?.time ?? Infinity;
    const asked = timeOf("POST /v1/experiments/buttons/decisions");
    // When its response came, when the acceptance, the offer, and the last request of all; how many there were.
    visit.times = [timeOf("POST /v1/responses") - asked, timeOf("POST /v1/acceptances") - asked, timeOf("GET /v1/experiments/buttons/offer") - asked,
      Math.max(...seen.map(({ time }) => time)) - asked, seen.length];
    visit.answered = Number.isFinite(visit.times[0]);
  }
  const rights = Object.keys(MODES).map((mode) => {
    const of = (kind) => visits.filter((visit) => visit.mode === mode && visit.kind === kind);
    const right = Object.keys(KINDS).map((kind) => guessed(of(kind)));
    const mine = visits.filter((visit) => visit.mode === mode);
    t.diagnostic(`${mode}: right for ${Object.keys(KINDS).map((kind, i) => `${right[i]} of ${VISITS / 2} (${kind})`).join(", ")}; ${mine.filter(({ answered }) => answered).length} of ${mine.length} answered`);
    return { right, sum: right.reduce((sum, each) => sum + each) };
  });
  const [worker, nextVisit, send] = rights;
  t.diagnostic(`in all: ${Object.keys(MODES).map((mode, i) => `${mode} ${rights[i].sum} of ${2 * VISITS}`).join(", ")}`);
  assert.ok(visits.filter(({ mode }) => mode === "with a service worker").every(({ answered }) => answered), "each visitor of the worker's has answered");
  assert.ok(worker.sum < ALARM, `${worker.sum} right of ${2 * VISITS}`);
  assert.ok(send.sum >= 1.5 * VISITS, `the guesser can guess: ${send.sum}`); // by chance in 0.35 % of runs
  assert.ok(nextVisit.right[3] > VISITS / 4, `and here who is there at the moment: ${nextVisit.right[3]}`);
});
