import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { LedgerError } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";

import { storageAt } from "../src/node/storage-at.js";
import { device } from "./support/agent.js";

const CHANGER = fileURLToPath(new URL("support/changer.js", import.meta.url));
const SQLITE = process.getBuiltinModule?.("node:sqlite");
const skip = SQLITE ? false : "this Node has no node:sqlite; `npm run test:sqlite` fetches one that has";

/** Each way of keeping a text, and whether this Node has it. */
const KINDS = { folder: { sqlite: null, skip: false }, "file of SQLite's": { sqlite: SQLITE, skip } };

function place(t) {
  const made = mkdtempSync(join(tmpdir(), "ldpbandits-"));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  return join(made, "ledger");
}

/** All that is under a path, with what is in it. */
const everything = (path) => (statSync(path).isDirectory() ? readdirSync(path).map((name) => [name, readFileSync(join(path, name), "utf8")]) : readFileSync(path));

/** Another process that marks the text so many times. */
const command = (path, mark, times) => [process.execPath, CHANGER, path, mark, String(times)];
const changer = (path, mark, times = 1) => {
  const [program, ...options] = command(path, mark, times);
  return spawnSync(program, options, { encoding: "utf8", env: { ...process.env, PATIENCE: "50" } });
};
const ended = (child) => new Promise((resolve) => child.on("close", (code) => resolve(code)));

for (const [kind, { sqlite, skip }] of Object.entries(KINDS)) {
  const storage = (path, options = {}) => storageAt(path, { sqlite, ...options });

  test(`a ${kind} keeps a text, for its owner's eyes only, and appears when it is complete`, { skip }, async (t) => {
    const path = join(place(t), "deep", "ledger");
    assert.equal(await storage(path).read(), null);
    await assert.rejects(storage(path).change(() => { throw new Error("no"); }), /no/);
    assert.ok(!existsSync(path));
    await storage(path).change((text) => `${text} and more`);
    await storage(path).change((text) => text);
    assert.equal(await storage(path).read(), "null and more");
    await storage(path).change((text) => `${text}: \u{1F408}`);
    await assert.rejects(storage(path).change(() => { throw new Error("no"); }), /no/);
    assert.equal(await storage(path).read(), "null and more: \u{1F408}");
    assert.deepEqual(readdirSync(join(path, "..")), ["ledger"], "nothing is left beside it");
    assert.equal(statSync(path).mode & 0o077, 0);
    if (!sqlite) assert.deepEqual(readdirSync(path).map((name) => name.replace(/.*\./, "")).sort(), ["current", "json"]);
  });

  test(`of changes to a ${kind} by many at once, none is lost`, { skip }, async (t) => {
    const path = place(t);
    const marks = "abcdefgh".split("");
    const children = marks.slice(0, 3).map((mark) => {
      const [program, ...options] = command(path, mark, 20);
      return ended(spawn(program, options, { stdio: "inherit" }));
    });
    const own = marks.slice(3).map((mark) => storage(path, { patience: 60_000 }).change((text) => `${text ?? ""}${mark}`));
    assert.deepEqual(await Promise.all(children), [0, 0, 0]);
    await Promise.all(own);
    const text = await storage(path).read();
    for (const [i, mark] of marks.entries()) assert.equal(text.split(mark).length - 1, i < 3 ? 20 : 1, mark);
  });

  test(`processes that cannot see each other, each number 1 of a namespace of its own, share a ${kind}`, { skip }, async (t) => {
    const [program, ...isolate] = ["unshare", ...(process.getuid?.() === 0 ? [] : ["--user"]), "--pid", "--fork"];
    if (spawnSync(program, [...isolate, "true"]).status !== 0) return t.skip("this system makes no namespaces");
    const path = place(t);
    await storage(path).change(() => "");
    const children = ["a", "b", "c"].map((mark) => spawn(program, [...isolate, ...command(path, mark, 20)], { stdio: "inherit" }));
    assert.deepEqual(await Promise.all(children.map(ended)), [0, 0, 0]);
    assert.equal((await storage(path).read()).length, 60);
  });

  test(`a ${kind} that is no ledger, or has lost its text, is refused and left as it is`, { skip }, async (t) => {
    const path = place(t);
    const broken = sqlite
      ? ["", "{", "SQLite format 3\0", "x".repeat(5000)].map((text) => () => writeFileSync(path, text))
      : [[], ["ledger.current"], ["none.current"], [`none.${crypto.randomUUID()}.current`]].map((names) => () => {
          mkdirSync(path);
          names.forEach((name) => writeFileSync(join(path, name), ""));
        });
    for (const [i, damage] of broken.entries()) {
      damage();
      const before = everything(path);
      const attempts = [() => storage(path).read(), () => storage(path).change(() => "new"), () => device(t, { storage: storage(path) }).client.decide()];
      for (const attempt of attempts) await assert.rejects(attempt, (error) => error instanceof LedgerError && /damaged, and left as it is/.test(error.message), `${i}`);
      assert.deepEqual(everything(path), before);
      rmSync(path, { recursive: true });
    }
  });
}

