import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { check } from "./support/axe.mjs";
import { newContext, startAgent, startBrowser } from "./support/browser.mjs";
import { savePages } from "./support/saved.mjs";

let browser, agent, pages;
const cleanups = [];
before(async () => {
  const t = { after: (end) => cleanups.unshift(end) };
  [browser, agent] = await Promise.all([startBrowser(t), startAgent(t)]);
  const curator = { mechanism: "bernoulli", epsilon: 1 };
  await agent.ask("/v1/experiments", { name: "saved", arms: ["A", "B"], curator, about_page: true });
  const folder = mkdtempSync(join(tmpdir(), "ldpbandits-saved-"));
  cleanups.push(() => rmSync(folder, { recursive: true }));
  pages = { ...await savePages(folder, agent, "saved"), about: `${agent.url}/about/saved` };
});
after(async () => {
  for (const end of cleanups) await end();
});

test("axe-core finds nothing wrong with any saved page, light or dark, and none is wider than a phone", async (t) => {
  const page = await (await newContext(t, browser)).newPage();
  const found = [];
  for (const [name, address] of Object.entries(pages)) {
    await page.goto(address);
    await check(page, name).catch(({ message }) => found.push(message));
  }
  assert.deepEqual(found, []);
});

test("figures follow the scheme of the screen; on paper they are light", async (t) => {
  const page = await (await newContext(t, browser)).newPage();
  await page.goto(pages.plan);
  const untilDark = (isDark) => page.waitForFunction((isDark) => {
    const image = document.querySelector("figure img");
    return atob(image.currentSrc.split(",")[1]).includes('<svg fill="#e9e7e3"') === isDark;
  }, isDark);
  await page.emulateMedia({ colorScheme: "light" });
  await untilDark(false);
  await page.emulateMedia({ colorScheme: "dark" });
  await untilDark(true);
  await page.emulateMedia({ colorScheme: "dark", media: "print" });
  await untilDark(false);
});

test("no place beside a panel of the report is empty", async (t) => {
  const page = await (await newContext(t, browser, { viewport: { width: 1200, height: 800 } })).newPage();
  await page.goto(pages.report);
  const rows = await page.evaluate(() => {
    const { right } = document.querySelector(".panels").getBoundingClientRect();
    const figures = [...document.querySelectorAll(".panels figure")].map((each) => each.getBoundingClientRect());
    return figures.map(({ top }) => Math.round(right - Math.max(...figures.filter((each) => each.top === top).map((each) => each.right))));
  });
  assert.deepEqual(rows, rows.map(() => 0));
});
