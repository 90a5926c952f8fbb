import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, request as ask } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { check } from "./support/axe.mjs";
import { newContext, startAgent, startBrowser } from "./support/browser.mjs";

/** How often each headline is liked: easy to tell apart, so that few are needed to see them part. */
const LIKED = { Weather: 0.1, Sports: 0.2, Science: 0.9 };
const EPSILON = 4;

/** One browser and one server for all tests of this file. */
let browser, agent;
const cleanups = [];
before(async () => {
  const t = { after: (end) => cleanups.unshift(end) };
  [browser, agent] = await Promise.all([startBrowser(t), startAgent(t)]);
  await create("silent", { ticket_lifetime: 8 });
  await Promise.all(Array.from({ length: 30 }, async () => { // all are accepted, and nobody will answer
    const { ticket } = await agent.ask("/v1/experiments/silent/decisions", {});
    await agent.ask("/v1/acceptances", { ticket });
  }));
});
after(async () => {
  for (const end of cleanups) await end();
});

/** A new visitor; whatever the browser complains of, and whatever the policy of a page forbids, fails the test. */
async function visitor(t, options = {}) {
  const context = await newContext(t, browser, options);
  const complaints = [];
  context.on("console", (message) => {
    const isRefusal = /status of 4\d\d/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isRefusal) complaints.push(message.text());
  });
  context.on("weberror", ({ error }) => complaints.push(String(error())));
  t.after(() => assert.deepEqual(complaints, []));
  return context.newPage();
}

async function signIn(page, role = "admin", url = `${agent.url}/console`) {
  await page.goto(url);
  await page.getByLabel("Your key").fill(agent.keys[role]);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Experiments" }).waitFor();
}

/** Make an experiment by the API. */
async function create(name, settings = {}) {
  const curator = { mechanism: "bernoulli", epsilon: EPSILON };
  await agent.ask("/v1/experiments", { name, arms: Object.keys(LIKED), curator, report_after: 0, ...settings });
}

let seed = 7;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;

/** Let so many devices take part, over HTTP, each with a response drawn as a curator draws it. */
async function takePart(name, count) {
  const honest = 1 / (1 + Math.exp(-EPSILON));
  const post = async (path, body) => {
    const reply = await fetch(agent.url + path, { method: "POST", headers: { Authorization: `Bearer ${agent.keys.client}` }, body: JSON.stringify(body) });
    assert.equal(reply.status, 200);
    return reply.json();
  };
  for (let left = count; left > 0; left -= 20) {
    await Promise.all(Array.from({ length: Math.min(left, 20) }, async () => {
      const decision = await post(`/v1/experiments/${name}/decisions`, {});
      const isLiked = random() < LIKED[decision.name];
      await post("/v1/responses", { ticket: decision.ticket, response: Number(isLiked === random() < honest) });
    }));
  }
}

