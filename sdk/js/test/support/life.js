/**
 * One life of a device whose rewards an agent would like to know, step by step:
 * `life.js '{ "url", "ledger", "rewards", "ahead", "steps": ["play", "exit"] }'`. With `sticky`, each pull has an
 * experiment of its own, else all have one.
 */

import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { isMainThread, Worker, workerData } from "node:worker_threads";

import { Client } from "ldpbandits";
import { fileStorage } from "ldpbandits/node";

const given = JSON.parse(isMainThread ? process.argv[2] : workerData);
const { url, ledger, rewards, sticky = false, ahead = 0, steps } = given;
const limits = { rewards: { kind: "range" }, epsilon: 1, budget: 1000, window: 86400 };
const clock = () => Date.now() / 1000 + ahead;

/** The clients of a storage: one, or one for each pull. */
function clientsOf(storage) {
  const names = sticky ? rewards.map((_, i) => `e${i}`) : ["e"];
  return names.map((name) => new Client(url, name, { key: "k", limits, storage, clock }));
}

let clients = clientsOf(fileStorage(ledger));
const each = async (task) => {
  for (const client of clients) await task(client);
};
/** What somebody else does with this ledger meanwhile. */
const others = JSON.stringify({ ...given, steps: ["pulls", "close"] });

const STEPS = {
  async play() {
    for (const [i, reward] of rewards.entries()) {
      const pull = await clients[i % clients.length].decide();
      if (reward !== null) await pull.observe(reward);
    }
  },
  pulls: () => each((client) => client.pulls()),
  decide: () => each((client) => client.decide()),
  flush: () => each((client) => client.flush()),
  leave: () => each((client) => client.leave()),
  close: () => each((client) => client.close()),
  keep: () => each((client) => client.close({ keep: true })),
  exit: () => process.exit(),
  kill: () => process.kill(process.pid, "SIGKILL"),
  terminate: () => process.kill(process.pid, "SIGTERM") && new Promise((done) => setTimeout(done, 60_000)),
  "another client": () => (clients = clientsOf(fileStorage(ledger))),
  "a child": () => once(fork(fileURLToPath(import.meta.url), [others]), "exit"),
  "a thread": () => once(new Worker(new URL(import.meta.url), { workerData: others }), "exit"),
};

for (const step of steps) await STEPS[step]();
