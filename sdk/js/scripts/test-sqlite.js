/**
 * Test the ledger of SQLite's also where this Node has no node:sqlite: by one that has, from the package registry. Where
 * none can be had that is said, and in CI it is a failure.
 */

import { spawnSync } from "node:child_process";

const NEWER = ["--yes", "--package", "node@24.21.0", "--", "node"];
const TESTS = ["--test", "--test-reporter=spec", "test/file-storage.test.js", "test/high-water.test.js"];

if (process.getBuiltinModule?.("node:sqlite")) process.exit(0); // then `npm test` has done it
const shell = process.platform === "win32"; // where npx is no program
if (spawnSync("npx", [...NEWER, "--version"], { shell }).status !== 0) {
  console.error("THE LEDGER OF SQLITE'S WAS NOT TESTED: THIS NODE HAS NO node:sqlite, AND A NEWER ONE CANNOT BE HAD.");
  process.exit(process.env.CI === "true" ? 1 : 0);
}
process.exit(spawnSync("npx", [...NEWER, ...TESTS], { shell, stdio: "inherit" }).status ?? 1);