test("sign in, create, watch a crowd converge without reloading, ship, sign out", async (t) => {
  const page = await visitor(t);
  await signIn(page);
  await page.getByRole("link", { name: "New experiment" }).click();
  await page.getByLabel("Name").fill("headlines");
  await page.getByLabel("Arms, one per line").fill(Object.keys(LIKED).join("\n"));
  await page.getByLabel("Epsilon", { exact: true }).fill(String(EPSILON));
  await page.getByRole("button", { name: "Create and start" }).click();
  await page.getByText("The experiment is created, and running.").waitFor();
  await page.getByText("There are no responses yet.").waitFor();
  await page.locator(".live").getByText("live").waitFor();

  await page.evaluate(() => { window.isSame = true; });
  const responses = page.locator(".numbers div", { hasText: "responses" }).locator("dd");
  const science = page.getByRole("row", { name: /Science/ });
  await takePart("headlines", 60);
  await page.locator(".readings").waitFor(); // the chart
  const early = await science.locator(".interval").getAttribute("width");
  await takePart("headlines", 540);
  await responses.getByText("600", { exact: true }).waitFor();
  await page.locator(".reading", { hasText: "After 600 responses" }).waitFor();
  const late = await science.locator(".interval").getAttribute("width");
  assert.ok(parseFloat(late) < parseFloat(early), `${late} < ${early}`);
  await page.getByText("Science is better than every other arm.").waitFor();
  assert.match(await science.locator("svg.whisker").getAttribute("aria-label"), /^mean 0\.\d+, interval from/);
  assert.equal(await page.evaluate(() => window.isSame), true, "the page was not loaded anew");

  await page.getByRole("link", { name: "Ship" }).click();
  assert.ok(await page.getByRole("radio", { name: /Science/ }).isChecked());
  await page.getByRole("button", { name: "Ship" }).click();
  await page.getByText("Everybody gets Science.").waitFor();
  const decision = await fetch(`${agent.url}/v1/experiments/headlines/decisions`, { method: "POST", headers: { Authorization: `Bearer ${agent.keys.client}` } });
  assert.deepEqual(await decision.json().then(({ name, ticket }) => [name, ticket]), ["Science", null]);

  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.goto(`${agent.url}/console/experiments/headlines`);
  assert.match(page.url(), /sign-in\?next=experiments\/headlines$/);
});

