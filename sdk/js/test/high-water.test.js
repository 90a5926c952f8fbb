// A ledger that went back, is gone, or is another one than before is refused; a healthy one never is.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { LedgerError, memoryStorage } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";

import { withHighWater } from "../src/node/high-water.js";
import { storageAt } from "../src/node/storage-at.js";
import { Agent, device } from "./support/agent.js";
import { start, STEPS, takePart } from "./support/ledgers.js";

const KILLED = fileURLToPath(new URL("support/killed.js", import.meta.url));
const OLDER = /is older than it was, as after a restored backup: put the newest one back\. To go on .* delete .*\.high-water and start/;
const GONE = /is gone, and with it what was spent: put it back\. To begin anew .* delete .*\.high-water and start/;
const REPLACED = /was deleted or replaced while in use: put it back, or start this program again/;

const refused = (why) => (error) => error instanceof LedgerError && why.test(error.message) && !error.message.includes("\n");

function place(t) {
  const made = mkdtempSync(join(tmpdir(), "ldpbandits-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return join(made, "ledger");
}

const markOf = (path) => `${path}.high-water`;

/** Start a program with this ledger, and spend. */
async function use(path) {
  const client = start(path);
  await client.decide();
  await client.close({ keep: true });
}

/** Put a copy of a ledger, file or folder, in the place of another. */
function copy(from, to) {
  rmSync(to, { recursive: true, force: true });
  cpSync(from, to, { recursive: true });
}

/** The ledger as it is before and after each step, beside it, with its mark. */
async function snapshots(path) {
  const taken = [];
  const take = () => {
    const to = `${path}-${taken.length}`;
    copy(path, to);
    taken.push({ ledger: to, mark: existsSync(markOf(path)) ? readFileSync(markOf(path)) : Buffer.alloc(0) });
  };
  await fileStorage(path).change(() => JSON.stringify({ version: 2, window: 0, spends: [], left: [], pulls: [], arms: [] }));
  take();
  await takePart(path, take);
  return taken;
}

test("a restored backup is refused if it lacks what was spent or has left; with the mark deleted, the owner goes on", async (t) => {
  const path = place(t);
  const taken = await snapshots(path);
  for (const [older, { ledger }] of taken.entries()) {
    for (const [newer, { mark }] of taken.entries()) {
      if (newer <= older) continue;
      copy(ledger, path);
      writeFileSync(markOf(path), mark);
      if (STEPS.slice(older, newer).some(({ told }) => told)) {
        await assert.rejects(fileStorage(path).read(), refused(OLDER));
        await assert.rejects(start(path).decide(), refused(OLDER));
        rmSync(markOf(path));
      }
      await use(path);
    }
  }
});

test("one ticket is answered once, however often the ledger is restored", async (t) => {
  const path = place(t);
  const agent = new Agent();
  const first = device(t, { storage: fileStorage(path), agent });
  const { ticket } = await first.client.decide();
  await first.client.close({ keep: true });
  copy(path, `${path}.backup`);
  first.clock.time += 301;
  for (let i = 0; i < 12; i++) {
    copy(`${path}.backup`, path);
    const { client } = device(t, { storage: fileStorage(path), agent, clock: first.clock });
    if (i) await assert.rejects(client.flush(), refused(OLDER));
    else assert.equal((await client.flush()).acknowledged, 1);
  }
  assert.deepEqual(agent.sent.map((body) => JSON.parse(body).ticket), [ticket]);
});

for (const withMark of [true, false]) {
  test(`a ledger deleted under a running client, ${withMark ? "without" : "with"} its mark, gives no fresh budget; put back, it goes on`, async (t) => {
    const path = place(t);
    const client = start(path);
    await client.decide();
    renameSync(path, `${path}.away`);
    if (!withMark) rmSync(markOf(path));
    for (const call of [() => client.decide(), () => client.spent(), () => client.flush()]) await assert.rejects(call, refused(REPLACED));
    if (withMark) await assert.rejects(start(path).decide(), refused(GONE));
    assert.ok(!existsSync(path));
    renameSync(`${path}.away`, path);
    await client.decide();
    assert.equal(await client.spent(), 2);
  });
}

test("a ledger replaced under a running client is refused, be it another with more spent or an older one", async (t) => {
  const [path, other] = [place(t), place(t)];
  const client = start(path);
  await client.decide();
  for (let i = 0; i < 5; i++) await use(other);
  renameSync(path, `${path}.away`);
  cpSync(other, path, { recursive: true });
  await assert.rejects(client.decide(), refused(REPLACED));

  const text = memoryStorage();
  const running = withHighWater(text, path); // the same file or folder, of which the text goes back
  const [before, after] = [[[1, 1]], [[1, 1], [2, 1]]].map((spends) => JSON.stringify({ spends, left: [] }));
  rmSync(markOf(path), { force: true });
  await running.change(() => after);
  rmSync(markOf(path));
  await text.change(() => before);
  await assert.rejects(running.read(), refused(OLDER), "the running client remembers");
});

test("a ledger is healthy after kill -9 before every call of the file system", async (t) => {
  let kills = 0;
  for (let done = false; !done; ) {
    const numbers = Array.from({ length: 4 }, (_, i) => kills + i + 1); // some at a time, each with a ledger of its own
    const ends = await Promise.all(numbers.map(async (number) => {
      const path = place(t);
      const child = spawn(process.execPath, [KILLED, path, String(number)], { stdio: ["ignore", "ignore", "inherit"] });
      const end = await new Promise((resolve) => child.on("close", (code, signal) => resolve(signal ?? code)));
      await use(path);
      await use(path);
      return end;
    }));
    assert.ok(ends.every((end) => end === "SIGKILL" || end === 0), String(ends));
    kills += ends.filter((end) => end === "SIGKILL").length;
    done = ends.includes(0);
  }
  assert.ok(kills > 60, `${kills} kills`);
});

test("a ledger is healthy after a loss of power: it is on disk, of its mark nothing is, or any older one, or any part of the newest", async (t) => {
  const path = place(t);
  const taken = await snapshots(path);
  for (const [newest, { ledger }] of taken.entries()) {
    const marks = taken.slice(0, newest + 1).map(({ mark }) => mark);
    const torn = marks.slice(1).flatMap((mark, i) => Array.from(mark, (_, cut) => Buffer.concat([mark.subarray(0, cut), marks[i].subarray(cut)])));
    copy(ledger, path);
    for (const mark of [...marks, ...torn, Buffer.alloc(164), Buffer.from("0".repeat(164))]) {
      writeFileSync(markOf(path), mark);
      await fileStorage(path).read();
    }
  }
  await use(path);
});

test("a ledger of the version before has no mark, gets one when it changes, and may be shared with that version", async (t) => {
  const path = place(t);
  await use(path);
  rmSync(markOf(path));
  await fileStorage(path).read();
  assert.ok(!existsSync(markOf(path)), "to read changes nothing");
  await use(path);
  const before = readFileSync(markOf(path));
  await start(path, storageAt(path)).decide(); // as the version before does
  assert.deepEqual(readFileSync(markOf(path)), before);
  await use(path);
  assert.equal(JSON.parse(await fileStorage(path).read()).spends.length, 4);
});

test("a ledger may be moved, copied and linked: a link leads to the mark of the ledger itself", async (t) => {
  const path = place(t);
  await use(path);
  for (const withMark of [false, true]) {
    const other = place(t);
    copy(path, other);
    if (withMark) copy(markOf(path), markOf(other));
    await use(other);
    const link = place(t);
    symlinkSync(path, link);
    await use(link);
    unlinkSync(link);
    symlinkSync(other, link);
    await use(path);
    await use(link);
    assert.ok(!existsSync(markOf(link)));
  }
});

test("a mark that cannot be read or written refuses nobody, and one that is a link to something else is not followed", async (t) => {
  const path = place(t);
  await use(path);
  assert.equal(statSync(markOf(path)).mode & 0o077, 0, "for the same eyes as the ledger");
  rmSync(markOf(path));
  const other = `${path}.precious`;
  writeFileSync(other, "not a mark");
  symlinkSync(other, markOf(path));
  await use(path);
  assert.equal(readFileSync(other, "utf8"), "not a mark");
  assert.ok(lstatSync(markOf(path)).isSymbolicLink());
  rmSync(markOf(path));
  mkdirSync(markOf(path));
  await use(path);
});

test("who starts while another makes the ledger takes it, although by then there is a mark", async (t) => {
  const path = place(t);
  const slow = storageAt(path);
  const whileAnother = async (task) => {
    const text = await task();
    await use(path);
    return text;
  };
  const storage = withHighWater({ read: () => whileAnother(slow.read), change: (edit) => slow.change(edit) }, path);
  for (const spends of [1, 2]) {
    assert.equal(JSON.parse((await storage.read()) ?? '{"spends":[]}').spends.length, spends - 1);
    assert.equal(JSON.parse(await fileStorage(path).read()).spends.length, spends);
  }
});

test("changes at the same moment through several storages meet no ledger that is behind", async (t) => {
  const path = place(t);
  const shared = fileStorage(path);
  const clients = Array.from({ length: 6 }, (_, i) => start(path, i % 2 ? shared : fileStorage(path)));
  await Promise.all(clients.map(async (client) => { for (let i = 0; i < 4; i++) await client.decide(); }));
  assert.equal(JSON.parse(await shared.read()).spends.length, 24);
});

test("Node's default, a ledger in memory, warns once, when it is first used; memoryStorage() by name does not", () => {
  const run = (storage) => spawnSync(process.execPath, ["--input-type=module", "-e", `
    import { Client, memoryStorage } from "ldpbandits";
    import { Agent, KEY, LIMITS, URL_ } from "./test/support/agent.js";
    const { fetch } = new Agent();
    const made = (experiment) => new Client(URL_, experiment, { key: KEY, limits: LIMITS, fetch, ${storage} });
    const [one, other] = [made("a"), made("b")];
    console.warn("begun");
    for (const client of [one, other, one]) await client.decide();
  `], { cwd: fileURLToPath(new URL("..", import.meta.url)), encoding: "utf8" });
  assert.equal(run("").stderr, "begun\nldpbandits: the ledger is in memory, and each start has a new budget, see fileStorage\n");
  assert.equal(run("storage: memoryStorage()").stderr, "begun\n");
});
