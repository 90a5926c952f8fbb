import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, CTB, LIMITS, LOUD } from "../../sdk/js/test/support/agent.js";
import { bundledSdk, newContext, ROOT, startAgent, startBrowser, startSite } from "./support/browser.mjs";
import { newVisitor, open, until } from "./support/visitor.mjs";

/** One browser for all tests of this file. */
let browser;
const cleanups = [];
before(async () => {
  browser = await startBrowser({ after: (end) => cleanups.push(end) }, { ignoreDefaultArgs: ["--disable-back-forward-cache"] });
});
after(() => Promise.all(cleanups.map((end) => end())));

const visitor = (t, given) => newVisitor(t, browser, given);

test("a response leaves with its page: plain text, no key, no cookie, no referrer, and nobody was asked first", async (t) => {
  const { agent, agentUrl, context, site, elsewhere } = await visitor(t);
  const page = await open(context, site.url, agentUrl);
  await page.evaluate(async () => {
    document.cookie = "name=value";
    const pull = await window.client.decide();
    document.querySelector("#away").onclick = () => void pull.observe(1);
  });
  await page.click("#away");
  await page.waitForURL(elsewhere.url);
  await until(() => agent.counted.size === 1);
  assert.deepEqual(agent.requests.map(({ method, path }) => `${method} ${path}`), [
    "GET /v1/experiments/buttons/offer", "OPTIONS /v1/experiments/buttons/decisions", "POST /v1/experiments/buttons/decisions", "POST /v1/acceptances", "POST /v1/responses",
  ]);
  for (const { headers } of agent.requests.slice(3)) assert.equal(headers["content-type"], "text/plain;charset=UTF-8");
  for (const { method, path, headers } of agent.requests) {
    assert.equal(headers.authorization, method === "POST" && path.endsWith("/decisions") ? "Bearer the-client-key" : undefined);
    assert.deepEqual([headers.cookie, headers.referer], [undefined, undefined]);
  }
});

test("what leaves with a page is the same, reward or not, but for the response", async (t) => {
  const traces = [];
  for (const click of [true, false]) {
    const { agent, agentUrl, context, site, elsewhere } = await visitor(t);
    const page = await open(context, site.url, agentUrl);
    await page.evaluate(async (click) => {
      const pull = await window.client.decide();
      if (click) document.querySelector("#away").onclick = () => void pull.observe(1);
    }, click);
    await page.click("#away");
    await page.waitForURL(elsewhere.url);
    await until(() => agent.counted.size === 1);
    traces.push(agent.requests.map(({ method, path, headers, body }) => {
      const { origin, host, "content-length": length, ...others } = headers; // the ports are others
      return [method, path, Object.keys(headers), others, length, body?.replace(/"response":[01]/, "")];
    }));
  }
  assert.deepEqual(traces[0], traces[1]);
});

for (const host of ["localhost", "shop.test"]) {
  const kind = host === "localhost" ? "a secure page" : "a page over plain HTTP, which has no locks of the browser's";
  test(`${kind}: several tabs share one budget and one outbox, and send each response once`, async (t) => {
    const agent = new Agent();
    Object.assign(agent.decision, { report_after: 2, expires_in: 600 });
    const { agentUrl, context, site } = await visitor(t, { agent });
    const address = `http://${host}:${site.port}`;
    const limits = { ...LIMITS, budget: 7 };
    const tabs = await Promise.all([1, 2, 3].map(() => open(context, address, agentUrl, limits)));
    assert.equal(await tabs[0].evaluate(() => "locks" in navigator), host === "localhost");
    const decide = async () => {
      const results = await Promise.allSettled(Array.from({ length: 5 }, () => window.client.decide()));
      return results.map(({ value, reason }) => value?.ticket ?? reason.name);
    };
    const results = (await Promise.all(tabs.map((tab) => tab.evaluate(decide)))).flat();
    assert.equal(results.filter((name) => name === "LimitError").length, 8);
    assert.equal(new Set(results).size, 8, "seven tickets");
    await until(() => agent.counted.size === 7);
    await tabs[0].evaluate(() => window.client.flush());
    assert.equal(agent.sent.length, 7);
  });
}

