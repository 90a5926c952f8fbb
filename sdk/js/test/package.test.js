import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import * as everything from "ldpbandits";
import * as curators from "ldpbandits/curators";
import * as node from "ldpbandits/node";
import * as notPrivate from "ldpbandits/not-private";

import { BUDGET, bundled } from "../scripts/sizes.js";

const ROOT = new URL("../", import.meta.url);
const cwd = fileURLToPath(ROOT);
const read = (name) => readFileSync(new URL(name, ROOT), "utf8");
const sources = readdirSync(new URL("src", ROOT), { recursive: true }).map(String).filter((name) => name.endsWith(".js"));
const tsc = (...options) => spawnSync("npx", ["--no-install", "tsc", ...options], { cwd, encoding: "utf8" });

test("the exported names are these, and a new one is added here on purpose", () => {
  const errors = ["LDPBanditsError", "LedgerError", "LimitError", "ParameterError", "RewardError", "ServerError", "SpecError", "TicketError"];
  assert.deepEqual(Object.keys(everything).sort(), [...errors, "Client", "curatorFromSpec", "memoryStorage"].sort());
  assert.deepEqual(Object.keys(curators).sort(), ["LDPBanditsError", "ParameterError", "RewardError", "SpecError", "curatorFromSpec"]);
  assert.deepEqual(Object.keys(node), ["fileStorage"]);
  assert.deepEqual(Object.keys(notPrivate), ["respondNotPrivate"]);
  assert.deepEqual(Object.keys(JSON.parse(read("package.json")).exports), [".", "./curators", "./node", "./not-private", "./package.json"]);
});

test("each error has its own name, also where a bundler has shortened those of classes", async () => {
  const { contents } = await bundled("index");
  const minified = await import(`data:text/javascript;base64,${Buffer.from(contents).toString("base64")}`);
  for (const module of [everything, minified]) {
    for (const [name, Class] of Object.entries(module)) {
      if (!name.endsWith("Error")) continue;
      const error = new Class("m", 500, "code");
      assert.ok(error instanceof module.LDPBanditsError && error instanceof Error);
      assert.equal(String(error), `${name}: m`);
    }
  }
});

test("curators alone are at most 2 kB, all at most 7.5 kB, and the README says how much", async () => {
  assert.deepEqual(BUDGET, { curators: 2048, index: 7680 });
  for (const [entry, most] of Object.entries(BUDGET)) {
    const { bytes } = await bundled(entry);
    assert.ok(bytes <= most, `${entry}: ${bytes} bytes`);
    const [, said] = read("README.md").match(new RegExp(`\\| \\\`${entry}\\\` \\| (\\d+) \\|`)) ?? [];
    assert.ok(Math.abs(bytes / Number(said) - 1) < 0.02, `README.md should say ${bytes} for ${entry}`); // gzips differ
  }
});

test("the types hold strictly, in the sources and for who uses them", () => {
  const checked = tsc();
  assert.equal(checked.status, 0, checked.stdout);
  const built = tsc("-p", "tsconfig.build.json");
  assert.equal(built.status, 0, built.stdout);
  const used = tsc(
    "--ignoreConfig", "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "test/support/consumer.ts",
  );
  assert.equal(used.status, 0, used.stdout);
});

test("nothing is depended on, and only the folder of Node's imports its modules", () => {
  const { dependencies, peerDependencies, optionalDependencies, devDependencies } = JSON.parse(read("package.json"));
  assert.deepEqual([dependencies, peerDependencies, optionalDependencies], [undefined, undefined, undefined]);
  for (const version of Object.values(devDependencies)) assert.match(version, /^\d+\.\d+\.\d+$/);
  for (const name of sources) {
    for (const [, from] of read(`src/${name}`).matchAll(/^(?:import|export) .* from "(.*)"/gm)) {
      assert.match(from, name.startsWith("node/") ? /^(\.|node:)/ : /^\.\//, `${name} imports ${from}`);
    }
  }
});

test("randomness comes from one place: crypto.getRandomValues, in randomness.js", () => {
  assert.ok(sources.length > 10);
  for (const name of sources) {
    assert.ok(!/Math\.random/.test(read(`src/${name}`)), name);
    assert.equal(/getRandomValues/.test(read(`src/${name}`)), name === "randomness.js", name);
  }
  assert.ok(!sources.filter((name) => name !== "not-private.js").some((name) => read(`src/${name}`).includes("not-private")));
});

test("the package holds sources, types and examples, and its lock names no registry", () => {
  const [{ files }] = JSON.parse(execFileSync("npm", ["pack", "--dry-run", "--json", "--loglevel=silent"], { cwd, encoding: "utf8" }).replace(/^[^[]*/, ""));
  const packed = files.map(({ path }) => path);
  for (const name of sources) {
    assert.ok(packed.includes(`src/${name}`), name);
    assert.ok(packed.includes(`types/${name.replace(/js$/, "d.ts")}`), `types of ${name}`);
  }
  assert.ok(packed.includes("LICENSE") && packed.includes("examples/respond.js"));
  assert.ok(!packed.some((path) => path.startsWith("test")));
  assert.ok(!/https?:/.test(read("package-lock.json")));
});
