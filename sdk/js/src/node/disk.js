/** Durable writes: files and folders that are flushed to the disk. */

import { open, rm } from "node:fs/promises";

/**
 * Write a new file that only its owner can read, and flush it. A partly written file, as on a full disk, is removed.
 *
 * @param {string} path
 * @param {string} text
 */
export async function writeFlushed(path, text) {
  const handle = await open(path, "wx", 0o600);
  try {
    await using(handle, async () => {
      await handle.writeFile(text);
      await handle.sync();
    });
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

/**
 * Flush the names that are in a folder: a new file, or one that was renamed, is there after a power cut.
 *
 * @param {string} folder
 */
export async function syncFolder(folder) {
  if (process.platform === "win32") return; // which cannot open a folder
  await using(await open(folder, "r"), (handle) => handle.sync());
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
