import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, LedgerError, memoryStorage } from "ldpbandits";

import { Agent, bytesDrawn, device, KEY, LIMITS, state, until, URL_ } from "./support/agent.js";

test("a storage that cannot be written: no arm is returned, nothing is sent", async (t) => {
  const storage = { ...memoryStorage(), setItem: () => { throw new Error("QuotaExceededError"); } };
  const { agent, client } = device(t, { storage });
  const bytes = await bytesDrawn(t, () =>
    assert.rejects(client.decide(), (error) => error instanceof LedgerError && /cannot be locked or written/.test(error.message)),
  );
  assert.equal(bytes, 0);
  assert.equal(agent.sent.length, 0);
});

test("a response that cannot be stored is not sent, and the pull stays open", async (t) => {
  const storage = memoryStorage();
  const { agent, client } = device(t, { storage });
  const pull = await client.decide();
  const { setItem } = storage;
  storage.setItem = () => { throw new Error("QuotaExceededError"); };
  await assert.rejects(pull.observe(1), LedgerError);
  assert.equal(agent.sent.length, 0);
  storage.setItem = setItem;
  assert.equal(await pull.observe(1), true);
});

test("an acknowledgement that cannot be stored stands, and the response is not sent again at once", async (t) => {
  const storage = memoryStorage();
  const { agent, client } = device(t, { storage, clock: () => Date.now() / 1000 });
  const pull = await client.decide();
  const { setItem } = storage;
  agent.after = () => {
    storage.setItem = () => { throw new Error("QuotaExceededError"); };
  };
  assert.equal(await pull.observe(1), true);
  await sleep(200);
  assert.equal(agent.sent.length, 1);
  storage.setItem = setItem;
  agent.after = () => undefined;
  await until(() => agent.sent.length === 2);
  assert.equal(agent.counted.size, 1);
});

test("a damaged ledger stops everything and is left as it is", async (t) => {
  const damaged = [
    "", "null", "[]", "{", "{}", '"x"', '{"version":2,"window":0,"spends":[],"pulls":[]}',
    '{"version":1,"window":0,"spends":[[0,-1]],"pulls":[]}', '{"version":1,"window":0,"spends":[[0,"1"]],"pulls":[]}',
    '{"version":1,"window":0,"spends":[[null,1]],"pulls":[]}', '{"version":1,"window":0,"spends":{},"pulls":[]}',
    '{"version":1,"window":0,"spends":[],"pulls":[{}]}', '{"version":1,"window":0,"spends":[],"pulls":null}',
  ];
  for (const text of damaged) {
    const storage = memoryStorage();
    storage.setItem("ldpbandits", text);
    const { agent, client } = device(t, { storage });
    for (const call of [() => client.decide(), () => client.flush(), () => client.pulls(), () => client.observe("t", 1)]) {
      await assert.rejects(call(), LedgerError, text);
    }
    assert.equal(storage.getItem("ldpbandits"), text);
    assert.equal(agent.sent.length, 0);
  }
});

test("a storage whose methods return promises will do", async (t) => {
  const memory = memoryStorage();
  const storage = Object.fromEntries(
    Object.entries(memory).map(([name, method]) => [name, async (...args) => (await sleep(1), method(...args))]),
  );
  const { client } = device(t, { storage, limits: { ...LIMITS, budget: 3 } });
  const results = await Promise.allSettled(Array.from({ length: 6 }, () => client.decide()));
  assert.equal(results.filter(({ status }) => status === "fulfilled").length, 3);
});

/** Make this process look like a web page, until the test ends. */
function page(t, locks) {
  const localStorage = memoryStorage();
  Object.assign(globalThis, { document: {}, localStorage });
  const had = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { locks }, configurable: true });
  t.after(() => {
    delete globalThis.document;
    delete globalThis.localStorage;
    if (had) Object.defineProperty(globalThis, "navigator", had);
    else delete globalThis.navigator;
  });
  const client = new Client(URL_, "buttons", { key: KEY, limits: LIMITS, fetch: new Agent().fetch });
  t.after(() => client.close());
  return { client, localStorage };
}

test("on a web page the ledger is in localStorage, under the browser's lock", async (t) => {
  const asked = [];
  const { client, localStorage } = page(t, { request: (name, task) => (asked.push(name), task()) });
  await client.decide();
  assert.equal((await state(localStorage)).spends.length, 1);
  assert.deepEqual(asked, ["ldpbandits"]);
});

test("a web page that has no lock spends nothing: two tabs could spend the same budget", async (t) => {
  const { client, localStorage } = page(t, undefined);
  await assert.rejects(client.decide(), LedgerError);
  assert.equal(await localStorage.getItem("ldpbandits"), null);
});
