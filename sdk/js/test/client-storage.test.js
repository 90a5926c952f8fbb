import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { LedgerError, memoryStorage } from "ldpbandits";

import { device, handClock, LIMITS, until } from "./support/agent.js";

/** A storage that cannot be written while `full`. */
function disk() {
  const memory = memoryStorage();
  const storage = {
    ...memory,
    full: false,
    change: (edit) => {
      if (storage.full) throw new Error("QuotaExceededError");
      return memory.change(edit);
    },
  };
  return storage;
}

test("a storage that cannot be written: no arm is returned, nothing is sent", async (t) => {
  const storage = Object.assign(disk(), { full: true });
  const { agent, client } = device(t, { storage });
  await assert.rejects(client.decide(), (error) => error instanceof LedgerError && /cannot be locked or written/.test(error.message));
  assert.equal(agent.sent.length, 0);
});

test("a storage that does not call what is to change the ledger is an error, and the agent is not asked again and again", async (t) => {
  const { agent, client } = device(t, { storage: { read: async () => null, change: async () => {} } });
  await assert.rejects(client.decide(), (error) => error instanceof LedgerError && /the storage has not called/.test(error.message));
  assert.equal(agent.asked.length, 1);
});

test("a response that cannot be stored is not sent, and the pull stays open", async (t) => {
  const storage = disk();
  const { client } = device(t, { storage });
  const pull = await client.decide();
  storage.full = true;
  await assert.rejects(pull.observe(1), LedgerError);
  storage.full = false;
  assert.equal(await pull.observe(1), true);
});

test("what cannot be noted as leaving does not leave", async (t) => {
  const [storage, clock] = [disk(), handClock()];
  const { agent, client } = device(t, { storage, clock });
  await client.decide();
  storage.full = true;
  clock.time += 300;
  await assert.rejects(client.flush(), LedgerError);
  assert.equal(agent.sent.length, 0);
});

test("an acknowledgement that cannot be stored stands, and the response is not sent again at once", async (t) => {
  const storage = disk();
  let ahead = 0;
  const { agent, client } = device(t, { storage, clock: () => ahead + Date.now() / 1000 });
  await client.decide();
  agent.after = () => (storage.full = true);
  ahead += 300;
  assert.equal((await client.flush()).acknowledged, 1);
  await sleep(200);
  assert.equal(agent.sent.length, 1);
  storage.full = false;
  agent.after = () => undefined;
  ahead += 10; // until nobody can be sending it any more
  await client.flush();
  await until(() => agent.sent.length === 2);
  assert.equal(agent.counted.size, 1);
});

test("a damaged ledger stops everything and is left as it is", async (t) => {
  const whole = { version: 2, window: 0, spends: [], left: [], pulls: [], arms: [] };
  const damaged = [
    "", "null", "[]", "{", '"x"', "\0\0\0",
    { ...whole, window: null }, { ...whole, spends: [[0, -1]] }, { ...whole, spends: [[0, "1"]] }, { ...whole, spends: [[null, 1]] },
    { ...whole, spends: {} }, { ...whole, left: [[0, 0]] }, { ...whole, left: undefined }, { ...whole, pulls: [{}] }, { ...whole, pulls: null },
    { ...whole, arms: [{}] }, { ...whole, arms: undefined },
  ].map((text) => (typeof text === "string" ? text : JSON.stringify(text)));
  for (const text of damaged) {
    const storage = memoryStorage();
    await storage.change(() => text);
    const { agent, client } = device(t, { storage });
    for (const call of [() => client.decide(), () => client.flush(), () => client.pulls(), () => client.observe("t", 1)]) {
      await assert.rejects(call(), (error) => error instanceof LedgerError && /left as it is/.test(error.message), text);
    }
    assert.equal(await storage.read(), text);
    assert.equal(agent.asked.length, 0);
  }
});

test("a ledger of the former format is refused as of another version", async (t) => {
  for (const text of ['{"version":1,"window":0,"spends":[],"pulls":[]}', '{"ldpbandits":"{}"}', "{}"]) {
    const storage = memoryStorage();
    await storage.change(() => text);
    await assert.rejects(device(t, { storage }).client.decide(), /of another version, and left as it is/);
  }
});

test("a storage that takes its time will do", async (t) => {
  const memory = memoryStorage();
  let turn = Promise.resolve();
  const storage = {
    read: async () => (await sleep(1), memory.read()),
    change: (edit) => (turn = turn.then(() => sleep(1)).then(() => memory.change(edit)).catch((error) => error)).then((error) => {
      if (error) throw error;
    }),
  };
  const { client } = device(t, { storage, limits: { ...LIMITS, budget: 3 } });
  const results = await Promise.allSettled(Array.from({ length: 6 }, () => client.decide()));
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 3);
});

test("a page that may not store anything gets a LedgerError, when it asks for an arm and not before", async (t) => {
  const forbidden = { get() { throw Object.assign(new Error("The operation is insecure."), { name: "SecurityError" }); }, configurable: true };
  Object.defineProperties(globalThis, { document: { value: new EventTarget(), configurable: true }, localStorage: forbidden, indexedDB: forbidden });
  t.after(() => ["document", "localStorage", "indexedDB"].forEach((name) => delete globalThis[name]));
  const { agent, client } = device(t, { storage: undefined });
  await assert.rejects(client.decide(), (error) => error instanceof LedgerError && /may not store anything/.test(error.message));
  assert.equal(agent.asked.length, 0);
});