test("who was stopped between reading and writing a folder does not overwrite what others wrote: the edit is made anew", async (t) => {
  const path = place(t);
  const storage = storageAt(path, { sqlite: null });
  await storage.change(() => "-");
  let edits = 0;
  await storage.change((text) => {
    // Others go on meanwhile: nobody holds a lock that would stop them.
    if (edits++ < 2) assert.equal(changer(path, "x", 3).status, 0);
    return `${text}!`;
  });
  assert.equal(edits, 3);
  assert.equal(await storage.read(), "-xxxxxx!");
  assert.equal(readdirSync(path).length, 2, "what was written in vain is gone");
});

test("what a killed process left in a folder is removed by the next change", async (t) => {
  const path = place(t);
  const storage = storageAt(path, { sqlite: null });
  await storage.change(() => "-");
  const id = () => crypto.randomUUID();
  const current = readdirSync(path).find((name) => name.endsWith(".current")).split(".")[1];
  for (const name of [`${current}.${id()}.json`, `${id()}.${id()}.json`, `none.${id()}.json`]) writeFileSync(join(path, name), "half a te");
  writeFileSync(join(path, "mine.txt"), "not the ledger's");
  await storage.change((text) => `${text}!`);
  assert.equal(readdirSync(path).length, 3);
  assert.equal(await storage.read(), "-!");
});

test("while a process changes a file of SQLite's, others wait, and in the end are told", { skip }, async (t) => {
  const path = place(t);
  const storage = storageAt(path);
  await storage.change(() => "-");
  await storage.change((text) => {
    const waited = changer(path, "x");
    assert.equal(waited.status, 1);
    assert.match(waited.stderr, /LedgerError: the ledger .* is held by another process/);
    return `${text}!`;
  });
  assert.equal(changer(path, "x").status, 0);
  assert.equal(await storage.read(), "-!x");
});

test("a process killed within a change of a file of SQLite's leaves the text as it was, and blocks nobody", { skip }, async (t) => {
  const path = place(t);
  await storageAt(path).change(() => "-");
  const program = `
    import { storageAt } from ${JSON.stringify(new URL("../src/node/storage-at.js", import.meta.url).href)};
    await storageAt(${JSON.stringify(path)}).change(() => process.kill(process.pid, "SIGKILL"));`;
  assert.equal(spawnSync(process.execPath, ["--input-type=module", "-e", program]).signal, "SIGKILL");
  assert.equal(await storageAt(path).read(), "-");
  assert.equal(changer(path, "x").status, 0);
  assert.equal(await storageAt(path).read(), "-x");
});

test("a folder stays a folder under a Node with SQLite; a file is refused by one without, and left as it is", async (t) => {
  const path = place(t);
  await storageAt(path, { sqlite: null }).change(() => "old");
  await fileStorage(path).change((text) => `${text} and new`);
  assert.equal(await storageAt(path, { sqlite: null }).read(), "old and new");

  const file = place(t);
  writeFileSync(file, "SQLite format 3\0");
  await assert.rejects(storageAt(file, { sqlite: null }).read(), (error) => error instanceof LedgerError && /no node:sqlite .* 22\.13/.test(error.message));
  assert.equal(readFileSync(file, "utf8"), "SQLite format 3\0");
});

test("a Node with SQLite and one without that start one ledger together start one ledger", { skip }, async (t) => {
  for (let round = 0; round < 10; round++) {
    const path = place(t);
    const both = [SQLITE, null].map((sqlite) => storageAt(path, { sqlite }).change((text) => `${text ?? ""}x`).then(() => 1, (error) => {
      assert.ok(error instanceof LedgerError, error); // the one without has met a file
      return 0;
    }));
    const made = (await Promise.all(both)).reduce((a, b) => a + b);
    assert.equal(await storageAt(path).read(), "x".repeat(made));
  }
});

test("a place that cannot be written is a clear error", async (t) => {
  const file = place(t);
  writeFileSync(file, "");
  const { client } = device(t, { storage: fileStorage(join(file, "ledger")) });
  await assert.rejects(client.decide(), LedgerError);
});
