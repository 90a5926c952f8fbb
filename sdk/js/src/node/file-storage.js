/**
 * A storage in one file, which several processes may share. After a crash or a power cut the file is the old one or the
 * new one, whole; and what was reported as stored is on the disk. A new file appears under its name when it is complete.
 *
 * @import { Storage } from "../storage.js"
 */

import { mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, resolve } from "node:path";

import { withLockFile } from "./lock-file.js";

/**
 * @param {string} path of the file, which is made when something is first stored; beside it there may be `path.lock`
 * @returns {Storage}
 */
export function fileStorage(path) {
  const file = resolve(path);
  /** @type {Promise<unknown>} */
  let turn = Promise.resolve();

  async function read() {
    try {
      return await readFile(file, "utf8");
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return null;
      throw error;
    }
  }

  return {
    read,
    change(edit) {
      // In turn within this process: its own calls need not wait for each other by looking at the lock again and again.
      const changed = turn.then(async () => {
        await mkdir(dirname(file), { recursive: true });
        await withLockFile(`${file}.lock`, async () => {
          const text = await read();
          const edited = edit(text);
          if (edited !== text) await replace(file, edited);
        });
      });
      turn = changed.catch(() => {});
      return changed;
    },
  };
}

/**
 * Write beside the file, then rename: readers see the old text or the new one. The folder is synchronised too, since
 * it is there that the new name is.
 *
 * @param {string} file
 * @param {string} text
 */
async function replace(file, text) {
  const draft = `${file}.tmp`; // one name is enough: only the holder of the lock writes
  await using(await open(draft, "w", 0o600), async (handle) => {
    await handle.writeFile(text);
    await handle.sync();
  });
  await rename(draft, file);
  if (process.platform !== "win32") {
    await using(await open(dirname(file), "r"), (handle) => handle.sync()); // Windows cannot open a folder
  }
}

/**
 * @param {import("node:fs/promises").FileHandle} handle
 * @param {(handle: import("node:fs/promises").FileHandle) => Promise<void>} task
 */
async function using(handle, task) {
  try {
    await task(handle);
  } finally {
    await handle.close();
  }
}
