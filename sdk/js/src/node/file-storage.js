/**
 * A ledger on the disk. (Its implementation is another file, so that the public types need none of Node's.)
 *
 * @import { Storage } from "../storage.js"
 */

import { resolve } from "node:path";

import { checkText } from "../checks.js";
import { withHighWater } from "./high-water.js";
import { storageAt } from "./storage-at.js";

/**
 * @param {string} path of the ledger, which is made when something is first stored
 * @returns {Storage}
 */
export function fileStorage(path) {
  checkText("the path of a ledger", path);
  const place = resolve(path);
  return withHighWater(storageAt(place), place);
}
