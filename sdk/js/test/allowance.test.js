/** Allowances: what a site's backend has signed travels with the question for an arm, and with nothing else. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ParameterError } from "ldpbandits";

import { Agent, device } from "./support/agent.js";

test("an allowance travels with each decision, and with no response", async (t) => {
  const agent = new Agent();
  let signed = 0;
  const { client } = device(t, { agent, allowance: async () => `signed-${++signed}` });
  await (await client.decide()).observe(1);
  await client.decide();
  await client.leave();
  const said = agent.requests.filter(({ path }) => path.endsWith("/decisions")).map(({ body }) => body);
  assert.deepEqual(said, ['{"allowance":"signed-1"}', '{"allowance":"signed-2"}']);
  assert.ok(agent.sent.length === 2 && agent.sent.every((body) => !body.includes("signed")));
});

test("without an allowance the question is as it always was", async (t) => {
  const { agent, client } = device(t);
  await client.decide();
  assert.equal(agent.asked[0].body, "{}");
});

test("what is no text is refused before anybody is asked", async (t) => {
  for (const allowance of [5, "", null, () => 5]) {
    const { agent, client } = device(t, { allowance });
    await assert.rejects(client.decide(), ParameterError);
    assert.equal(agent.asked.length, 0);
  }
});

test("a site that cannot sign leaves the device as it is", async (t) => {
  const { agent, client, storage } = device(t, { allowance: () => Promise.reject(new Error("down")) });
  await assert.rejects(client.decide(), /down/);
  assert.equal(agent.asked.length, 0);
  assert.equal(await storage.read(), null);
});
