/**
 * A storage on the disk, which several processes may share, also from different containers. Writes are atomic and
 * durable: after a crash or a power cut the text is the old one or the new one, and a completed write is on the disk.
 *
 * It is a file of SQLite's where this Node has SQLite, else a folder. An existing storage keeps its form: all Nodes
 * change a folder, and one without SQLite refuses a file. A new storage gets its name when it is complete, and never
 * replaces another: a ledger never has two storages.
 *
 * @import { Storage } from "../storage.js"
 *
 * @typedef {(edit?: (text: string | null) => string) => Promise<string | null | undefined>} Attempt reads the text, and
 *   stores what `edit` makes of it; gives what was stored before, or undefined if another is at it: then try again
 */

import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { LedgerError } from "../errors.js";
import { folderKeeper } from "./folder.js";
import { sqliteKeeper } from "./sqlite.js";

/** In milliseconds. To change a ledger takes some of them, so that who finds it taken for this long waits in vain. */
const PATIENCE = 10_000;
const PAUSE = 4;

/**
 * @param {string} path
 * @param {object} [options] for tests
 * @param {typeof import("node:sqlite") | null} [options.sqlite] null: as if there were none
 * @param {number} [options.patience]
 * @returns {Storage}
 */
export function storageAt(path, { sqlite = process.getBuiltinModule?.("node:sqlite") ?? null, patience = PATIENCE } = {}) {
  /** @type {Promise<unknown>} */
  let turn = Promise.resolve();

  /** @returns {Promise<Attempt>} */
  async function keeper() {
    const found = await stat(path).catch((error) => {
      if (error.code === "ENOENT") return undefined;
      throw error;
    });
    if (found ? found.isDirectory() : !sqlite) return folderKeeper(path, !found);
    if (sqlite) return sqliteKeeper(sqlite, path, !found);
    throw new LedgerError(`${path} is a file, and this Node has no node:sqlite to read a ledger in it: 22.13 or newer has`);
  }

  /** @type {(edit?: (text: string | null) => string) => Promise<string | null>} */
  async function patiently(edit) {
    const deadline = performance.now() + patience;
    for (;;) {
      const text = await (await keeper())(edit);
      if (text !== undefined) return text;
      if (performance.now() > deadline) throw new LedgerError(`the ledger ${path} is held by another process`);
      await sleep(PAUSE);
    }
  }

  return {
    read: () => patiently(),
    change(edit) {
      // In turn within this process: its own calls need not wait for each other by trying again and again.
      const changed = turn.then(async () => {
        await mkdir(dirname(path), { recursive: true });
        await patiently(edit);
      });
      turn = changed.catch(() => {});
      return changed;
    },
  };
}
