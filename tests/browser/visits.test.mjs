// What outlives a page: its pulls, which the site's next page takes up, and its responses, which leave at their moment.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, LIMITS, LOUD } from "../../sdk/js/test/support/agent.js";
import { startAgent, startBrowser, startSite } from "./support/browser.mjs";
import { newVisitor, open, until } from "./support/visitor.mjs";

/** One browser for all tests of this file. */
let browser;
const cleanups = [];
before(async () => (browser = await startBrowser({ after: (end) => cleanups.push(end) })));
after(() => Promise.all(cleanups.map((end) => end())));

const WORKER = { worker: "/worker.js" };
const NEXT_VISIT = { onLeave: "next-visit" };

/** An agent whose responses say the reward, and which are sent so many seconds after the arm was shown. */
function loud(seconds) {
  const agent = new Agent();
  Object.assign(agent.decision, { curator: LOUD.curator, report_after: seconds, expires_in: 600 });
  return agent;
}

/** Register and start the worker, so that no test waits for it. */
const workerOf = async (context, page) => {
  await until(() => context.serviceWorkers().length === 1);
  await page.evaluate(async () => { while (!(await navigator.serviceWorker.getRegistration())?.active) await new Promise((done) => setTimeout(done, 20)); });
};

test("with a service worker the response leaves at its moment, whether its page is open, hidden, left for another site or closed", async (t) => {
  const ways = {
    open: async () => {},
    closed: (page) => page.close(),
    "left, with a click that is the reward": async (page) => {
      await page.evaluate(() => (document.querySelector("#away").onclick = () => void window.pull.observe(1)));
      await page.click("#away");
    },
    hidden: async (page) => (await page.context().newPage()).bringToFront(),
  };
  await Promise.all(Object.entries(ways).map(async ([way, leave]) => {
    const agent = loud(4);
    const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
    const page = await open(context, site.url, agentUrl, LOUD.limits, WORKER);
    await workerOf(context, page);
    await page.evaluate(async () => (window.pull = await window.client.decide()));
    const start = Date.now();
    await leave(page);
    await sleep(3000);
    assert.equal(agent.sent.length, 0, `${way}: nothing has left before`);
    await until(() => agent.counted.size === 1, 15);
    assert.ok(Date.now() - start >= 3900, way);
    assert.deepEqual([...agent.counted.values()], [way.includes("reward") ? 1 : 0], way);
    assert.deepEqual([agent.sent.length, agent.accepted.length], [1, 1], way);
  }));
});

for (const [mode, options] of Object.entries({ "a service worker": WORKER, "the next visit": NEXT_VISIT })) {
  test(`what leaves by ${mode} is the same, reward or not, but for the response`, async (t) => {
    const traces = await Promise.all([null, 0, 1].map(async (reward) => {
      const agent = new Agent();
      Object.assign(agent.decision, { report_after: 3, expires_in: 600 });
      const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
      const page = await open(context, site.url, agentUrl, LIMITS, options);
      if (options.worker) await workerOf(context, page);
      await page.evaluate(async (reward) => {
        const pull = await window.client.decide();
        if (reward !== null) await pull.observe(reward);
      }, reward);
      await until(() => agent.accepted.length === 1);
      await page.close();
      await sleep(4000);
      if (!options.worker) await open(context, site.url, agentUrl, LIMITS, options);
      await until(() => agent.counted.size === 1, 15);
      return agent.requests.map(({ method, path, headers, body }) => {
        const { origin, host, "content-length": length, ...others } = headers; // the ports are others
        return [method, path, Object.keys(headers), others, length, body?.replace(/"response":[01]/, "")];
      });
    }));
    assert.ok(traces[0].length >= 4, "offer, decision, acceptance, response");
    assert.deepEqual(traces[1], traces[0]);
    assert.deepEqual(traces[2], traces[0]);
  });
}

