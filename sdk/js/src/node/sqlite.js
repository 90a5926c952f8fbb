/**
 * A text in a file of SQLite's. Its locks are the operating system's: they end with the process that holds them, and hold
 * between containers that share the file. A file that is not ours, or has lost its text, is refused and left as it is.
 *
 * @import { Attempt } from "./storage-at.js"
 */

import { randomUUID } from "node:crypto";
import { link, open, rm } from "node:fs/promises";
import { dirname } from "node:path";

import { LedgerError } from "../errors.js";
import { syncFolder } from "./disk.js";

/** SQLite's codes, of which a longer one has the lowest byte: another is at it; there is no such table; a damaged file; none of SQLite's. */
const [BUSY, NO_TABLE, CORRUPT, NOT_SQLITE] = [5, 1, 11, 26];

/**
 * @param {typeof import("node:sqlite")} sqlite
 * @param {string} file
 * @param {boolean} isNew whether there is none yet
 * @returns {Attempt}
 */
export function sqliteKeeper({ DatabaseSync }, file, isNew) {
  const damaged = () => new LedgerError(`the ledger ${file} is damaged, and left as it is`);

  return async (edit) => {
    if (!isNew) return within(edit);
    return !edit || (await made(edit(null))) ? null : undefined;
  };

  /** @param {Parameters<Attempt>[0]} edit */
  function within(edit) {
    const database = new DatabaseSync(file, { timeout: 0 }); // who waits in SQLite holds up the whole process
    try {
      // On the disk when it is reported, the end of its journal too; on a Mac also beyond the disk's own memory.
      database.exec("PRAGMA synchronous = EXTRA; PRAGMA fullfsync = ON");
      database.exec(edit ? "BEGIN EXCLUSIVE" : "BEGIN");
      const row = database.prepare("SELECT text FROM ldpbandits").get();
      if (typeof row?.text !== "string") throw damaged();
      const edited = edit?.(row.text) ?? row.text;
      if (edited !== row.text) database.prepare("UPDATE ldpbandits SET text = ?").run(edited);
      database.exec("COMMIT");
      return row.text;
    } catch (error) {
      const code = /** @type {any} */ (error).errcode & 0xff;
      if (code === BUSY) return undefined;
      throw [NO_TABLE, CORRUPT, NOT_SQLITE].includes(code) ? damaged() : error;
    } finally {
      database.close();
    }
  }

  /**
   * Make a file with this text; false if another was first.
   *
   * @param {string} text
   */
  async function made(text) {
    const draft = `${file}.${randomUUID()}.tmp`;
    try {
      await (await open(draft, "wx", 0o600)).close();
      const database = new DatabaseSync(draft);
      try {
        database.exec("PRAGMA synchronous = EXTRA; PRAGMA fullfsync = ON; BEGIN; CREATE TABLE ldpbandits (text TEXT NOT NULL)");
        database.prepare("INSERT INTO ldpbandits VALUES (?)").run(text);
        database.exec("COMMIT");
      } finally {
        database.close();
      }
      await link(draft, file);
      await syncFolder(dirname(file));
      return true;
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code === "EEXIST") return false;
      throw error;
    } finally {
      await rm(draft, { force: true });
    }
  }
}
