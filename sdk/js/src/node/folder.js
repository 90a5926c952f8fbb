/**
 * A text in a folder, for a Node without SQLite. Nobody holds a lock, so that nobody can leave one behind:
 *
 *     ledger/
 *       2b...e1.9f...07.json      the text
 *       2b...e1.9f...07.current   says by its name that this text counts: 9f...07, which has followed on 2b...e1
 *
 * Who changes the text writes `9f...07.NEW.json`, flushes it to the disk, and renames `2b...e1.9f...07.current` to
 * `9f...07.NEW.current`. A rename is atomic and fails if another has renamed that file before; then what was written is
 * thrown away and the edit made anew. Names are drawn at random and never come back: who was stopped for an hour between
 * reading and renaming fails then as well. No clock, no process number and no host is asked for anything.
 *
 * Of what was there before the rename nothing can become current any more, since it has other predecessors than the new
 * text: it is removed, whoever was killed and left it.
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
/** What stands for the predecessor of the first text. */
const NONE = "none";
/** Of a file that is ours. */
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
    // What a rename says of a name that there is: of a folder, of a file, and on Windows.
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
