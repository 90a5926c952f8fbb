/**
 * Take part in a bandit experiment without giving rewards away: the curator, the ledger and the client of a device.
 */

export { Client } from "./client.js";
export { curatorFromSpec } from "./curators.js";
export * from "./errors.js";
export { memoryStorage } from "./storage.js";
