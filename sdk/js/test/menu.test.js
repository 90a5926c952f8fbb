import assert from "node:assert/strict";
import { test } from "node:test";

import { LimitError, ServerError } from "ldpbandits";

import { Agent, CTB, device, LIMITS, state } from "./support/agent.js";

test("of several epsilons the largest within the limits is picked before there is a reward, charged and sent", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { ...CTB, epsilon: [0.25, 1, 4] };
  const { client, storage, clock } = device(t, { agent, limits: { ...LIMITS, budget: 2.5 } });
  const picked = [];
  for (let i = 0; i < 4; i++) {
    const pull = await client.decide();
    picked.push(pull.epsilon);
    assert.equal((await state(storage)).spends.at(-1)[1], pull.epsilon);
    await pull.observe(1);
  }
  assert.deepEqual(picked, [1, 1, 0.25, 0.25]);
  clock.time += 300;
  await client.flush();
  assert.deepEqual(agent.sent.map((body) => JSON.parse(body).epsilon), picked);
  await assert.rejects(client.decide(), LimitError);
});

test("an owner may name one of the epsilons, and one that is not offered costs nothing", async (t) => {
  const agent = new Agent();
  agent.decision.curator = { ...CTB, epsilon: [0.25, 1, 4] };
  const { client, storage } = device(t, { agent });
  assert.equal((await client.decide({ epsilon: 0.25 })).epsilon, 0.25);
  await assert.rejects(client.decide({ epsilon: 0.5 }), (error) => error instanceof LimitError && /4, 1, 0.25/.test(error.message));
  await assert.rejects(client.decide({ epsilon: 4 }), LimitError);
  assert.equal((await state(storage)).spends.length, 1);
});

test("a menu that makes no sense is refused, and costs nothing", async (t) => {
  const nonsense = [[], [1, 0.5], [1, 1], [0.5, NaN], ["a"], [-1, 1], [[1]], Array(9).fill(0).map((_, i) => (i + 1) / 10)];
  const menus = [...nonsense.map((epsilon) => ({ ...CTB, epsilon })), { mechanism: "laplace", epsilon: [0.5, 1] }];
  for (const curator of menus) {
    const agent = new Agent();
    agent.decision.curator = curator;
    const { client, storage } = device(t, { agent });
    await assert.rejects(client.decide(), ServerError, JSON.stringify(curator));
    assert.equal(await storage.read(), null);
  }
});
