// What a user of TypeScript writes; it is compiled, not run. Each expected error is one that the types must give.

import { Client, LimitError, ServerError, curatorFromSpec, memoryStorage, registerWorker } from "ldpbandits";
import type { CuratorSpec, Flushed, Limits, Pull, Storage } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";
import { respondNotPrivate } from "ldpbandits/not-private";
import { LDPBanditsProvider } from "ldpbandits/openfeature";
import { useDecision } from "ldpbandits/react";
import type { Provider } from "@openfeature/web-sdk";

const spec: CuratorSpec = curatorFromSpec({ mechanism: "laplace", epsilon: 1 }).spec;
const response: number = curatorFromSpec(spec).respond(0.5, { clip: true });
const words: number = respondNotPrivate(curatorFromSpec(spec), 0.5, (count) => new BigUint64Array(count));
const limits: Limits = { rewards: { kind: "range", low: 0, high: 1 }, epsilon: 1, budget: 5, window: 86400 };
const storages: Storage[] = [memoryStorage(), fileStorage("ledger")];

export async function play(): Promise<boolean> {
  const client = new Client("https://agent.test", "buttons", { key: "k", limits, storage: storages[0] });
  const pull: Pull = await client.decide();
  const flushed: Flushed = await client.flush();
  const refused: ServerError[] = flushed.refused;
  const meter: number[] = [await client.spent(), await client.remaining()];
  try {
    await client.close({ keep: silent === undefined || unsafe === undefined });
    return await pull.observe(response + words + refused.length + meter.length);
  } catch (error) {
    return error instanceof LimitError && error.code === "opted_out";
  }
}

export async function visit(): Promise<boolean> {
  const client = new Client("https://agent.test", "buttons", { key: "k", limits, worker: registerWorker("/worker.js"), consent: "required" });
  const end: () => void = client.onConsent(() => {});
  await client.optIn();
  await client.decide({ qa: "eager" });
  const kept: boolean = await client.observeLatest(1, { clip: false });
  await client.forget();
  end();
  return kept;
}
// @ts-expect-error: onLeave is one of two
export const unsure = () => new Client("https://agent.test", "buttons", { key: "k", limits, onLeave: "later" });

export function Button(client: Client): string {
  const { value, observe, error } = useDecision(client, { plain: 1, eager: 2 }, 0);
  const number: number = value;
  // @ts-expect-error: a reward is a number
  void observe("1");
  return error?.message ?? String(number);
}
export const provider = (client: Client): Provider => new LDPBanditsProvider({ button: { client, values: { plain: "Buy" }, event: "buy" } });
// @ts-expect-error: a flag has values
export const valueless = (client: Client) => new LDPBanditsProvider({ button: { client } });

// @ts-expect-error: a reward is a number
curatorFromSpec(spec).respond("1");
// @ts-expect-error: limits say what rewards are
const silent: Limits = { epsilon: 1, budget: 5, window: 86400 };
// @ts-expect-error: localStorage is no storage: tabs see each other's writes late
const unsafe: Storage = localStorage;
// @ts-expect-error: limits are not optional
new Client("https://agent.test", "buttons", { key: "k" });
// @ts-expect-error: a spec cannot be changed
spec.epsilon = 50;
