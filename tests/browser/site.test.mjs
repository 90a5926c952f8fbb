import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

import { newContext, ROOT, startAgent, startBrowser, startSite } from "./support/browser.mjs";

const SITE = join(ROOT, "build/site");
const PAGE = readFileSync(join(ROOT, "docs/browser.md"), "utf8");

test("the page of docs/browser.md takes part in its experiment, and works without a server", async (t) => {
  const [, html] = /```html\n(.*?)```/s.exec(PAGE);
  const agent = await startAgent(t);
  const [, create] = /experiments create buttons (.*)\n/.exec(PAGE);
  const arms = [...create.matchAll(/--arm (\w+)/g)].map(([, arm]) => arm);
  await agent.ask("/v1/experiments", { name: "buttons", arms, curator: { mechanism: "bernoulli", epsilon: 1 }, report_after: 2 });
  const filled = html.replaceAll("./ldpbandits/", "/ldpbandits/src/").replace("the client key", agent.keys.client)
    .replace("limits: {", "allowAutomated: true, limits: {");
  const site = await startSite(t, { "/": filled.replace("http://127.0.0.1:8000", agent.url), "/down": filled.replace("127.0.0.1:8000", "127.0.0.1:9") });
  const browser = await startBrowser(t);
  const context = await newContext(t, browser);
  const page = await context.newPage();
  await page.goto(site.url);
  await page.waitForSelector("#buy:not([hidden])");
  assert.match(await page.textContent("#buy"), /Add to basket|Yes, I want it!/);
  await page.click("#buy");
  await page.close(); // the worker sends at the moment
  const responses = async () => (await agent.ask("/v1/experiments/buttons")).responses;
  for (let i = 0; i < 1000 && !(await responses()); i++) await sleep(20);
  assert.equal(await responses(), 1);
  const other = await context.newPage();
  await other.goto(`${site.url}/down`);
  await other.waitForSelector("#buy:not([hidden])");
  assert.equal(await other.textContent("#buy"), "Add to basket");
});

test("the search of the docs finds a page, opened as files, and no page asks for anything elsewhere", async (t) => {
  assert.ok(existsSync(join(SITE, "search.html")), "run `make docs` first");
  const browser = await startBrowser(t);
  const page = await (await newContext(t, browser)).newPage();
  const elsewhere = [];
  page.on("request", (request) => request.url().startsWith("file:") || request.url().startsWith("data:") || elsewhere.push(request.url()));
  for (const name of ["index.html", "notebooks/paper.html", "api.html"]) await page.goto(pathToFileURL(join(SITE, name)).href);
  await page.goto(pathToFileURL(join(SITE, "index.html")).href);
  await page.fill(".sidebar-search", "minimum_share");
  await page.press(".sidebar-search", "Enter");
  await page.waitForSelector("#search-results li a");
  const found = await page.locator("#search-results li a").allTextContents();
  assert.ok(found.some((title) => /Steering experiments|live system|Choosing/.test(title)), found.join());
  assert.deepEqual(elsewhere, []);
});
