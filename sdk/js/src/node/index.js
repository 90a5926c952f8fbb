/** The exports for Node only: a ledger in a file. Nothing outside this folder imports a module of Node's. */

export { fileStorage } from "./file-storage.js";
