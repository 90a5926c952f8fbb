/**
 * What a test in a real browser needs: Debian's Chromium, driven by playwright-core; the agent's server, as a process of
 * its own; and a site that serves pages. Each is ended with its test.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../../", import.meta.url));
export const SDK = join(ROOT, "sdk/js");

/** What the SDK's lock file pins: playwright-core, axe-core. */
export const require = createRequire(join(SDK, "package.json"));

/** Any name under .test is this machine: a page of http://shop.test is not from HTTPS, nor from localhost. */
const OPTIONS = ["--host-resolver-rules=MAP *.test 127.0.0.1", "--disable-gpu", "--no-sandbox"];

/** Start a Chromium, with `options` of playwright's; it ends with the test. */
export async function startBrowser(t, options = {}) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const launched = require("playwright-core").chromium.launch({ executablePath, args: OPTIONS, ...options });
  t.after(async () => (await launched).close()); // also if the test fails before it has started
  return launched;
}

/**
 * A context of the browser, which ends with the test. Chromium may never answer when it is to close one while a page of it
 * goes somewhere: so each page arrives first, and nobody waits for the answer for ever. What is left ends with the browser.
 */
export async function newContext(t, browser, options = {}) {
  const context = await browser.newContext(options);
  t.after(async () => {
    await Promise.all(context.pages().map((page) => page.waitForLoadState().catch(() => {})));
    await Promise.race([context.close(), sleep(10_000, undefined, { ref: false })]);
  });
  return context;
}

// Where a file of tests takes too long it gets a SIGTERM: then, too, what it has started ends.
process.once("SIGTERM", () => process.exit(1));

/** Start `ldpbandits serve` on a free port, with an empty database and perhaps more options; returns its address, its keys, and a way to ask it. */
export async function startAgent(t, options = []) {
  const folder = mkdtempSync(join(tmpdir(), "ldpbandits-browser-"));
  const keys = { admin: `admin-${"a".repeat(32)}`, viewer: `viewer-${"v".repeat(32)}`, client: `client-${"c".repeat(32)}` };
  const env = { ...process.env, PYTHONPATH: join(ROOT, "src") };
  for (const [role, key] of Object.entries(keys)) env[`LDPBANDITS_${role.toUpperCase()}_KEY`] = key;
  const python = process.env.PYTHON ?? join(ROOT, ".venv/bin/python");
  const server = spawn(python, ["-m", "ldpbandits", "serve", "--port", "0", "--database", join(folder, "agent.db"), ...options], { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(server, "close").catch(() => {}); // there may be no such python
  process.once("exit", () => server.kill("SIGKILL"));
  t.after(async () => {
    server.kill("SIGTERM");
    await ended;
    rmSync(folder, { recursive: true, force: true });
  });
  const [first] = await Promise.race([once(createInterface(server.stderr), "line"), ended.then(() => ["it ended"])]);
  const [url] = /http:\S+\d/.exec(first) ?? [];
  if (!url) throw new Error(`ldpbandits serve did not start: ${first}`);

  /** Ask the server something as its admin. */
  async function ask(path, body, method = body ? "POST" : "GET") {
    const reply = await fetch(url + path, { method, headers: { Authorization: `Bearer ${keys.admin}` }, ...(body && { body: JSON.stringify(body) }) });
    if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
    return reply.json();
  }
  return { url, keys, ask, end: () => server.kill("SIGTERM") };
}

/** The SDK in one file, as `npm run build` makes it, and what a page says of it. */
export async function bundledSdk() {
  const { bundled, integrityOf } = await import(join(SDK, "scripts/bundle.js"));
  const { contents } = await bundled("index");
  return { contents: Buffer.from(contents), integrity: integrityOf(contents) };
}

/**
 * Serve pages on a free port: `pages` has a text for a path; the SDK's sources are under /ldpbandits/src/, and its service
 * worker is /worker.js. They are open to all: a frame without an origin of its own imports the SDK too.
 */
export async function startSite(t, pages) {
  const { bundled } = await import(join(SDK, "scripts/bundle.js"));
  pages = { "/worker.js": Buffer.from((await bundled("worker")).contents), ...pages };
  const server = createServer((request, reply) => {
    const { pathname } = new URL(request.url ?? "/", "http://site");
    const source = /^\/ldpbandits\/(src\/[\w/-]+\.js)$/.exec(pathname)?.[1];
    const text = pages[pathname] ?? (source && existsSync(join(SDK, source)) ? readFileSync(join(SDK, source)) : undefined);
    const type = pathname.endsWith(".js") ? "text/javascript" : "text/html; charset=utf-8";
    reply.writeHead(text === undefined ? 404 : 200, { "content-type": type, "access-control-allow-origin": "*" }).end(text);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => (server.closeAllConnections(), server.close()));
  const { port } = server.address();
  return { port, url: `http://localhost:${port}` };
}
