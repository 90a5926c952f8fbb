import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { fileStorage } from "ldpbandits/node";

import { Agent, device, state } from "./support/agent.js";

const SPENDER = fileURLToPath(new URL("support/spender.js", import.meta.url));

function folder(t) {
  const made = mkdtempSync(join(tmpdir(), "ldpbandits-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return made;
}

/** Run a spender; resolves to how many arms it was given, also if it was killed so many milliseconds after the first. */
function spend(ledger, number, killAfter = Infinity) {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [SPENDER, ledger, String(number)], { stdio: ["ignore", "pipe", "inherit"] });
    let arms = 0;
    child.stdout.on("data", (text) => {
      if (!arms && Number.isFinite(killAfter)) setTimeout(() => child.kill("SIGKILL"), killAfter);
      arms += text.length;
    });
    child.on("close", (code) => {
      if (code === 0 || Number.isFinite(killAfter)) resolve(arms);
      else reject(new Error(`spender ended with ${code}`));
    });
  });
}

const ledgerOf = (path) => state(fileStorage(path));

test("a client's pulls and spends outlive it on the disk", async (t) => {
  const path = join(folder(t), "ledger");
  const first = device(t, { storage: fileStorage(path) });
  await first.client.decide();
  await first.client.close({ keep: true });
  const second = device(t, { storage: fileStorage(path), agent: first.agent, clock: first.clock });
  assert.equal(await (await second.client.pulls())[0].observe(1), true);
  assert.equal((await ledgerOf(path)).spends.length, 1);
});

test("processes that share a ledger are given exactly what the budget allows", async (t) => {
  const ledger = join(folder(t), "ledger");
  const arms = await Promise.all([1, 2, 3, 4].map((number) => spend(ledger, number)));
  assert.equal(arms.reduce((a, b) => a + b), 40);
  assert.equal((await ledgerOf(ledger)).spends.length, 40);
});

test("processes killed at any moment leave a ledger that counts every arm they were given, and block nobody", async (t) => {
  const home = folder(t);
  const ledger = join(home, "ledger");
  let arms = 0;
  for (let round = 0; round < 4; round++) {
    const killed = [0, 3, 8].map((delay, i) => spend(ledger, `${round}-${i}`, delay + round));
    arms += (await Promise.all(killed)).reduce((a, b) => a + b);
  }
  arms += await spend(ledger, "last");
  assert.ok(arms <= 40, `${arms} arms`);
  assert.equal((await ledgerOf(ledger)).spends.length, 40);
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
  const ledger = join(folder(t), "ledger");
  const { code } = await run(url, ledger, "const pull = await client.decide(); await client.decide(); await pull.observe(1);");
  assert.equal(code, 0);
  assert.deepEqual([...agent.counted.keys()].sort(), ["ticket-1", "ticket-2"]);
  assert.deepEqual((await ledgerOf(ledger)).pulls, []);
});

test("a process does not wait for what the budget holds back", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  const ledger = join(folder(t), "ledger");
  const program = "await client.decide(); await new Promise((done) => setTimeout(done, 2100)); await client.decide();";
  const { code } = await run(url, ledger, program, { budget: 1, window: 2 });
  assert.equal(code, 0);
  assert.deepEqual([...agent.counted.keys()], ["ticket-1"]);
  assert.equal((await ledgerOf(ledger)).pulls.length, 1);
});

test("close reports the pulls of this client; what does not get through is sent at the next start", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  const ledger = join(folder(t), "ledger");
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
  const [due, open] = (await Promise.all(ledgers.map(ledgerOf))).map(({ pulls }) => pulls);
  assert.deepEqual([due.length, open.map(({ ticket, observed }) => [ticket, observed])], [0, [["ticket-2", true]]]);
});
