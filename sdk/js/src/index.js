/**
 * Take part in a bandit experiment without giving rewards away: the curator, the ledger and the client of a device.
 *
 * @typedef {import("./limits.js").Limits} Limits
 * @typedef {import("./client.js").Flushed} Flushed
 * @typedef {import("./client.js").Pull} Pull
 * @typedef {import("./curators.js").Curator} Curator
 * @typedef {import("./spec.js").CuratorSpec} CuratorSpec
 * @typedef {import("./storage.js").Storage} Storage
 */

export { Client } from "./client.js";
export { curatorFromSpec } from "./curators.js";
export * from "./errors.js";
export { memoryStorage } from "./storage.js";
export { registerWorker } from "./register.js";
