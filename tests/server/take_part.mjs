// A device in JavaScript: takes part with the SDK against a real server, loses replies, comes back, and runs out of budget.
//   node take_part.mjs URL EXPERIMENT KEY LEDGER PULLS
import { Client, LimitError } from "../../sdk/js/src/index.js";
import { fileStorage } from "../../sdk/js/src/node/index.js";

const [url, experiment, key, ledger, pulls] = process.argv.slice(2);
let sent = 0;
/** Loses the reply to every other response: the server has counted, the device does not know. */
const lossy = async (...request) => {
  const reply = await fetch(...request);
  if (String(request[0]).endsWith("/v1/responses") && (sent += 1) % 2) throw new TypeError("the reply was lost");
  return reply;
};
const options = {
  key,
  limits: { epsilon: 1, budget: Number(pulls), window: 3600 },
  storage: fileStorage(ledger),
  fetch: lossy,
};
const client = new Client(url, experiment, options);
const shown = {};
let acknowledged = 0;
for (let round = 0; round < Number(pulls); round += 1) {
  const pull = await client.decide();
  shown[pull.name] = (shown[pull.name] ?? 0) + 1;
  acknowledged += Number(await pull.observe(pull.name === "green" ? 1 : 0));
}
let refused = false;
try {
  await client.decide();
} catch (error) {
  refused = error instanceof LimitError;
}
client.close();

// The device comes back later, on a better line: what was not acknowledged is sent again, unchanged.
const later = new Client(url, experiment, { ...options, fetch, clock: () => Date.now() / 1000 + 600 });
const flushed = await later.flush();
later.close();
console.log(JSON.stringify({ shown, acknowledged, later: flushed.acknowledged, waiting: flushed.waiting, refused }));
