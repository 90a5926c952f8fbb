import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { LedgerError } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";

import { withLockFile } from "../src/node/lock-file.js";
import { device } from "./support/agent.js";

const SPENDER = fileURLToPath(new URL("support/spender.js", import.meta.url));

function folder(t) {
  const made = mkdtempSync(join(tmpdir(), "ldpbandits-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** Run a spender; resolves to how many arms it was given, also if it was killed after some milliseconds. */
function spend(ledger, number, killAfter = Infinity) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [SPENDER, ledger, String(number)], { stdio: ["ignore", "pipe", "inherit"] });
    const timer = Number.isFinite(killAfter) ? setTimeout(() => child.kill("SIGKILL"), killAfter) : undefined;
    let arms = 0;
    child.stdout.on("data", (text) => (arms += text.length));
    child.on("close", (code) => {
      clearTimeout(timer);
      if (code === 0 || Number.isFinite(killAfter)) resolve(arms);
      else reject(new Error(`spender ended with ${code}`));
    });
  });
}

const spends = (ledger) => JSON.parse(JSON.parse(readFileSync(ledger, "utf8")).ldpbandits).spends;

test("a file keeps items, for its owner's eyes only", async (t) => {
  const file = join(folder(t), "deep", "ledger.json");
  const storage = fileStorage(file);
  assert.equal(await storage.getItem("a"), null);
  await storage.lock(async () => {
    await storage.setItem("a", "1");
    await storage.setItem("b", "2");
    await storage.removeItem("a");
  });
  assert.deepEqual([await storage.getItem("a"), await fileStorage(file).getItem("b")], [null, "2"]);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(join(file, "..")), ["ledger.json"]);
});

test("a client's pulls and spends outlive it in the file", async (t) => {
  const storage = () => fileStorage(file);
  const file = join(folder(t), "ledger.json");
  const first = device(t, { storage: storage() });
  await first.client.decide();
  first.client.close();
  const second = device(t, { storage: storage(), agent: first.agent, clock: first.clock });
  assert.equal(await (await second.client.pulls())[0].observe(1), true);
  assert.equal(spends(file).length, 1);
});

test("a file that is no ledger is refused and left as it is", async (t) => {
  for (const text of ["", "{", "[]", "null", '"x"', '{"ldpbandits": {}}', '{"ldpbandits": "{"}']) {
    const file = join(folder(t), "ledger.json");
    writeFileSync(file, text);
    const { client } = device(t, { storage: fileStorage(file) });
    await assert.rejects(client.decide(), LedgerError, text);
    assert.equal(readFileSync(file, "utf8"), text);
  }
});

test("a place that cannot be written is a clear error", async (t) => {
  const file = join(folder(t), "file");
  writeFileSync(file, "");
  const { client } = device(t, { storage: fileStorage(join(file, "ledger.json")) });
  await assert.rejects(client.decide(), LedgerError);
});

test("processes that share a file are given exactly what the budget allows", async (t) => {
  const ledger = join(folder(t), "ledger.json");
  const arms = await Promise.all([1, 2, 3, 4].map((number) => spend(ledger, number)));
  assert.equal(arms.reduce((a, b) => a + b), 40);
  assert.equal(spends(ledger).length, 40);
});

test("processes killed at any moment leave a ledger that counts every arm they were given, and block nobody", async (t) => {
  const home = folder(t);
  const ledger = join(home, "ledger.json");
  let arms = 0;
  for (let round = 0; round < 4; round++) {
    const killed = [80, 110, 140].map((delay, i) => spend(ledger, `${round}-${i}`, delay + 7 * round));
    arms += (await Promise.all(killed)).reduce((a, b) => a + b);
  }
  arms += await spend(ledger, "last");
  assert.ok(arms <= 40, `${arms} arms`);
  assert.equal(spends(ledger).length, 40);
  assert.ok(!existsSync(`${ledger}.lock`));
});

test("a dead holder's lock is taken over by one of many at a time", async (t) => {
  const path = join(folder(t), "lock");
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  for (let round = 0; round < 5; round++) {
    writeFileSync(path, JSON.stringify({ host: hostname(), pid, started: "", token: `dead-${round}` }));
    let inside = 0;
    await Promise.all(
      Array.from({ length: 12 }, () =>
        withLockFile(path, async () => {
          assert.equal(++inside, 1);
          await sleep(1);
          inside--;
        }),
      ),
    );
  }
});

test("who waits to remove a dead lock looks again, and leaves its successor's alone", async (t) => {
  const path = join(folder(t), "lock");
  const { pid } = spawnSync(process.execPath, ["-e", ""]);
  const dead = JSON.stringify({ host: hostname(), pid, started: "", token: "dead" });
  writeFileSync(path, dead);
  let waiting;
  // Hold the right to remove the dead lock; meanwhile another process sees it, and it is replaced by a living one.
  await withLockFile(`${path}.dead`, async () => {
    waiting = withLockFile(path, async () => "taken");
    await sleep(50);
    writeFileSync(path, JSON.stringify({ host: hostname(), pid: process.pid, started: "", token: "alive" }));
  });
  await sleep(50);
  assert.equal(JSON.parse(readFileSync(path, "utf8")).token, "alive");
  rmSync(path);
  assert.equal(await waiting, "taken");
});

test("where the system tells when a process started, one with the dead holder's number is not taken for it", async (t) => {
  const path = join(folder(t), "lock");
  writeFileSync(path, JSON.stringify({ host: hostname(), pid: process.pid, started: "1", token: "former" }));
  const taken = withLockFile(path, async () => "taken", 100);
  if (existsSync("/proc/self/stat")) assert.equal(await taken, "taken");
  else await assert.rejects(taken, LedgerError);
});

test("a lock held by the living, by another host or by nobody we know is waited for, then reported", async (t) => {
  const path = join(folder(t), "lock");
  const self = { host: hostname(), pid: process.pid, started: "", token: "t" };
  for (const text of [JSON.stringify(self), JSON.stringify({ ...self, host: "elsewhere", pid: 4194304 }), "x"]) {
    writeFileSync(path, text);
    await assert.rejects(
      withLockFile(path, async () => "taken", 30),
      (error) => error instanceof LedgerError && error.message.includes(`remove ${path}`),
    );
    assert.equal(readFileSync(path, "utf8"), text);
  }
});

test("a process that only waits for a ticket's end may end itself", () => {
  const program = `
    import { Client } from "ldpbandits";
    const fetch = async () => Response.json({ arm: 0, name: "a", ticket: "t", curator: { mechanism: "laplace", epsilon: 1 }, default: 0, expires_in: 3600 });
    await new Client("https://agent.test", "e", { key: "k", limits: { epsilon: 1, budget: 1, window: 1 }, fetch }).decide();
  `;
  const run = spawnSync(process.execPath, ["--input-type=module", "-e", program], { cwd: fileURLToPath(new URL("..", import.meta.url)), timeout: 10_000 });
  assert.equal(run.status, 0, String(run.stderr));
});
