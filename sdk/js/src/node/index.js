/** What only Node has: a ledger in a file. Nothing outside this folder imports a module of Node's. */

export { fileStorage } from "./file-storage.js";