test("a site's own service worker imports the SDK's, and its registration is found by getRegistration()", async (t) => {
  const agent = loud(3);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent, files: { "/own.js": 'importScripts("/worker.js"); self.isOwn = true;' } });
  const page = await open(context, site.url, agentUrl, LOUD.limits, NEXT_VISIT);
  await page.evaluate(() => navigator.serviceWorker.register("/own.js"));
  await workerOf(context, page);
  assert.ok(await context.serviceWorkers()[0].evaluate(() => self.isOwn));
  await page.evaluate(async ([url, limits]) => {
    const worker = () => navigator.serviceWorker?.getRegistration();
    const client = new window.sdk.Client(url, "buttons", { key: "the-client-key", limits, allowAutomated: true, worker });
    await (await client.decide()).observe(1);
  }, [agentUrl, LOUD.limits]);
  await page.close();
  await until(() => agent.counted.size === 1, 15);
  assert.deepEqual([...agent.counted.values()], [1]);
});

test("several tabs and a service worker send each response once, and a reward on a later page is in it", async (t) => {
  const agent = loud(5);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
  const page = await open(context, site.url, agentUrl, LOUD.limits, WORKER);
  await page.evaluate(() => window.client.decide());
  const tabs = [await open(context, site.url, agentUrl, LOUD.limits, WORKER), await open(context, site.url, agentUrl, LOUD.limits, WORKER)];
  await page.close();
  assert.equal(await tabs[0].evaluate(() => window.client.observeLatest(1)), true);
  assert.equal(await tabs[1].evaluate(() => window.client.observeLatest(0)), false, "it has had its reward");
  await until(() => agent.counted.size === 1, 15);
  await sleep(1500);
  assert.deepEqual([agent.sent.length, ...agent.counted.values()], [1, 1]);
});

test("a service worker that was ended is called again by the next page, and what is due leaves then", async (t) => {
  const agent = loud(4);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
  const page = await open(context, site.url, agentUrl, LOUD.limits, WORKER);
  await workerOf(context, page);
  await page.evaluate(async () => void (await window.client.decide()).observe(1));
  await sleep(300);
  await page.goto(`${site.url}/worker.js`); // an address of the site without the SDK
  const control = await context.newCDPSession(page);
  await control.send("ServiceWorker.enable");
  await control.send("ServiceWorker.stopAllWorkers");
  await sleep(6000);
  assert.equal(agent.sent.length, 0, "nobody was there to send it");
  await open(context, site.url, agentUrl, LOUD.limits, WORKER);
  await until(() => agent.counted.size === 1, 10);
  assert.deepEqual([...agent.counted.values()], [1]);
});

test("a service worker whose agent fails tries again after 1, 2, 4, ... s, however many responses wait", async (t) => {
  const agent = loud(5);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
  const page = await open(context, site.url, agentUrl, LOUD.limits, WORKER);
  await workerOf(context, page);
  await page.evaluate(async () => { for (let i = 0; i < 24; i++) await window.client.decide(); });
  let failsUntil;
  agent.before = (path) => {
    if (path !== "/v1/responses") return;
    failsUntil ??= Date.now() + 2000;
    if (Date.now() < failsUntil) return [503, { code: "retry", message: "" }];
  };
  await until(() => agent.counted.size === 24, 15);
  assert.ok(agent.sent.length <= 5 * 24, `${agent.sent.length} requests`);
});

test("next-visit: a click that leads to another page of the site is its reward, and that page sends it at the moment", async (t) => {
  const agent = loud(4);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
  const page = await open(context, site.url, agentUrl, LOUD.limits, NEXT_VISIT);
  await page.evaluate(async () => {
    const pull = await window.client.decide();
    const link = document.querySelector("#away");
    link.href = "/?thanks";
    link.onclick = () => void pull.observe(1);
  });
  await page.click("#away");
  await page.waitForURL("**/?thanks");
  await page.close();
  await sleep(4500);
  assert.equal(agent.sent.length, 0, "nobody is there to send it");
  await open(context, site.url, agentUrl, LOUD.limits, NEXT_VISIT);
  await until(() => agent.counted.size === 1);
  assert.deepEqual([...agent.counted.values()], [1]);
});

