/** What axe-core finds wrong with a page, light and dark, and whether it is wider than a phone. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { require } from "./browser.mjs";

const AXE = readFileSync(join(require.resolve("axe-core"), "../axe.min.js"), "utf8");

/** What axe-core finds wrong with a page. It is run beside the page's policy, not against it. */
async function faults(page) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run({ resultTypes: ["violations"] }));
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`));
}

/** Fail if axe-core finds anything, in either scheme, or if the page is wider than a phone. */
export async function check(page, what) {
  await page.setViewportSize({ width: 360, height: 740 });
  const [wide, window] = await page.evaluate(async () => {
    const frame = () => new Promise(requestAnimationFrame);
    await frame(); // in which curves are drawn anew, for the new width
    await frame();
    return [document.scrollingElement.scrollWidth, innerWidth];
  });
  assert.ok(wide <= window, `${what}: ${wide} > ${window}`);
  for (const [colorScheme, width] of [["dark", 360], ["light", 1280]]) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 740 });
    assert.deepEqual(await faults(page), [], `${what}, ${colorScheme}`);
  }
}
