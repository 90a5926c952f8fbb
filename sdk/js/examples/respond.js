/**
 * One reward a line in, one private response a line out: what an audit needs to see of a curator.
 *
 *     seq 0 0.001 1 | node examples/respond.js --curator ctb --epsilon 1
 *     seq -9 9 | node examples/respond.js --curator 'ctb-t(0.5)' --epsilon 1
 *
 * Bad input is one line on stderr and exit code 2; the line does not show the reward.
 */

import { pipeline } from "node:stream/promises";
import { parseArgs } from "node:util";

import { curatorFromSpec, LDPBanditsError } from "ldpbandits/curators";

const USAGE = "usage: respond.js --curator ctb|ctl|ctb-s|ctl-s|ctb-t(THETA)|ctl-t(THETA) --epsilon E";

/** @type {Record<string, object>} */
const CURATORS = {
  ctb: { mechanism: "bernoulli" },
  ctl: { mechanism: "laplace" },
  "ctb-s": { mechanism: "bernoulli", transform: { kind: "sigmoid" } },
  "ctl-s": { mechanism: "laplace", transform: { kind: "sigmoid" } },
};

function curatorFromFlags() {
  const { values } = parseArgs({ options: { curator: { type: "string" }, epsilon: { type: "string" } } });
  const [, prefix, theta] = /^(ct[bl])-t\((.+)\)$/.exec(values.curator ?? "") ?? [];
  const name = prefix ?? values.curator ?? "";
  const known = Object.hasOwn(CURATORS, name) && CURATORS[name];
  const spec = known && prefix ? { ...known, transform: { kind: "threshold", theta: Number(theta) } } : known;
  if (!spec || values.epsilon === undefined) throw new TypeError(USAGE);
  return curatorFromSpec({ ...spec, epsilon: Number(values.epsilon) });
}

/** @param {AsyncIterable<string>} chunks */
async function* respond(chunks) {
  const curator = curatorFromFlags();
  let rest = "";
  for await (const chunk of chunks) {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    if (lines.length) yield answers(lines);
  }
  if (rest) yield answers([rest]);

  /** @param {string[]} lines */
  function answers(lines) {
    // An empty line is no reward, although Number takes it for 0.
    return lines.map((line) => `${curator.respond(line.trim() ? Number(line) : NaN)}\n`).join("");
  }
}

try {
  await pipeline(process.stdin.setEncoding("utf8"), respond, process.stdout);
} catch (error) {
  const { message, code = "" } = /** @type {NodeJS.ErrnoException} */ (error);
  if (code === "EPIPE") process.exit(0); // whoever read the responses has seen enough
  const isExpected = error instanceof LDPBanditsError || error instanceof TypeError;
  process.stderr.write(`respond.js: ${isExpected ? message.split("\n")[0] : error}\n`);
  process.exit(2);
}