test("a click on a link is in the storage although its page is gone before anybody could wait for it, fifty times", async (t) => {
  const agent = loud(300);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
  const limits = { ...LOUD.limits, budget: 1e6 };
  const page = await open(context, site.url, agentUrl, limits, NEXT_VISIT);
  for (let i = 0; i < 50; i++) {
    await page.evaluate(() => window.client.decide());
    await until(() => agent.accepted.length === i + 1);
    await page.evaluate(() => {
      const link = document.querySelector("#away");
      link.href = `/?${Math.random()}`;
      link.onclick = () => void window.client.observeLatest(1);
      setTimeout(() => link.click(), 100); // nobody clicks within a tenth of a second after the arm is shown
    });
    await page.waitForFunction(() => !window.client && "sdk" in window);
    await page.evaluate(([url, limits]) => {
      window.client = new window.sdk.Client(url, "buttons", { key: "k", limits, onLeave: "next-visit", allowAutomated: true });
    }, [agentUrl, limits]);
  }
  assert.deepEqual(await page.evaluate(async () => (await window.client.pulls()).length), 0, "each has had its reward");
});

test("ship, retire, pause and close reach a returning visitor's sticky arm within max-age", async (t) => {
  const agent = await startAgent(t, ["--offer-max-age", "2"]);
  const { context, site } = await newVisitor(t, browser);
  const names = ["ship", "retire", "pause", "close"];
  for (const name of names) await agent.ask("/v1/experiments", { name, arms: ["plain", "eager", "calm"], curator: { mechanism: "bernoulli", epsilon: 1 }, report_after: 25, sticky: 604800 });
  /** What a returning visitor is shown: a new page each time. */
  const visit = async () => {
    const page = await context.newPage();
    await page.goto(site.url);
    await page.waitForFunction(() => "sdk" in window);
    const shown = await page.evaluate(([url, key, names, limits]) => Promise.all(names.map(async (name) => {
      const client = new window.sdk.Client(url, name, { key, limits, onLeave: "next-visit", allowAutomated: true });
      return client.decide().then((pull) => pull.name, (error) => error.code);
    })), [agent.url, agent.keys.client, names, LIMITS]);
    await page.close();
    return shown;
  };
  const first = await visit();
  assert.deepEqual(await visit(), first, "sticky");
  const other = (name) => ["plain", "eager", "calm"].find((arm) => arm !== name);
  await agent.ask("/v1/experiments/ship/ship", { arm: ["plain", "eager", "calm"].indexOf(other(first[0])) });
  await agent.ask(`/v1/experiments/retire/arms/${["plain", "eager", "calm"].indexOf(first[1])}/retire`, {});
  await agent.ask("/v1/experiments/pause/pause", {});
  await agent.ask("/v1/experiments/close/close", {});
  await sleep(2500);
  const [shipped, retired, ...others] = await visit();
  assert.equal(shipped, other(first[0]));
  assert.notEqual(retired, first[1]);
  assert.deepEqual(others, ["paused", "closed"]);
});

test("consent: nothing is made or asked before optIn, forget reaches all tabs, and automated browsers are refused by default", async (t) => {
  const { agent, agentUrl, context, site } = await newVisitor(t, browser);
  const tabs = [await open(context, site.url, agentUrl, LIMITS, { ...NEXT_VISIT, consent: "required" }), await open(context, site.url, agentUrl, LIMITS, { onLeave: "send", consent: "required" })];
  const kept = () => tabs[0].evaluate(async () => [await indexedDB.databases(), localStorage.length, (await navigator.serviceWorker.getRegistrations()).length]);
  await tabs[0].evaluate(([url, limits, path]) => { // a registration is stored, too
    const worker = () => window.sdk.registerWorker(path);
    window.client = new window.sdk.Client(url, "buttons", { key: "k", limits, worker, consent: "required", allowAutomated: true });
  }, [agentUrl, LIMITS, WORKER.worker]);
  const codes = () => Promise.all(tabs.map((tab) => tab.evaluate(() => window.client.decide().then(() => "taken", (error) => error.code))));
  assert.deepEqual(await codes(), ["consent_required", "consent_required"]);
  assert.deepEqual([await kept(), agent.requests.length], [[[], 0, 0], 0]);
  await tabs[0].evaluate(() => window.client.optIn());
  assert.deepEqual(await codes(), ["taken", "taken"]);
  assert.equal((await kept())[2], 1);
  await tabs[0].evaluate(() => window.client.forget());
  await sleep(200);
  assert.deepEqual(await codes(), ["opted_out", "opted_out"]);
  const { length } = agent.requests;
  for (const tab of tabs) await tab.close();
  await sleep(500);
  assert.equal(agent.requests.length, length, "not even the tab sends that would have as it is left");

  const page = await open(context, (await startSite(t, { "/": await (await fetch(site.url)).text() })).url, agentUrl, LIMITS, { ...NEXT_VISIT, allowAutomated: false });
  assert.equal(await page.evaluate(() => window.client.decide().catch((error) => error.code)), "automated");
});

