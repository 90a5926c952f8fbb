/** A visitor of a site with a page that lends its SDK to the test, and a fake agent. */

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";

import { Agent, LIMITS } from "../../../sdk/js/test/support/agent.js";
import { newContext, startSite } from "./browser.mjs";

/** A page that lends its SDK to the test. */
const LAB = `<!doctype html><title>lab</title><link rel="icon" href="data:,"><a id="away" href="/elsewhere">away</a>
<script type="module">import * as sdk from "/ldpbandits/src/index.js"; Object.assign(window, { sdk });</script>`;

/** A new visitor of a site with this page and these further files, and a fake agent. */
export async function newVisitor(t, browser, { page = LAB, agent = new Agent(), files = {} } = {}) {
  const { url, stop } = await agent.serve();
  t.after(stop);
  const context = await newContext(t, browser);
  const elsewhere = await startSite(t, { "/": "<title>elsewhere</title>" });
  const site = await startSite(t, { "/": page.replace("/elsewhere", elsewhere.url), ...files });
  return { agent, agentUrl: url, context, site, elsewhere };
}

/** Open a page of the lab, with a client of the agent as `client`. */
export async function open(context, address, agentUrl, limits = LIMITS, options = { onLeave: "send" }) {
  const page = await context.newPage();
  await page.goto(address);
  await page.waitForFunction(() => "sdk" in window);
  await page.evaluate(([url, limits, { worker, ...options }]) => {
    window.ahead = 0; // seconds, for a test that does not wait
    const clock = () => Date.now() / 1000 + window.ahead;
    const given = { key: "the-client-key", limits, clock, allowAutomated: true, ...options };
    window.client = new window.sdk.Client(url, "buttons", { ...given, ...(worker && { worker: window.sdk.registerWorker(worker) }) });
  }, [agentUrl, limits, options]);
  return page;
}

/** Wait until something holds. */
export async function until(condition, seconds = 8) {
  for (let i = 0; i < 50 * seconds && !(await condition()); i++) await sleep(20);
  assert.ok(await condition());
}
