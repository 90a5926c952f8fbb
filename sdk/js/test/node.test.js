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
import { Agent, device } from "./support/agent.js";

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

const spends = (ledger) => JSON.parse(readFileSync(ledger, "utf8")).spends;

test("a file keeps a text, for its owner's eyes only, and appears when it is complete", async (t) => {
  const file = join(folder(t), "deep", "ledger.json");
  const storage = fileStorage(file);
  assert.equal(await storage.read(), null);
  await assert.rejects(storage.change(() => { throw new Error("no"); }), /no/);
  assert.ok(!existsSync(file));
  await storage.change((text) => `${text} and more`);
  await storage.change((text) => text);
  assert.equal(await fileStorage(file).read(), "null and more");
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(join(file, "..")), ["ledger.json"]);
});

test("a client's pulls and spends outlive it in the file", async (t) => {
  const storage = () => fileStorage(file);
  const file = join(folder(t), "ledger.json");
  const first = device(t, { storage: storage() });
  await first.client.decide();
  await first.client.close({ keep: true });
  const second = device(t, { storage: storage(), agent: first.agent, clock: first.clock });
  assert.equal(await (await second.client.pulls())[0].observe(1), true);
  assert.equal(spends(file).length, 1);
});

test("a file that is no ledger, as one without a byte, is refused and left as it is", async (t) => {
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

/** Run a program that takes part in `e` of this agent, with this ledger; resolves to its exit code and how long it ran. */
async function run(url, ledger, program, limits = {}) {
  const text = `
    import { Client } from "ldpbandits";
    import { fileStorage } from "ldpbandits/node";
    const limits = ${JSON.stringify({ rewards: { kind: "range" }, epsilon: 1, budget: 9, window: 60, ...limits })};
    const client = new Client(${JSON.stringify(url)}, "e", { key: "k", limits, storage: fileStorage(${JSON.stringify(ledger)}) });
    ${program}
  `;
  const start = Date.now();
  const child = spawn(process.execPath, ["--input-type=module", "-e", text], { cwd: fileURLToPath(new URL("..", import.meta.url)), stdio: ["ignore", "inherit", "inherit"] });
  return { code: await new Promise((resolve) => child.on("close", resolve)), seconds: (Date.now() - start) / 1000 };
}

test("a process that has nothing else to do reports its pulls, reward or not, and ends", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  const ledger = join(folder(t), "ledger.json");
  const { code } = await run(url, ledger, "const pull = await client.decide(); await client.decide(); await pull.observe(1);");
  assert.equal(code, 0);
  assert.deepEqual([...agent.counted.keys()].sort(), ["ticket-1", "ticket-2"]);
  assert.deepEqual(JSON.parse(readFileSync(ledger, "utf8")).pulls, []);
});

test("a process does not wait for what the budget holds back", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  const ledger = join(folder(t), "ledger.json");
  const program = "await client.decide(); await new Promise((done) => setTimeout(done, 2100)); await client.decide();";
  const { code } = await run(url, ledger, program, { budget: 1, window: 2 });
  assert.equal(code, 0);
  assert.deepEqual([...agent.counted.keys()], ["ticket-1"]);
  assert.equal(JSON.parse(readFileSync(ledger, "utf8")).pulls.length, 1);
});

test("close reports the pulls of this client; what does not get through is sent at the next start", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  const ledger = join(folder(t), "ledger.json");
  agent.before = (path) => (path === "/v1/responses" ? [503, { code: "retry", message: "" }] : undefined);
  assert.equal((await run(url, ledger, "await client.decide(); await client.close();")).code, 0);
  assert.deepEqual([agent.sent.length, agent.counted.size], [1, 0]);
  agent.before = () => undefined;
  assert.equal((await run(url, ledger, "await client.flush(); await client.close();")).code, 0);
  assert.equal(agent.counted.size, 1);
  assert.equal(agent.sent[0], agent.sent[1]);
});

test("an agent that does not answer keeps a process for a few seconds only, and close({ keep: true }) asks nobody", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  agent.before = (path) => (path === "/v1/responses" ? new Promise(() => {}) : undefined);
  const ledgers = ["a", "b", "c"].map((name) => join(folder(t), name));
  const runs = await Promise.all([
    run(url, ledgers[0], "await client.decide();"),
    run(url, ledgers[1], "await client.decide(); await client.close();"),
    run(url, ledgers[2], "await client.decide(); await client.close({ keep: true });"),
  ]);
  for (const { code, seconds } of runs) assert.ok(code === 0 && seconds < 9, `${code} after ${seconds} s`);
  assert.equal(agent.sent.length, 2);
});

test("a process that was killed: what was due is sent at the next start, what was not can still be observed", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  const ledgers = ["due", "open"].map((name) => join(folder(t), name));
  for (const [i, ledger] of ledgers.entries()) {
    agent.decision.report_after = i ? 300 : 0.001;
    const { code } = await run(url, ledger, "await client.decide(); process.kill(process.pid, 'SIGKILL');");
    assert.equal(code, null);
  }
  assert.equal(agent.sent.length, 0);
  await Promise.all(ledgers.map((ledger) => run(url, ledger, "await client.flush(); for (const pull of await client.pulls()) await pull.observe(1); await client.close({ keep: true });")));
  assert.deepEqual([...agent.counted.keys()], ["ticket-1"]);
  const [due, open] = ledgers.map((ledger) => JSON.parse(readFileSync(ledger, "utf8")).pulls);
  assert.deepEqual([due.length, open.map(({ ticket, observed }) => [ticket, observed])], [0, [["ticket-2", true]]]);
});
