/**
 * Write a picture of every page into build/pictures: light and dark on a desk, and on a phone. `make pictures`.
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { newContext, ROOT, startAgent, startBrowser } from "./support/browser.mjs";
import { savePages } from "./support/saved.mjs";

const OUT = join(ROOT, "build/pictures");
const LOOKS = { light: ["light", 1200], dark: ["dark", 1200], phone: ["light", 390] };
const EPSILON = 2;
const TWO = ["Blue button", "Green button"];
const TWELVE = Array.from({ length: 12 }, (_, i) => `Headline ${i + 1}: a rather long name of an arm, as teams write them`);

const cleanups = [];
const t = { after: (end) => cleanups.unshift(end) };
const folder = mkdtempSync(join(tmpdir(), "ldpbandits-pictures-"));
cleanups.push(() => rmSync(folder, { recursive: true, force: true }));

let seed = 7;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;

/** Let some devices take part; the last arm is liked most. */
async function takePart(agent, name, arms, count) {
  const honest = 1 / (1 + Math.exp(-EPSILON));
  for (let left = count; left > 0; left -= 20) {
    await Promise.all(Array.from({ length: Math.min(left, 20) }, async () => {
      const { arm, ticket } = await agent.ask(`/v1/experiments/${name}/decisions`, {});
      const isLiked = random() < 0.2 + (0.6 * arm) / (arms.length - 1);
      await agent.ask("/v1/responses", { ticket, response: Number(isLiked === random() < honest) });
    }));
  }
}

/** Start a server with two experiments that have answers, and one that has none. */
async function startExperiments() {
  const agent = await startAgent(t);
  const curator = { mechanism: "bernoulli", epsilon: EPSILON };
  for (const [name, arms] of [["buttons", TWO], ["headlines", TWELVE], ["untouched", TWO]]) {
    await agent.ask("/v1/experiments", { name, arms, curator, report_after: 0, about_page: true });
  }
  await takePart(agent, "buttons", TWO, 800);
  await takePart(agent, "headlines", TWELVE, 1200);
  return agent;
}

/** Save the page that is open in each look. */
async function shoot(page, name) {
  for (const [look, [colorScheme, width]] of Object.entries(LOOKS)) {
    await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await page.setViewportSize({ width, height: 800 });
    await page.evaluate(() => Promise.all([...document.images].map((image) => image.decode())));
    await page.waitForTimeout(300); // curves are drawn anew, for the new width
    await page.screenshot({ path: join(OUT, `${name}-${look}.png`), fullPage: true });
  }
  console.log(name);
}

async function shootConsole(page, agent) {
  const home = `${agent.url}/console`;
  await page.goto(home);
  await shoot(page, "sign-in");
  await page.getByLabel("Your key").fill(agent.keys.admin);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Experiments" }).waitFor();
  await shoot(page, "list");
  const pages = {
    new: "new", "two-arms": "experiments/buttons", "twelve-arms": "experiments/headlines", "no-response": "experiments/untouched",
    "confirm-ship": "experiments/headlines/ship", "confirm-delete": "experiments/buttons/delete",
  };
  for (const [name, path] of Object.entries(pages)) {
    await page.goto(`${home}/${path}`);
    if (name.endsWith("-arms")) await page.locator(".plotted canvas").first().waitFor();
    await shoot(page, name);
  }
  const saved = join(folder, "saved.html");
  writeFileSync(saved, await (await page.request.get(`${home}/experiments/headlines/report.html`)).body());
  await page.goto(pathToFileURL(saved).href);
  await shoot(page, "saved-experiment");
}

try {
  rmSync(OUT, { recursive: true, force: true });
  mkdirSync(OUT, { recursive: true });
  const [agent, browser] = await Promise.all([startExperiments(), startBrowser(t)]);
  const page = await (await newContext(t, browser)).newPage();
  await shootConsole(page, agent);
  const others = { docs: `${agent.url}/docs`, about: `${agent.url}/about/headlines`, ...await savePages(folder, agent, "headlines") };
  for (const [name, address] of Object.entries(others)) {
    await page.goto(address);
    await shoot(page, name);
  }
  console.log(`The pictures are in ${OUT}`);
} finally {
  for (const end of cleanups) await end();
}
