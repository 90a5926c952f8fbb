/**
 * Why the ledger of a web page is not in localStorage: four tabs of a real Chromium count together, each in turn under a
 * lock of the browser's, and see each other's writes too late; in IndexedDB no count is lost.
 *
 *     node benchmarks/tabs.mjs
 */

import { startBrowser, startSite } from "../tests/browser/support/browser.mjs";

const [TABS, COUNTS] = [4, 1000];

const ends = [];
const t = { after: (end) => ends.unshift(end) };

/** How far the tabs get together when each does `count` so many times. */
async function total(context, address, count, read) {
  const tabs = await Promise.all(Array.from({ length: TABS }, () => context.newPage()));
  await Promise.all(tabs.map((tab) => tab.goto(address)));
  await Promise.all(tabs.map((tab) => tab.evaluate(count, COUNTS)));
  await new Promise((resolve) => setTimeout(resolve, 500)); // until every tab has seen what the others wrote
  return tabs[0].evaluate(read);
}

const site = await startSite(t, { "/": "<title>count</title>" });
const context = await (await startBrowser(t)).newContext();

const locked = await total(
  context,
  site.url,
  async (counts) => {
    const count = () => localStorage.setItem("count", String(Number(localStorage.getItem("count")) + 1));
    for (let i = 0; i < counts; i++) await navigator.locks.request("count", count);
  },
  () => Number(localStorage.getItem("count")),
);

const stored = await total(
  context,
  site.url,
  async (counts) => {
    const count = () =>
      new Promise((resolve) => {
        const opening = indexedDB.open("count");
        opening.onupgradeneeded = () => opening.result.createObjectStore("count");
        opening.onsuccess = () => {
          const transaction = opening.result.transaction("count", "readwrite");
          const store = transaction.objectStore("count");
          store.get("count").onsuccess = ({ target }) => store.put((target.result ?? 0) + 1, "count");
          transaction.oncomplete = resolve;
          opening.result.close();
        };
      });
    for (let i = 0; i < counts; i++) await count();
  },
  () => new Promise((resolve) => {
    indexedDB.open("count").onsuccess = ({ target }) => {
      target.result.transaction("count").objectStore("count").get("count").onsuccess = ({ target }) => resolve(target.result);
    };
  }),
);

console.log(`${TABS} tabs count to ${TABS * COUNTS}: localStorage under a lock ${locked}, IndexedDB ${stored}`);
for (const end of ends) await end();
