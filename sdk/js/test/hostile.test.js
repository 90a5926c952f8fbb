// A hostile agent may ask for what it likes, answer as it likes, and look at all that leaves a device: whether there is
// a request, when, how long it is, in which order, with which headers. None of that may depend on the rewards but
// through the responses: devices with one reward are compared with devices that have another, or none.
import assert from "node:assert/strict";
import { mock, test } from "node:test";

import { Agent, CTB, device, LIMITS } from "./support/agent.js";
import { site } from "./support/tabs.js";
import { differences } from "./support/two-sample.js";

const DEVICES = 20;
/** The probability that one comparison alarms falsely; there are 66. The seeds are fixed. */
const ALARM = 1e-5;

/** Randomness with a seed, for devices that must be the same tomorrow. */
function seeded(seed) {
  return (bytes) => {
    for (let i = 0; i < bytes.length; i++) {
      seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
      bytes[i] = seed >>> 24;
    }
    return bytes;
  };
}

const later = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const lost = () => {
  throw new TypeError("fetch failed");
};
const tick = async (seconds) => {
  mock.timers.tick(seconds * 1000);
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

/** What agents do: each is told before every decision. */
const AGENTS = {
  "a plain one": () => {},
  "one with the range [0.5, 1.5]": (agent) => (agent.decision.curator = { ...CTB, epsilon: 1e-6, transform: { kind: "range", low: 0.5, high: 1.5 } }),
  "one with a telling default": (agent) => (agent.decision.default = 1),
  "one that asks for responses at once": (agent) => (agent.decision.report_after = 0),
  "one in a hurry": (agent) => Object.assign(agent.decision, { report_after: 7, expires_in: 8 }),
  "one whose tickets end before they can leave": (agent) => Object.assign(agent.decision, { report_after: 1e-3, expires_in: 2e-3 }),
  "one with the smallest epsilon": (agent) => (agent.decision.curator = { ...CTB, epsilon: 1e-6 }),
  "one with a menu": (agent) => (agent.decision.curator = { ...CTB, epsilon: [0.1, 0.5, 1] }),
  "one that changes its specs": (agent) => {
    const specs = [CTB, { mechanism: "laplace", epsilon: 0.5 }, { mechanism: "laplace", epsilon: 1e-6 }];
    Object.assign(agent.decision, { curator: specs[agent.requests.length % 3], report_after: 20 + agent.requests.length });
  },
  "one that marks its arms": (agent) => Object.assign(agent.decision, { arm: agent.requests.length, name: `arm ${agent.requests.length}` }),
  "one that answers slowly": (agent) => (agent.before = (path) => (path === "/v1/responses" ? later(agent.sent.length % 2 ? 25 : 4) : undefined)),
  "one whose replies are cut": (agent) => (agent.after = (path) => path === "/v1/responses" && agent.sent.length % 3 && lost()),
  "one that refuses": (agent) => (agent.before = (path) => (path === "/v1/responses" ? [409, { code: "changed", message: "" }] : undefined)),
  "one that is down for a while": (agent) => (agent.before = (path) => path === "/v1/responses" && agent.sent.length < 4 && lost()),
  "one that answers no acceptance": (agent) => (agent.before = (path) => (path === "/v1/acceptances" ? [503, { code: "retry", message: "" }] : undefined)),
  "one that is slow to take acceptances": (agent) => (agent.before = (path) => (path === "/v1/acceptances" ? later(12) : undefined)),
  "one that refuses acceptances": (agent) => (agent.before = (path) => (path === "/v1/acceptances" ? [403, { code: "forged", message: "" }] : undefined)),
  "one whose decisions differ from its offers": (agent) => (agent.offer = agent.asked.length % 2 ? { report_after: 2 } : {}),
  "one with sticky arms": (agent) => (agent.decision.sticky = 60),
  "one that takes its arms back": (agent) => ((agent.decision.sticky = 60), (agent.offer = { retired: agent.asked.length % 2 ? [1] : [] })),
  "one that pauses now and then": (agent) => (agent.offer = { status: agent.asked.length === 1 ? "paused" : "running" }),
  "one that gives a ticket twice": (agent) => (agent.before = (path) => (path.endsWith("/decisions") && agent.requests.length % 2 ? [200, { ...agent.decision, ticket: "the same" }] : undefined)),
};

/** How rewards may differ: what the app observes of its three pulls, where it observes anything. */
const REWARDS = {
  "1 of each": [[1], [1], [1]],
  "0 of each": [[0], [0], [0]],
  "1 of the last": [, , [1]],
  "none": [],
  "far out of range, of the first": [[1e9]],
  "out of range, as an error": [[-1, { clip: false }], [2, { clip: false }]],
  "no number": [, [NaN], [1]],
};

/**
 * Everything that leaves one device, as features. It asks for three arms, with their rewards five seconds later, and is
 * left after 90 seconds, as a page or as a process: by then the moment of the first has come, if the agent
 * does not say otherwise.
 */
async function trace(t, hostile, rewards, seed, { onLeave, isPage = Boolean(onLeave), limits = LIMITS }) {
  const random = mock.method(crypto, "getRandomValues", seeded(seed));
  const agent = new Agent();
  const leaving = [];
  const start = Date.now();
  const fetch = (url, request) => {
    leaving.push({ time: (Date.now() - start) / 1000, url, ...request });
    return agent.fetch(url, request);
  };
  const { client } = device(t, { agent, fetch, limits, clock: undefined, ...(isPage && { storage: site().tab().storage, onLeave }) });
  for (let i = 0; i < 3; i++) {
    agent.decision.report_after = i ? 300 : 40;
    hostile(agent);
    let pull;
    void client.decide().then((decided) => (pull = decided), () => {});
    await tick(5);
    if (rewards[i]) void pull?.observe(...rewards[i]).catch(() => {});
    await tick(5);
  }
  for (let i = 0; i < 60; i++) await tick(1);
  void client.close();
  for (let i = 0; i < 15; i++) await tick(20);
  random.mock.restore();
  return features(leaving);
}

/** What an agent can see of a device, but for what the responses say. */
function features(leaving) {
  const seen = { requests: leaving.length };
  leaving.forEach(({ time, url, body, signal, ...others }, i) => {
    const { response, ...rest } = JSON.parse(body ?? "{}");
    seen[`time of ${i}`] = time;
    seen[`what is ${i}`] = JSON.stringify([url, rest, others]); // with it the order
    seen[`size of ${i}`] = (body ?? "").length - JSON.stringify(response ?? "").length;
  });
  return seen;
}

/** So many devices with these rewards, each with its own seed. */
async function sample(t, hostile, rewards, first, options) {
  const traces = [];
  for (let i = 0; i < DEVICES; i++) traces.push(await trace(t, hostile, rewards, first + i, options));
  return traces;
}

for (const onLeave of [undefined, "send", "next-visit"]) {
  test(`whatever the agent does, nothing that leaves a ${onLeave ? `page with ${onLeave}` : "process"} but its responses depends on the rewards`, async (t) => {
    mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1.763e12 });
    t.after(() => mock.timers.reset());
    const rewards = Object.entries(REWARDS);
    for (const [n, [name, hostile]] of Object.entries(AGENTS).entries()) {
      const [[some, one], [others, other]] = [rewards[n % 3], rewards[3 + (n % 4)]];
      const [ones, rest] = [await sample(t, hostile, one, 1000, { onLeave }), await sample(t, hostile, other, 5000, { onLeave })];
      assert.deepEqual(differences(ones, rest, ALARM), [], `${name}: ${some} against ${others}`);
    }
  });
}

test("the comparison can fail: responses at once tell that there was a reward, and a range without clip which one", async (t) => {
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1.763e12 });
  t.after(() => mock.timers.reset());
  const atOnce = { isPage: false, limits: { ...LIMITS, atOnce: true } };
  const hurry = AGENTS["one that asks for responses at once"];
  const leak = differences(await sample(t, hurry, [[1]], 1000, atOnce), await sample(t, hurry, [], 5000, atOnce), ALARM);
  assert.ok(leak.includes("time of 3") && leak.includes("what is 3"), leak.join());

  const rewards = { kind: "range", low: 0.5, high: 1.5 };
  const trap = (agent) => (hurry(agent), Object.assign(agent.decision, { default: 1, curator: { ...CTB, epsilon: 1e-6, transform: rewards } }));
  const trusting = { isPage: false, limits: { ...atOnce.limits, rewards } };
  for (const [clip, tells] of [[false, true], [true, false]]) {
    const [one, zero] = [await sample(t, trap, [[1, { clip }]], 1000, trusting), await sample(t, trap, [[0, { clip }]], 5000, trusting)];
    assert.equal(differences(one, zero, ALARM).length > 0, tells, "with clip both are answered at once");
  }
});