test("axe-core finds nothing wrong with any page, light or dark, and none is wider than a phone", async (t) => {
  await create("axe");
  await takePart("axe", 60);
  const page = await visitor(t, { reducedMotion: "reduce" });

  await page.goto(`${agent.url}/console`);
  await check(page, "sign-in");
  await page.getByLabel("Your key").fill(agent.keys.client);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await check(page, "a wrong key");
  await signIn(page);
  await check(page, "the list");
  await page.getByRole("link", { name: "API" }).click();
  await page.getByRole("heading", { name: "HTTP interface" }).waitFor();
  await page.evaluate(() => { for (const each of document.querySelectorAll("details")) each.open = true; });
  await page.getByText('-d \'{"name": "headline"').waitFor();
  await check(page, "the HTTP interface");
  await page.goto(`${agent.url}/console/experiments/axe`);
  await page.locator(".readings").waitFor();
  await check(page, "an experiment");
  await page.goto(`${agent.url}/console/experiments/silent`);
  await page.getByText("Warning.").first().waitFor();
  await check(page, "an experiment with warnings");
  for (const action of ["pause", "ship", "add-arm", "retire?arm=1", "close", "delete"]) {
    await page.goto(`${agent.url}/console/experiments/axe/${action}`);
    await check(page, action);
  }
  for (const path of ["experiments/axe/describe", "experiments/axe/log", "log", "keys"]) {
    await page.goto(`${agent.url}/console/${path}`);
    assert.ok(await page.getByRole("heading", { level: 1 }).isVisible());
    await check(page, path);
  }
  await page.goto(`${agent.url}/console/experiments/axe/delete`);
  await page.getByLabel("Type its name").fill("something else");
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("alert").waitFor();
  await check(page, "what was refused");
  await page.goto(`${agent.url}/console/new`);
  await check(page, "the form");
  await page.getByText("Rule and guardrails").click();
  await page.getByLabel("Name").fill("Not A Name");
  await page.getByLabel("Arms, one per line").fill("one\ntwo");
  await page.getByLabel("Epsilon", { exact: true }).fill("0.5 2");
  await page.getByRole("button", { name: "Create and start" }).click();
  await page.getByRole("alert").waitFor();
  await check(page, "the form with an error");
  await page.goto(`${agent.url}/console/nowhere`);
  await check(page, "page not found");
  const folder = mkdtempSync(join(tmpdir(), "ldpbandits-file-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "report.html");
  writeFileSync(file, await (await page.request.get(`${agent.url}/console/experiments/axe/report.html`)).body());
  await page.goto(`file://${file}`);
  await page.getByRole("heading", { name: "axe" }).waitFor();
  assert.equal(await page.evaluate(() => performance.getEntriesByType("resource").length), 0, "it asks for nothing");
  await check(page, "the file");
});

test("epsilon is explained while it is typed, by words, odds and a hundred people", async (t) => {
  const page = await visitor(t);
  await signIn(page);
  await page.goto(`${agent.url}/console/new`);
  const words = page.getByRole("region", { name: "What this epsilon means" });
  await words.getByText("2.7 times surer").waitFor();
  await page.getByLabel("Epsilon", { exact: true }).fill("");
  await words.getByText("epsilon is needed").waitFor();
  await page.getByLabel("Epsilon", { exact: true }).pressSequentially("0.5");
  await words.getByText("1.6 times surer").waitFor();
  await words.getByText("38 of 100 with the lowest reward").waitFor();
  await page.getByLabel("Use a slider").press("End");
  await words.getByText("22,026 times surer").waitFor();
  assert.equal(await page.getByLabel("Epsilon", { exact: true }).inputValue(), "10");
  await page.getByLabel("A response is").selectOption("laplace");
  await words.getByText("noise is added").waitFor();
});

test("without scripts: sign in, create, pause, see the curves", async (t) => {
  const page = await visitor(t, { javaScriptEnabled: false });
  await signIn(page);
  await page.getByRole("link", { name: "New experiment" }).click();
  assert.ok(await page.getByLabel("Use a slider").isHidden());
  await page.getByLabel("Name").fill("plain");
  await page.getByLabel("Arms, one per line").fill(Object.keys(LIKED).join("\n"));
  await page.getByLabel("Epsilon", { exact: true }).fill(String(EPSILON));
  await page.getByRole("button", { name: "Create and start" }).click();
  await takePart("plain", 40);
  await page.goto(`${agent.url}/console/experiments/plain`);
  const means = page.getByRole("img", { name: "Mean and interval of each arm" });
  assert.ok(await means.isVisible());
  assert.equal(await means.locator("polyline:not(.edge)").count(), 3);
  await page.getByRole("link", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("The experiment is paused.").waitFor();
  assert.equal((await agent.ask("/v1/experiments/plain")).status, "paused");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("with the keyboard alone: skip to the content, pause, confirm; what has the focus is seen", async (t) => {
  await create("keys");
  const page = await visitor(t);
  await signIn(page);
  await page.goto(`${agent.url}/console/experiments/keys`);
  const focused = () => page.evaluate(() => {
    const { innerText, id } = document.activeElement;
    const { top } = document.activeElement.getBoundingClientRect();
    return [innerText.slice(0, 30), id, getComputedStyle(document.activeElement).outlineStyle, top >= 0];
  });
  await page.keyboard.press("Tab");
  assert.deepEqual(await focused(), ["Skip to the content", "", "solid", true]);
  await page.keyboard.press("Enter");
  assert.equal((await focused())[1], "main");
  await page.keyboard.press("Tab");
  assert.deepEqual((await focused())[0], "Experiments");
  await page.keyboard.press("Tab");
  assert.deepEqual(await focused(), ["Pause", "", "solid", true]);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Pause keys?" }).waitFor();
  for (let i = 0; i < 10 && (await focused())[0] !== "Pause"; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByText("The experiment is paused.").waitFor();
});

test("a one-time link signs in, and only once", async (t) => {
  const { path } = await agent.ask("/v1/console/links", {});
  const page = await visitor(t);
  await page.goto(`${agent.url}/${path}`);
  await page.getByRole("heading", { name: "Experiments" }).waitFor();
  const other = await visitor(t);
  await other.goto(`${agent.url}/${path}`);
  await other.getByText("this link has been used").waitFor();
});

test("a viewer looks on, and finds no button", async (t) => {
  await create("watched");
  const page = await visitor(t);
  await signIn(page, "viewer");
  await page.getByRole("link", { name: "watched" }).click();
  await page.locator(".live").getByText("live").waitFor();
  await agent.ask("/v1/experiments/watched/pause", {});
  await page.locator(".pill.paused").waitFor();
  assert.deepEqual(await page.getByRole("button").allInnerTexts(), ["Sign out", "Print"]);
  for (const action of ["Pause", "Resume", "Ship", "Close", "Delete", "Retire"]) {
    assert.equal(await page.getByRole("link", { name: action }).count(), 0, action);
  }
});

test("when somebody signs out in one tab, the other shows nothing more", async (t) => {
  const page = await visitor(t);
  await signIn(page);
  const other = await page.context().newPage();
  await other.goto(`${agent.url}/console/`);
  await other.locator(".live").getByText("live").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await other.getByRole("heading", { name: "Sign in" }).waitFor();
});

test("a link from another site finds one signed in, though the cookie is strict", async (t) => {
  const page = await visitor(t);
  await signIn(page);
  const port = new URL(agent.url).port;
  await page.goto("data:text/html,<title>elsewhere</title>");
  await page.evaluate((url) => {
    document.body.append(Object.assign(document.createElement("a"), { href: url, textContent: "console" }));
  }, `http://127.0.0.1:${port}/console/new`);
  await page.getByRole("link", { name: "console" }).click();
  await page.getByRole("heading", { name: "New experiment" }).waitFor();
});

test("behind a proxy with a prefix that hides the host, all of it works, updates too", async (t) => {
  await create("proxied");
  const page = await visitor(t); // before the proxy, so that it leaves before
  const to = new URL(agent.url);
  const proxy = createServer((from, reply) => {
    if (!from.url.startsWith("/some/where/")) return reply.writeHead(404).end();
    const headers = { ...from.headers, host: to.host };
    const on = ask({ host: to.hostname, port: to.port, method: from.method, path: from.url.slice("/some/where".length), headers }, (back) => {
      reply.writeHead(back.statusCode, back.headers);
      back.pipe(reply);
    });
    from.pipe(on);
    on.on("error", () => reply.destroy());
    reply.on("close", () => on.destroy());
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  t.after(() => (proxy.closeAllConnections(), proxy.close()));
  const base = `http://localhost:${proxy.address().port}/some/where/console`;
  await signIn(page, "admin", base);
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.path, cookie.httpOnly, cookie.sameSite, cookie.secure], ["/some/where/console", true, "Strict", false]);
  await page.getByRole("link", { name: "proxied" }).click();
  await page.locator(".live").getByText("live").waitFor();
  await takePart("proxied", 20);
  await page.locator(".reading", { hasText: "After 20 responses" }).waitFor();
  await page.getByRole("link", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("The experiment is paused.").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(page.url(), `${base}/sign-in`);
});

test("on paper there are no controls, and the curves are drawn; little moves for who wants it so", async (t) => {
  await create("printed");
  await takePart("printed", 40);
  const page = await visitor(t, { reducedMotion: "reduce" });
  await signIn(page);
  await page.goto(`${agent.url}/console/experiments/printed`);
  await page.locator(".readings").waitFor();
  const motion = await page.evaluate(() => [
    getComputedStyle(document.querySelector(".live"), "::before").animationName,
    getComputedStyle(document.querySelector(".whisker rect")).transitionDuration,
  ]);
  assert.deepEqual(motion, ["none", "0s"]);
  const seen = async (selector) => (await page.locator(selector).first().isVisible());
  assert.deepEqual([await seen(".plotted"), await seen(".drawn"), await seen(".actions")], [true, false, true]);
  await page.emulateMedia({ media: "print" });
  assert.deepEqual([await seen(".plotted"), await seen(".drawn"), await seen(".actions")], [false, true, false]);
  for (const control of [".top", ".take", ".act", ".live"]) assert.equal(await seen(control), false, control);
});
