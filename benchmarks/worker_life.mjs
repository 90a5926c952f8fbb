/**
 * For how long Chromium lets a service worker wait that no page of its site is open for: nothing is connected to this
 * Chromium, since a connected debugger keeps workers alive.
 *
 *     node benchmarks/worker_life.mjs
 */

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** In seconds: how often the worker is heard of, and for how long this listens. */
const [BEAT_S, LONGEST_S] = [5, 330];

const pages = {
  "/": `<script>navigator.serviceWorker.register("/worker.js").then((registration) => {
    registration.installing.postMessage("start");
    setTimeout(() => { location.href = "about:blank"; }, 1000);
  });</script>`,
  "/worker.js": `addEventListener("message", (event) => event.waitUntil((async () => {
    for (;;) { await fetch("/beat"); await new Promise((done) => setTimeout(done, ${BEAT_S * 1000})); }
  })()));`,
};
let [first, last] = [0, 0];
const server = createServer(({ url }, reply) => {
  if (url === "/beat") [first, last] = [first || Date.now(), Date.now()];
  reply.writeHead(url in pages ? 200 : 204, { "content-type": url.endsWith(".js") ? "text/javascript" : "text/html" }).end(pages[url]);
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
const folder = mkdtempSync(join(tmpdir(), "ldpbandits-"));
const options = ["--headless=new", "--no-sandbox", "--disable-gpu", `--user-data-dir=${folder}`, `http://localhost:${server.address().port}/`];
const chromium = spawn(process.env.CHROMIUM ?? "/usr/bin/chromium", options, { stdio: "ignore" });
while (!first) await sleep(100);
while (Date.now() - last < 3 * BEAT_S * 1000 && Date.now() - first < LONGEST_S * 1000) await sleep(1000);
console.log(`a service worker without a page was heard of for ${Math.round((last - first) / 1000)} s (every ${BEAT_S} s)`);
const ended = new Promise((resolve) => chromium.once("close", resolve));
chromium.kill();
await ended;
server.closeAllConnections();
server.close();
rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 500 }); // its processes end one after the other
