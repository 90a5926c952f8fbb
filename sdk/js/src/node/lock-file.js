/**
 * At most one holder of a lock file at a time, among all processes of this machine; a holder that crashed loses it.
 *
 * A lock is taken by linking a finished file to its name, which is atomic and fails if the name exists: no lock is ever
 * seen without the name of its holder in it.
 *
 * A dead holder's lock is removed under a further lock, named after the dead one. Without that, two processes could
 * both see the dead holder, one of them remove its lock and take a new one, and the other remove that. With it, only
 * one process at a time may remove this very lock, and it looks again before it does. Should that process crash too,
 * its own lock is removed in the same way.
 *
 * @typedef {{ host: string, pid: number, started: string, token: string }} Holder
 */

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { LedgerError } from "../errors.js";

/** Milliseconds. A holder only reads and writes a small file, so that one who takes this long has been stopped. */
const PATIENCE = 10_000;
const PAUSE = 4;

/**
 * Run a task while holding the lock; throw a LedgerError if a living process does not give it back.
 *
 * @template T
 * @param {string} path
 * @param {() => Promise<T>} task
 * @param {number} [patience]
 * @returns {Promise<T>}
 */
export async function withLockFile(path, task, patience = PATIENCE) {
  await take(path, Date.now() + patience);
  try {
    return await task();
  } finally {
    await rm(path, { force: true });
  }
}

/**
 * @param {string} path
 * @param {number} deadline
 */
async function take(path, deadline) {
  const token = randomUUID();
  const draft = `${path}.${token}.tmp`;
  /** @type {Holder} */
  const self = { host: hostname(), pid: process.pid, started: startOf(process.pid), token };
  await writeFile(draft, JSON.stringify(self), { mode: 0o600 });
  try {
    while (!(await linked(draft, path))) {
      const holder = await holderOf(path);
      if (holder && isDead(holder)) {
        await withLockFile(`${path}.${holder.token}`, async () => {
          if ((await holderOf(path))?.token === holder.token) await rm(path, { force: true });
        });
      } else if (Date.now() > deadline) {
        throw new LedgerError(
          `the ledger is locked by process ${holder?.pid} on ${holder?.host}; if that is none of yours, remove ${path}`,
        );
      } else {
        await sleep(PAUSE);
      }
    }
  } finally {
    await rm(draft, { force: true });
  }
}

/**
 * @param {string} draft
 * @param {string} path
 */
async function linked(draft, path) {
  try {
    await link(draft, path);
    return true;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") return false;
    throw error;
  }
}

/**
 * @param {string} path
 * @returns {Promise<Holder | undefined>} undefined if nobody holds the lock, or its file is none of ours
 */
async function holderOf(path) {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch {
    return undefined;
  }
}

/**
 * Whether the holder certainly is no more. Another host's processes cannot be seen from here, so they count as alive;
 * a process with the holder's number that started at another time is not the holder.
 *
 * @param {Holder} holder
 */
function isDead({ host, pid, started }) {
  if (host !== hostname()) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "ESRCH"; // EPERM: alive, and somebody else's
  }
  const since = startOf(pid);
  return started !== "" && since !== "" && started !== since;
}

/**
 * When a process started, where the system tells (Linux does, in ticks since it booted); "" where it does not.
 *
 * @param {number} pid
 */
function startOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return state === "Z" ? "ended" : fields[18]; // a zombie has a number, and nothing else
  } catch {
    return "";
  }
}
