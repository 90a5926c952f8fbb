import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { bundledSdk, newContext, SDK, startAgent, startBrowser, startSite } from "./support/browser.mjs";

const VISITORS = 80;
const AT_A_TIME = 3;
/** The arms of the SDK's example page, and how many of those who see one click. */
const RATES = new Map([["plain", 0.1], ["eager", 0.8]]);

/** A text with some parts replaced, each of which must be there. */
function replaced(text, parts) {
  for (const [from, to] of Object.entries(parts)) {
    assert.ok(text.includes(from), from);
    text = text.replace(from, to);
  }
  return text;
}

/** Whether the next visitor is one of so many: each of a pair of streams goes on by itself, with a fixed seed. */
function crowd(rate, seed) {
  return () => (seed = (seed * 48271) % 2147483647) / 2147483647 < rate;
}

// With epsilon 3, in 10 000 simulations of the same crowd the worse arm led never, and an interval missed its rate never:
// a false alarm is rarer than once in 2000 runs, at 99 % confidence.
test("80 visitors: those who do not click close the tab, those who do leave by a link; the agent learns the truth", async (t) => {
  const agent = await startAgent(t);
  const curator = { mechanism: "bernoulli", epsilon: 3 };
  await agent.ask("/v1/experiments", { name: "buttons", arms: [...RATES.keys()], curator, goal: "earn", sticky: 0 });
  const elsewhere = await startSite(t, { "/checkout": "<title>thanks</title>" });
  const site = await startSite(t, {
    "/ldpbandits/src/index.js": (await bundledSdk()).contents,
    "/": replaced(readFileSync(join(SDK, "examples/page.html"), "utf8"), {
      "https://agent.example": agent.url,
      "the client key": agent.keys.client,
      "https://shop.example/checkout": `${elsewhere.url}/checkout`,
      "epsilon: 1,": "epsilon: 3, /* for a crowd of 80 */",
      'worker: registerWorker("/ldpbandits/src/worker.js", { type: "module" })': 'allowAutomated: true, onLeave: "send"',
    }),
  });
  const browser = await startBrowser(t);
  // Each visitor comes to a name of its own: another origin has another storage, as another person's browser has. To
  // start a browser context for each takes twice as long.
  const context = await newContext(t, browser, { viewport: { width: 300, height: 200 } });
  const clicks = new Map([...RATES].map(([name, rate], i) => [name, crowd(rate, 7 + i)]));

  /** Come, look, and go; whoever has clicked is elsewhere then, and the tab is returned for the next: a new one is slow. */
  async function visit(number, tab) {
    const page = tab ?? (await context.newPage());
    await page.goto(`http://visitor${number}.shop.test:${site.port}/`, { waitUntil: "commit" });
    const label = await page.evaluate(async () => {
      const link = () => document.querySelector("#buy");
      while (!link()?.onclick) await new Promise((resolve) => setTimeout(resolve, 10));
      return link().textContent;
    });
    if (clicks.get(label === "Buy now" ? "eager" : "plain")()) {
      await page.evaluate(() => document.querySelector("#buy").click());
      await page.waitForURL(`${elsewhere.url}/checkout`, { waitUntil: "commit" });
      return page;
    }
    await page.close();
    return undefined;
  }
  let visitors = 0;
  await Promise.all(Array.from({ length: AT_A_TIME }, async () => {
    for (let tab; visitors < VISITORS; ) tab = await visit(visitors++, tab);
  }));

  let report = await agent.ask("/v1/experiments/buttons");
  for (let i = 0; i < 150 && report.responses < VISITORS; i++) {
    await sleep(100); // the last responses outlive their pages
    report = await agent.ask("/v1/experiments/buttons");
  }
  const [plain, eager] = report.arms;
  t.diagnostic(report.arms.map(({ name, decisions, pulls, low, mean, high }) => `${name}: ${pulls} of ${decisions} answered, ${low.toFixed(3)} <= ${mean.toFixed(3)} <= ${high.toFixed(3)}`).join("; "));
  assert.equal(plain.decisions + eager.decisions, VISITORS);
  assert.ok(report.responses >= 0.97 * VISITORS, `${report.responses} answered`);
  assert.deepEqual(report.rejected, { forged: 0, expired: 0, impossible: 0, changed: 0, closed: 0, duplicate: 0 });
  for (const { name, low, high } of report.arms) assert.ok(low <= RATES.get(name) && RATES.get(name) <= high, name);
  assert.ok(eager.decisions > plain.decisions);
});
