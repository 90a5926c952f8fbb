/**
 * A storage in one file, which several processes may share. After a crash or a power cut the file is the old one or the
 * new one, whole; and what was reported as stored is on the disk.
 *
 * @import { Storage } from "../storage.js"
 */

import { mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname, resolve } from "node:path";

import { withLockFile } from "./lock-file.js";

/**
 * @param {string} path of the file, which is made when something is first stored; beside it there may be `path.lock`
 * @returns {Storage & Required<Pick<Storage, "lock">>}
 */
export function fileStorage(path) {
  const file = resolve(path);

  /** @returns {Promise<Record<string, string>>} */
  async function items() {
    let text;
    try {
      text = await readFile(file, "utf8");
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return {};
      throw error;
    }
    const found = JSON.parse(text);
    if (!found || typeof found !== "object" || Array.isArray(found)) throw new Error(`${file} is not a storage`);
    return found;
  }

  return {
    getItem: async (key) => (await items())[key] ?? null,
    setItem: async (key, value) => replace(file, JSON.stringify({ ...(await items()), [key]: value })),
    removeItem: async (key) => {
      const { [key]: _, ...others } = await items();
      await replace(file, JSON.stringify(others));
    },
    async lock(task) {
      await mkdir(dirname(file), { recursive: true });
      return withLockFile(`${file}.lock`, task);
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
