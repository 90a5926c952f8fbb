import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, CTB, LIMITS } from "../../sdk/js/test/support/agent.js";
import { ROOT, startAgent, startBrowser, startSite } from "./support/browser.mjs";

/** A page that lends its SDK to the test. */
const LAB = `<!doctype html><title>lab</title><link rel="icon" href="data:,"><a id="away" href="/elsewhere">away</a>
<script type="module">import * as sdk from "/ldpbandits/src/index.js"; Object.assign(window, { sdk });</script>`;

/** One browser for all tests of this file. */
let browser;
const cleanups = [];
before(async () => {
  browser = await startBrowser({ after: (end) => cleanups.push(end) }, { ignoreDefaultArgs: ["--disable-back-forward-cache"] });
});
after(() => Promise.all(cleanups.map((end) => end())));

/** A new visitor of a site with this page, and a fake agent. */
async function visitor(t, { page = LAB, agent = new Agent() } = {}) {
  const [{ url, stop }, context] = [await agent.serve(), await browser.newContext()];
  t.after(stop);
  t.after(() => context.close());
  const elsewhere = await startSite(t, { "/": "<title>elsewhere</title>" });
  const site = await startSite(t, { "/": page.replace("/elsewhere", elsewhere.url) });
  return { agent, agentUrl: url, context, site, elsewhere };
}

/** Open a page of the lab, with a client of the agent as `client`. */
async function open(context, address, agentUrl, limits = LIMITS) {
  const page = await context.newPage();
  await page.goto(address);
  await page.waitForFunction(() => "sdk" in window);
  await page.evaluate(([url, limits]) => {
    window.ahead = 0; // seconds, for a test that does not wait
    const clock = () => Date.now() / 1000 + window.ahead;
    window.client = new window.sdk.Client(url, "buttons", { key: "the-client-key", limits, clock });
  }, [agentUrl, limits]);
  return page;
}

/** Wait until something holds. */
async function until(condition, seconds = 8) {
  for (let i = 0; i < 50 * seconds && !(await condition()); i++) await sleep(20);
  assert.ok(await condition());
}

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
    "OPTIONS /v1/experiments/buttons/decisions", "POST /v1/experiments/buttons/decisions", "POST /v1/responses",
  ]);
  const { headers } = agent.requests[2];
  assert.equal(headers["content-type"], "text/plain;charset=UTF-8");
  assert.deepEqual([headers.authorization, headers.cookie, headers.referer], [undefined, undefined, undefined]);
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
  assert.deepEqual(await next.evaluate(() => window.client.flush()), { acknowledged: 0, waiting: 0, refused: [] });
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
    const client = new window.sdk.Client(url, "buttons", { key: "k", limits });
    return client.decide().catch((error) => [error instanceof window.sdk.LDPBanditsError, error.name, error.message, error.cause.name]);
  }, [agentUrl, LIMITS]);
  assert.deepEqual(told, [true, "LedgerError", "a ledger cannot be kept: this page may not store anything", "SecurityError"]);
  assert.equal(agent.requests.length, 0);
});

const EXAMPLES = {
  "sdk/js/examples/page.html": { fallback: "Buy" },
  "examples/page.html": { fallback: "Blue skies ahead\n\nI like itNot for me" },
};

/** One of the example pages, with its agent and key put in. */
function example(name, url, key) {
  const text = readFileSync(join(ROOT, name), "utf8");
  return text.replace("https://agent.example", url).replace("the client key", key).replace("../sdk/js/src/", "/ldpbandits/src/")
    .replace('given.get("agent") ?? "http://127.0.0.1:8000"', JSON.stringify(url)).replace('given.get("key") ?? ""', JSON.stringify(key))
    .replace('?? "headline"', '?? "buttons"').replace("budget: 5", "budget: 1");
}

test("storage forbidden, budget used up, server down, wrong key: the example pages go on, and the visitor sees no internals", async (t) => {
  const agent = await startAgent(t);
  await agent.ask("/v1/experiments", { name: "buttons", arms: ["plain", "eager"], curator: { mechanism: "bernoulli", epsilon: 1 } });
  for (const [name, { fallback }] of Object.entries(EXAMPLES)) {
    const context = await browser.newContext();
    t.after(() => context.close());
    const good = example(name, agent.url, agent.keys.client);
    const site = await startSite(t, {
      "/good": good,
      "/forbidden": `<iframe sandbox="allow-scripts" src="/good"></iframe>`,
      "/down": example(name, "http://127.0.0.1:9", agent.keys.client),
      "/wrong": example(name, agent.url, "client-wrong"),
    });
    const go = async (path) => {
      const page = await context.newPage();
      const [warnings, errors] = [[], []];
      page.on("console", (message) => message.type() === "warning" && warnings.push(message.text()));
      page.on("pageerror", (error) => errors.push(error));
      await page.goto(site.url + path);
      const frame = path === "/forbidden" ? await (await page.waitForSelector("iframe")).contentFrame() : page;
      await frame.waitForFunction(() => document.querySelector("#buy:not([hidden])") ?? document.querySelector("#headline")?.textContent);
      return { page, text: (await frame.locator("body").innerText()).trim(), warnings, errors };
    };
    const first = await go("/good");
    assert.ok(first.text !== fallback || name.startsWith("sdk"), first.text);
    await first.page.close();
    for (const [path, reason] of [["/good", /allows 1 within/], ["/forbidden", /may not store/], ["/down", /cannot be reached/], ["/wrong", /401/]]) {
      const { page, text, warnings, errors } = await go(path);
      assert.equal(text, fallback, `${name}${path}`);
      assert.match(warnings.join(), reason);
      assert.deepEqual(errors, []);
      await page.close();
    }
  }
});
