/** A device that takes part once, in steps that change its ledger. */

import { Client } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";

import { Agent, KEY, LIMITS, URL_ } from "./agent.js";

/** Each changes the ledger, or only what is in it; after `told` it says that more was spent or has left than before. */
export const STEPS = [
  { step: (device) => device.decide(), told: true },
  { step: async (device) => (await device.pulls())[0].observe(1), told: false },
  { step: (device) => device.leave(), told: true },
  { step: (device) => device.decide(), told: true },
  { step: (device) => device.close(), told: true },
];

let number = 0;

/** A client with this ledger, as a program that starts has it; no two are given the same ticket. */
export function start(ledger, storage = fileStorage(ledger)) {
  const agent = new Agent();
  agent.before = (path) => (path.endsWith("/decisions") ? [200, { ...agent.decision, ticket: crypto.randomUUID() }] : undefined);
  return new Client(URL_, `e${number++}`, { key: KEY, limits: { ...LIMITS, budget: 1000 }, storage, fetch: agent.fetch });
}

/** Take all steps, and call `after` with each that was taken. */
export async function takePart(ledger, after = () => undefined) {
  const client = start(ledger);
  for (const { step } of STEPS) {
    await step(client);
    await after();
  }
}
