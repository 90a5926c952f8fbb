/** Decide until the device's owner's limits say no, and print how often it worked: `spender.js LEDGER NUMBER`. */

import { Client, LimitError } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";

const [ledger, number] = process.argv.slice(2);
let tickets = 0;
const curator = { mechanism: "bernoulli", epsilon: 0.1 };
const terms = { curator, default: 0, report_after: 300, sticky: 0 };
const replies = {
  "/offer": () => ({ ...terms, status: "running", shipped: null, retired: [], max_age: 60 }),
  "/decisions": () => ({ ...terms, arm: 0, name: "a", ticket: `${number}-${tickets++}`, expires_in: 3600 }),
  "/v1/acceptances": () => ({ status: "accepted" }),
};
const fetch = async (url) => Response.json(Object.entries(replies).find(([path]) => url.endsWith(path))[1]());
const limits = { rewards: { kind: "range" }, epsilon: 1, budget: 4, window: 86400 };
const client = new Client("https://agent.test", "e", { key: "k", limits, storage: fileStorage(ledger), fetch });
let arms = 0;
try {
  for (;;) {
    await client.decide();
    process.stdout.write("."); // before the next: whoever kills us knows what was returned
    arms++;
  }
} catch (error) {
  if (!(error instanceof LimitError)) throw error;
}