test("offline and back: what failed is sent again by itself", async (t) => {
  const { agent, agentUrl, context, site } = await visitor(t);
  const page = await open(context, site.url, agentUrl);
  await page.evaluate(() => window.client.decide());
  await context.setOffline(true);
  const { waiting } = await page.evaluate(() => ((window.ahead += 300), window.client.flush()));
  assert.deepEqual([waiting, agent.sent.length], [1, 0]);
  await context.setOffline(false);
  await until(() => agent.counted.size === 1);
});

test("what did not get through as its page was left is sent by the next visit, unchanged", async (t) => {
  const { agent, agentUrl, context, site } = await visitor(t);
  agent.decision.curator = { ...CTB, mechanism: "laplace" };
  const page = await open(context, site.url, agentUrl);
  await page.evaluate(async () => (await window.client.decide()).observe(0.25));
  agent.before = () => [503, { code: "retry", message: "" }];
  await page.close();
  await until(() => agent.sent.length === 1);
  agent.before = () => undefined;
  const next = await open(context, site.url, agentUrl);
  assert.deepEqual(await next.evaluate(() => window.client.flush()), { acknowledged: 0, waiting: 1, refused: [] });
  assert.equal((await next.evaluate(() => ((window.ahead += 10), window.client.flush()))).acknowledged, 1);
  assert.equal(agent.sent[0], agent.sent[1]);
});

test("a page that comes back from the browser's cache has reported: it takes no reward and sends nothing more", async (t) => {
  const { agent, agentUrl, context, site, elsewhere } = await visitor(t);
  const page = await open(context, site.url, agentUrl);
  await page.evaluate(async () => {
    addEventListener("pageshow", ({ persisted }) => (window.persisted = persisted));
    window.pull = await window.client.decide();
  });
  await page.goto(elsewhere.url);
  await until(() => agent.counted.size === 1);
  await page.goBack({ waitUntil: "commit" }); // it is not loaded again
  assert.equal(await page.evaluate(() => window.persisted), true);
  assert.equal(await page.evaluate(() => window.pull.observe(1).catch((error) => error.name)), "TicketError");
  const [again, waiting] = await page.evaluate(async () => [(await window.client.decide()).ticket, (await window.client.flush()).waiting]);
  assert.deepEqual([again, waiting], ["ticket-2", 0]);
  await page.close();
  await until(() => agent.counted.size === 2);
  assert.equal(new Set(agent.sent).size, 2);
});

test("a page that may not store anything gets an LDPBanditsError that says so, and no DOMException", async (t) => {
  const { agent, agentUrl, context, site } = await visitor(t);
  const outer = await context.newPage();
  await outer.goto(site.url);
  await outer.setContent(`<iframe sandbox="allow-scripts" src="${site.url}"></iframe>`); // no origin of its own, so no storage
  const frame = await (await outer.waitForSelector("iframe")).contentFrame();
  await frame.waitForFunction(() => "sdk" in window);
  const told = await frame.evaluate(async ([url, limits]) => {
    const client = new window.sdk.Client(url, "buttons", { key: "k", limits, onLeave: "send", allowAutomated: true });
    return client.decide().catch((error) => [error instanceof window.sdk.LDPBanditsError, error.name, error.message, error.cause.name]);
  }, [agentUrl, LIMITS]);
  assert.deepEqual(told, [true, "LedgerError", "a ledger cannot be kept: this page may not store anything", "SecurityError"]);
  assert.equal(agent.requests.length, 0);
});

