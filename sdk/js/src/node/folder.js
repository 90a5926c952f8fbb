/**
 * A text in a folder, for a Node without SQLite. It is lock-free, so that no crash leaves a lock behind:
 *
 *     ledger/
 *       2b...e1.9f...07.json      the text
 *       2b...e1.9f...07.current   says by its name that this text counts: 9f...07, which has followed on 2b...e1
 *
 * A writer writes `9f...07.NEW.json`, flushes it to the disk, and renames `2b...e1.9f...07.current` to
 * `9f...07.NEW.current`. A rename is atomic and fails if another process has renamed that file before; then the writer
 * discards its file and retries the edit. Names are random and never come back: a process that was stopped for an hour
 * between reading and renaming fails as well. The algorithm uses no clock, no process ID and no host name.
 *
 * Files from before the rename cannot become current any more, since they have other predecessors than the new text. The
 * writer removes them, also those of processes that were killed.
 *
 * @import { Attempt } from "./storage-at.js"
 */

import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";

import { LedgerError } from "../errors.js";
import { syncFolder, writeFlushed } from "./disk.js";

const CURRENT = ".current";
const TEXT = ".json";
/** The name that stands for the predecessor of the first text. */
const NONE = "none";
/** The names of files that this storage writes. */
const NAME = /^(?:none|[\da-f-]{36})\.[\da-f-]{36}\.(?:json|current)$/;

/**
 * @param {string} folder
 * @param {boolean} isNew whether there is none yet
 * @returns {Attempt}
 */
export function folderKeeper(folder, isNew) {
  const path = (/** @type {string} */ name) => join(folder, name);

  return async (edit) => {
    if (isNew) return !edit || (await made(folder, edit(null))) ? null : undefined;
    const stem = await currentOf(folder);
    const text = await unlessGone(readFile(path(stem + TEXT), "utf8"));
    if (text === undefined) {
      if ((await currentOf(folder)) === stem) throw damaged(folder);
      return undefined;
    }
    const edited = edit?.(text) ?? text;
    return edited === text || (await replaced(stem, edited)) ? text : undefined;
  };

  /**
   * Put a text in the place of this one; false if another was first.
   *
   * @param {string} stem
   * @param {string} text
   */
  async function replaced(stem, text) {
    const [, id] = stem.split(".");
    const next = `${id}.${randomUUID()}`;
    await writeFlushed(path(next + TEXT), text);
    await syncFolder(folder); // a name that counts must not outlive, in a power cut, a text that is not there
    const former = (await readdir(folder)).filter((name) => NAME.test(name) && name !== next + TEXT);
    const isFirst = await unlessGone(rename(path(stem + CURRENT), path(next + CURRENT)).then(() => true));
    if (isFirst) await syncFolder(folder);
    await Promise.all((isFirst ? former : [next + TEXT]).map((name) => rm(path(name), { force: true })));
    return isFirst ?? false;
  }
}

/**
 * Make a folder with this text; false if another was first.
 *
 * @param {string} folder
 * @param {string} text
 */
async function made(folder, text) {
  const id = randomUUID();
  const draft = `${folder}.${id}.tmp`;
  await mkdir(draft, { mode: 0o700 });
  try {
    await writeFlushed(join(draft, `${NONE}.${id}${TEXT}`), text);
    await writeFlushed(join(draft, `${NONE}.${id}${CURRENT}`), "");
    await syncFolder(draft);
    await rename(draft, folder);
    await syncFolder(dirname(folder));
    return true;
  } catch (error) {
    // The codes of a rename to an existing name: of a folder, of a file, and on Windows.
    const { code = "" } = /** @type {NodeJS.ErrnoException} */ (error);
    if (["ENOTEMPTY", "EEXIST", "ENOTDIR"].includes(code) || (code === "EPERM" && process.platform === "win32")) return false;
    throw error;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** @param {string} folder */
async function currentOf(folder) {
  // A listing that is made during a rename may have neither name. The next has one.
  for (let i = 0; i < 10; i++) {
    const current = (await readdir(folder)).find((name) => NAME.test(name) && name.endsWith(CURRENT));
    if (current) return current.slice(0, -CURRENT.length);
  }
  throw damaged(folder);
}

/** @param {string} folder */
function damaged(folder) {
  return new LedgerError(`the ledger ${folder} is damaged, and left as it is`);
}

/**
 * @template T
 * @param {Promise<T>} task
 * @returns {Promise<T | undefined>} undefined if the file is gone
 */
async function unlessGone(task) {
  try {
    return await task;
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return undefined;
    throw error;
  }
}
