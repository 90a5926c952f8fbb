// A device in JavaScript: takes part with the SDK against a real server, loses replies, comes back, and runs out of budget.
//   node take_part.mjs URL EXPERIMENT KEY LEDGER PULLS REWARDS [ALLOWANCES]
import { Client, LimitError } from "../../sdk/js/src/index.js";
import { fileStorage } from "../../sdk/js/src/node/index.js";

const [url, experiment, key, ledger, pulls, rewards, signed = "null"] = process.argv.slice(2);
const allowances = JSON.parse(signed);
let sent = 0;
/** Loses the reply to every other response: the server has counted, the device does not know. */
const lossy = async (...request) => {
  const reply = await fetch(...request);
  if (String(request[0]).endsWith("/v1/responses") && (sent += 1) % 2) throw new TypeError("the reply was lost");
  return reply;
};
const options = {
  key,
  limits: { rewards: JSON.parse(rewards), epsilon: 1, budget: Number(pulls), window: 3600 },
  storage: fileStorage(ledger),
  fetch: lossy,
  allowance: allowances ? () => allowances.pop() : undefined,
};
const client = new Client(url, experiment, options);
const shown = {};
for (let round = 0; round < Number(pulls); round += 1) {
  const pull = await client.decide();
  shown[pull.name] = (shown[pull.name] ?? 0) + 1;
  await pull.observe(pull.name === "green" ? 1 : 0);
  await client.leave(); // each visit ends, and half of what it sends is not known to have arrived
}
let refused = false;
try {
  await client.decide();
} catch (error) {
  refused = error instanceof LimitError;
}
await client.close();

// The device comes back later, on a better line: what was not acknowledged is sent again, unchanged.
const later = new Client(url, experiment, { ...options, fetch, clock: () => Date.now() / 1000 + 600 });
const flushed = await later.flush();
await later.close();
console.log(JSON.stringify({ shown, waiting: flushed.waiting, refused }));