test("a page runs the single file if its hash is the one it says, and nothing of it if it is another", async (t) => {
  const { agentUrl, context } = await visitor(t);
  const { contents, integrity } = await bundledSdk();
  const wrong = integrity.replace(/-./, (start) => (start === "-A" ? "-B" : "-A"));
  const page = (hash) => `<!doctype html><title>single</title><link rel="icon" href="data:,">
    <script type="module" src="/ldpbandits.min.js" integrity="${hash}"></script>
    <script type="module">import * as sdk from "/ldpbandits.min.js"; Object.assign(window, { sdk });</script>
    <script type="module">window.loaded = true;</script>`;
  const site = await startSite(t, { "/": page(integrity), "/wrong": page(wrong), "/ldpbandits.min.js": contents });
  const right = await open(context, site.url, agentUrl);
  assert.deepEqual(await right.evaluate(async () => [(await window.client.decide()).name, await window.client.spent()]), ["green", 1]);
  const refused = await context.newPage();
  const complaints = [];
  refused.on("console", (message) => complaints.push(message.text()));
  await refused.goto(`${site.url}/wrong`);
  await refused.waitForFunction(() => window.loaded);
  assert.equal(await refused.evaluate(() => "sdk" in window), false);
  assert.match(complaints.join(), /integrity/);
});

const EXAMPLES = {
  "sdk/js/examples/page.html": { arms: ["plain", "eager"], shown: ["Buy", "Buy now"], fallback: "Buy" },
  "examples/page.html": {
    arms: ["Blue skies ahead", "Rain at last"],
    shown: ["Blue skies ahead\n\nI like itNot for me\n\nTake partNo more, and forget me", "Rain at last\n\nI like itNot for me\n\nTake partNo more, and forget me"],
    fallback: "Blue skies ahead\n\nI like itNot for me\n\nTake partNo more, and forget me",
  },
  "docs/browser.md": {
    arms: ["plain", "eager"],
    shown: ["A teapot. Add to basket", "A teapot. Yes, I want it!"],
    fallback: "A teapot. Add to basket",
  },
};

/** One of the example pages, with its agent and key put in. */
function exampleOf(name, url, key) {
  const file = readFileSync(join(ROOT, name), "utf8");
  const text = /```html\n(.*?)```/s.exec(file)?.[1] ?? file;
  const parts = {
    "https://agent.example": url,
    '"http://127.0.0.1:8000", "buttons"': `${JSON.stringify(url)}, "buttons"`,
    'given.get("agent") ?? "http://127.0.0.1:8000"': JSON.stringify(url),
    'given.get("key") ?? ""': JSON.stringify(key),
    '?? "headline"': '?? "buttons"',
    "the client key": key,
    "../sdk/js/src/": "/ldpbandits/src/",
    "./ldpbandits/": "/ldpbandits/src/",
    "budget: 5": "budget: 1",
    "limits: {": "allowAutomated: true, limits: {",
    'consent: "required"': 'consent: "given"',
  };
  return Object.entries(parts).reduce((page, [from, to]) => page.replaceAll(from, to), text);
}

/** Wait until an example page shows something. */
const shows = (page) => page.waitForFunction(() => document.querySelector("#buy:not([hidden])") ?? document.querySelector("#headline")?.textContent);
const textOf = async (page) => (await page.locator("body").innerText()).trim();

test("whatever an agent calls its arms, none of its words gets into the example pages, and no reward is for an arm that is not shown", async (t) => {
  for (const [name, { fallback }] of Object.entries(EXAMPLES)) {
    const agent = new Agent();
    const { agentUrl, context } = await visitor(t, { agent });
    const site = await startSite(t, { "/": exampleOf(name, agentUrl, "k").replace("epsilon: 1, budget: 1", "epsilon: 50, budget: 500") });
    const words = ["constructor", "<img src=//evil.test/a>"];
    for (const word of words) {
      Object.assign(agent.decision, { name: word, curator: LOUD.curator, report_after: 2 });
      const page = await context.newPage();
      const [warnings, addresses] = [[], []];
      page.on("console", (message) => message.type() === "warning" && warnings.push(message.text()));
      page.on("request", (request) => addresses.push(request.url()));
      await page.goto(site.url);
      await until(() => warnings.length);
      await shows(page);
      assert.equal(await textOf(page), fallback);
      assert.ok(!(await page.evaluate(() => document.documentElement.outerHTML)).includes(word));
      assert.ok(!addresses.join().includes("evil"));
      assert.deepEqual(warnings, ["the agent has chosen an arm that this page does not know"]);
      await page.evaluate(() => document.querySelector("#buy, #like").click());
      await page.close();
    }
    await until(() => agent.counted.size === agent.asked.length, 15); // by the service worker; a page may take up a pull of the page before
    assert.deepEqual([...new Set(agent.counted.values())], [0], "the default's");
  }
});