test("who opts out in one tab while another asks for an arm is shown none, and keeps nothing but that; so does who sends Global Privacy Control", async (t) => {
  const agent = loud(4);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
  const tabs = [await open(context, site.url, agentUrl, LOUD.limits, WORKER), await open(context, site.url, agentUrl, LOUD.limits, WORKER)];
  await workerOf(context, tabs[0]);
  await tabs[0].evaluate(async () => { await window.client.decide(); });
  let isAsked;
  const asked = new Promise((resolve) => (isAsked = resolve));
  agent.before = async (path) => {
    if (!path.endsWith("/decisions")) return;
    isAsked();
    await sleep(1000);
  };
  const decided = tabs[0].evaluate(() => window.client.decide().then(() => "taken", (error) => error.code));
  await asked;
  await tabs[1].evaluate(() => window.client.forget());
  assert.equal(await decided, "opted_out");
  assert.equal(await tabs[0].evaluate(() => window.client.observeLatest(1)), false, "the pull from before is gone");
  await sleep(5000);
  assert.deepEqual([agent.sent.length, agent.accepted.length], [0, 1], "neither a page nor the worker has sent it");
  /** What the browser keeps, after a note was added as by a tab that was told a moment too late. */
  const kept = (note) => tabs[0].evaluate((note) => new Promise((resolve) => {
    indexedDB.open("ldpbandits").onsuccess = ({ target }) => {
      const store = target.result.transaction("ldpbandits", "readwrite").objectStore("ldpbandits");
      if (note) store.put(note, `ldpbandits/${note.ticket}`);
      store.getAll().onsuccess = (event) => resolve(event.target.result);
    };
  }), note);
  const [ledger, ...notes] = await kept();
  const { pulls, arms, spends, consent } = JSON.parse(ledger);
  assert.deepEqual([notes, pulls, arms, spends.length, consent], [[], [], [], 1, "out"]);
  assert.equal((await kept({ ticket: "ticket-1", response: 1 })).length, 2);
  await tabs[1].evaluate(() => window.client.pulls());
  await until(async () => (await kept()).length === 1);

  agent.requests.length = 0;
  await context.addInitScript(() => Object.defineProperty(navigator, "globalPrivacyControl", { value: true }));
  const elsewhere = await startSite(t, { "/": await (await fetch(site.url)).text() });
  const page = await open(context, elsewhere.url, agentUrl, LOUD.limits, NEXT_VISIT);
  assert.equal(await page.evaluate(() => window.client.decide().catch((error) => error.code)), "signal");
  assert.deepEqual([agent.requests.length, await page.evaluate(() => indexedDB.databases())], [0, []]);
  await page.evaluate(() => window.client.optIn());
  assert.equal(await page.evaluate(() => window.client.decide().then(({ name }) => name)), "green");
});

test("a site without HTTPS has no service worker: the page is told, and the next visit sends", async (t) => {
  const agent = loud(2);
  const { agentUrl, context, site } = await newVisitor(t, browser, { agent });
  const address = `http://shop.test:${site.port}`;
  const warnings = [];
  context.on("console", (message) => message.type() === "warning" && warnings.push(message.text()));
  const first = await open(context, address, agentUrl, LOUD.limits, WORKER);
  await first.evaluate(async () => void (await window.client.decide()).observe(1));
  assert.match(warnings[0], /there is no service worker, so onLeave holds/);
  await first.close();
  await sleep(2500);
  assert.equal(agent.sent.length, 0);
  await open(context, address, agentUrl, LOUD.limits, WORKER);
  await until(() => agent.counted.size === 1);
  assert.deepEqual([...agent.counted.values()], [1]);
});
