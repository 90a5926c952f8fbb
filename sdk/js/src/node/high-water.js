/**
 * A high-water mark beside a ledger, which detects a ledger that was rolled back.
 *
 * A backup that replaces a ledger forgets the charges since. A second file therefore holds the largest sums that the
 * ledger has had: of accepted epsilons, and of epsilons that have left. Both only grow, and the ledger has them anyway.
 *
 * The mark is written after the ledger, which is then on the disk: it is never ahead of a healthy ledger, whatever
 * crashes when, and needs no flush. A mark that is lost, old or half written detects less, and refuses nothing. It is
 * read before the ledger, since another process may change both meanwhile.
 *
 * @import { Storage } from "../storage.js"
 *
 * @typedef {[accepted: bigint, left: bigint]} Sums
 */

import { constants } from "node:fs";
import { open, readFile, realpath, stat } from "node:fs/promises";

import { sum } from "../limits.js";
import { LedgerError } from "../errors.js";

const SUFFIX = ".high-water";
/** Both sums, written twice: a mark that was half written does not count. */
const FILE = /^((\d{40}) (\d{40})\n)\1$/;
/** @type {Sums} */
const NOTHING = [0n, 0n];
const { O_WRONLY, O_CREAT, O_NOFOLLOW = 0 } = constants; // Windows has no O_NOFOLLOW

/**
 * A storage that refuses a ledger which was rolled back, is gone, or was replaced while in use.
 *
 * @param {Storage} storage of a ledger at `path`
 * @param {string} path
 * @returns {Storage}
 */
export function withHighWater(storage, path) {
  /** @type {Sums} */
  let seen = NOTHING;
  /** @type {number | undefined} */
  let inode;
  /** @type {string | undefined} */
  let target;

  const inodeOf = async () => (await unlessFails(stat(path)))?.ino;

  /** The file beside that of the ledger, also where the ledger's name is a link to it. */
  const beside = async () => ((target ??= await unlessFails(realpath(path))) ?? path) + SUFFIX;

  /** Read the mark, and give what checks a text that is read after this. */
  async function checker() {
    const file = await beside();
    const [written, found] = await Promise.all([read(file), inodeOf()]);
    const mark = largest(written, seen);
    inode ??= found;
    if (found !== inode) {
      throw new LedgerError(`the ledger ${path} was deleted or replaced while in use: put it back, or start this program again`);
    }
    const check = (/** @type {string | null} */ text) => {
      const sums = sumsOf(text);
      if (!sums || !isAbove(mark, sums)) return;
      throw new LedgerError(
        text === null
          ? `the ledger ${path} is gone, and with it what was spent: put it back. To begin anew with a full budget, ` +
            `delete ${file} and start this program again`
          : `the ledger ${path} is older than it was, as after a restored backup: put the newest one back. To go on ` +
            `without what was spent since, delete ${file} and start this program again`,
      );
    };
    return { mark, check };
  }

  return {
    ...storage,
    async read() {
      const { check } = await checker();
      const text = await storage.read();
      check(text);
      return text;
    },
    async change(edit) {
      const { mark, check } = await checker();
      /** @type {Sums | undefined} */
      let sums;
      await storage.change((text) => {
        check(text);
        const edited = edit(text);
        sums = sumsOf(edited);
        return edited;
      });
      inode ??= await inodeOf();
      seen = largest(seen, sums ?? NOTHING);
      if (isAbove(seen, mark)) await write(await beside(), path, seen);
    },
  };
}

/**
 * The sums of a ledger; none of what is no ledger, which others refuse.
 *
 * @param {string | null} text
 * @returns {Sums | undefined}
 */
function sumsOf(text) {
  if (text === null) return NOTHING;
  try {
    const { spends, left } = JSON.parse(text);
    return [sum(spends), sum(left)];
  } catch {
    return undefined;
  }
}

/**
 * @param {string} file
 * @returns {Promise<Sums>}
 */
async function read(file) {
  const [, , accepted, left] = FILE.exec((await unlessFails(readFile(file, "latin1"))) ?? "") ?? [];
  return [BigInt(accepted ?? 0), BigInt(left ?? 0)];
}

/**
 * Raise the mark to the sums of a ledger that is on the disk, for the same eyes.
 *
 * @param {string} file
 * @param {string} path of the ledger
 * @param {Sums} sums
 */
async function write(file, path, sums) {
  const line = `${sums.map((each) => String(each).padStart(40, "0")).join(" ")}\n`;
  const mode = ((await unlessFails(stat(path)))?.mode ?? 0) & 0o666;
  const handle = await unlessFails(open(file, O_WRONLY | O_CREAT | O_NOFOLLOW, mode));
  if (!handle) return;
  await unlessFails(handle.write(line + line, 0));
  await handle.close();
}

/**
 * Whether one has a larger sum than the other, of either kind.
 *
 * @param {Sums} one
 * @param {Sums} other
 */
function isAbove(one, other) {
  return one[0] > other[0] || one[1] > other[1];
}

/**
 * @param {Sums} one
 * @param {Sums} other
 * @returns {Sums}
 */
function largest(one, other) {
  return [one[0] > other[0] ? one[0] : other[0], one[1] > other[1] ? one[1] : other[1]];
}

/**
 * The result of a task; undefined if it fails. A mark is a safeguard only.
 *
 * @template T
 * @param {Promise<T>} task
 * @returns {Promise<T | undefined>}
 */
function unlessFails(task) {
  return task.catch(() => undefined);
}
