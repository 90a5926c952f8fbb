/**
 * Take part, and die at a call of the file system: `killed.js LEDGER NUMBER`. Prints how many calls there were, if it
 * outlives them all.
 */

import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const [ledger, number] = process.argv.slice(2);
let calls = 0;
const counting = (call) =>
  function (...given) {
    if (++calls === Number(number)) process.kill(process.pid, "SIGKILL");
    return call.apply(this, given);
  };

const handle = await fs.promises.open(import.meta.filename ?? new URL(import.meta.url).pathname);
const { prototype } = handle.constructor;
await handle.close();
for (const name of ["write", "writeFile", "sync", "close"]) prototype[name] = counting(prototype[name]);
for (const name of ["open", "readFile", "readdir", "rename", "link", "mkdir", "rm", "stat", "realpath"]) fs.promises[name] = counting(fs.promises[name]);
syncBuiltinESMExports();

const { takePart } = await import("./ledgers.js");
await takePart(ledger);
process.stdout.write(String(calls));