test("the example page in two tabs: one budget, no internals, a tab that was hidden goes on, and nobody takes part who has refused", async (t) => {
  const name = "examples/page.html";
  const { shown, fallback } = EXAMPLES[name];
  const agent = new Agent();
  Object.assign(agent.decision, { name: "Rain at last", report_after: 4 });
  const { agentUrl, context } = await visitor(t, { agent });
  const site = await startSite(t, { "/": exampleOf(name, agentUrl, "k").replace("budget: 1", "budget: 3").replace('consent: "given"', 'consent: "required"') });
  const errors = [];
  context.on("weberror", (error) => errors.push(error.error()));
  const tabs = [await context.newPage(), await context.newPage()];
  for (const tab of tabs) {
    await tab.goto(site.url);
    await shows(tab);
    assert.equal(await textOf(tab), fallback);
    assert.deepEqual(await tab.evaluate(() => indexedDB.databases()), []);
  }
  assert.equal(agent.requests.length, 0, "before anybody has said yes");
  await tabs[0].click("#in");
  for (const tab of tabs) await until(async () => (await textOf(tab)) === shown[1]);
  // The visitor looks at the second tab, and comes back to the first.
  await tabs[0].evaluate(() => {
    Object.defineProperty(document, "visibilityState", { value: "hidden", configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
    delete document.visibilityState;
  });
  await tabs[0].click("#like");
  await until(async () => (await textOf(tabs[0])).includes("Your answer stays here."));
  await tabs[1].click("#out");
  for (const tab of tabs) await until(async () => (await textOf(tab)).startsWith(fallback.slice(0, 16)));
  const { length } = agent.requests;
  await sleep(5000);
  assert.deepEqual([agent.requests.length, agent.sent], [length, []], "what was not sent yet never is");
  assert.deepEqual(errors, []);
});

test("storage forbidden, budget used up, server down, wrong key: the example pages go on, and the visitor sees no internals", async (t) => {
  const agent = await startAgent(t);
  for (const [i, [name, { arms, shown, fallback }]] of Object.entries(EXAMPLES).entries()) {
    const experiment = `buttons-${i}`;
    await agent.ask("/v1/experiments", { name: experiment, arms, curator: { mechanism: "bernoulli", epsilon: 1 }, sticky: 0, report_after: 1 });
    const context = await newContext(t, browser);
    const example = (...given) => exampleOf(...given).replace('"buttons"', JSON.stringify(experiment));
    const good = example(name, agent.url, agent.keys.client);
    const site = await startSite(t, {
      "/good": good,
      "/forbidden": `<iframe sandbox="allow-scripts" src="/good"></iframe>`,
      "/down": example(name, "http://127.0.0.1:9", agent.keys.client),
      "/wrong": example(name, agent.url, "client-wrong").replace("budget: 1", "budget: 9"),
    });
    const go = async (path) => {
      const page = await context.newPage();
      const [warnings, errors] = [[], []];
      page.on("console", (message) => message.type() === "warning" && warnings.push(message.text()));
      page.on("pageerror", (error) => errors.push(error));
      await page.goto(site.url + path);
      const frame = path === "/forbidden" ? await (await page.waitForSelector("iframe")).contentFrame() : page;
      await shows(frame);
      return { page, text: await textOf(frame), warnings, errors };
    };
    const first = await go("/good");
    assert.ok(shown.includes(first.text), first.text);
    await first.page.close();
    await sleep(1500); // until its pull awaits no reward any more: the site's next page would show that
    for (const [path, reason] of [["/good", /allows 1 within/], ["/forbidden", /may not store/], ["/down", /cannot be reached/], ["/wrong", /401/]]) {
      const { page, text, warnings, errors } = await go(path);
      assert.equal(text, fallback, `${name}${path}`);
      assert.match(warnings.join(), reason);
      assert.deepEqual(errors, []);
      await page.close();
    }
  }
});
