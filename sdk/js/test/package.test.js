import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import * as everything from "ldpbandits";
import * as curators from "ldpbandits/curators";
import * as node from "ldpbandits/node";
import * as notPrivate from "ldpbandits/not-private";
import * as openfeature from "ldpbandits/openfeature";
import * as react from "ldpbandits/react";

import { BUDGET, bundled, integrityOf } from "../scripts/bundle.js";

const ROOT = new URL("../", import.meta.url);
const cwd = fileURLToPath(ROOT);
const read = (name) => readFileSync(new URL(name, ROOT), "utf8");
const sources = readdirSync(new URL("src", ROOT), { recursive: true }).map(String).filter((name) => name.endsWith(".js"));
const tsc = (...options) => spawnSync(process.execPath, ["node_modules/typescript/bin/tsc", ...options], { cwd, encoding: "utf8" });

test("the exported names are these, and a new one is added here on purpose", () => {
  const errors = ["LDPBanditsError", "LedgerError", "LimitError", "ParameterError", "RewardError", "ServerError", "SpecError", "TicketError"];
  assert.deepEqual(Object.keys(everything).sort(), [...errors, "Client", "curatorFromSpec", "memoryStorage", "registerWorker"].sort());
  assert.deepEqual(Object.keys(curators).sort(), ["LDPBanditsError", "ParameterError", "RewardError", "SpecError", "curatorFromSpec"]);
  assert.deepEqual(Object.keys(node), ["fileStorage"]);
  assert.deepEqual(Object.keys(notPrivate), ["respondNotPrivate"]);
  assert.deepEqual([Object.keys(openfeature), Object.keys(react)], [["LDPBanditsProvider"], ["useDecision"]]);
  const entries = [".", "./curators", "./node", "./not-private", "./openfeature", "./react", "./dist/*", "./package.json"];
  assert.deepEqual(Object.keys(JSON.parse(read("package.json")).exports), entries);
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

test("the single file has the exports of the modules, and their sources in its map", async () => {
  const { contents, map } = await bundled("index");
  const text = Buffer.from(contents).toString();
  const single = await import(`data:text/javascript;base64,${Buffer.from(contents).toString("base64")}`);
  assert.deepEqual(Object.keys(single), Object.keys(everything));
  assert.ok(!/\bimport\b/.test(text), "it imports nothing");
  assert.match(text, /^\/\*! ldpbandits \d+\.\d+\.\d+, Apache-2.0 \*\/\n/);
  assert.match(text, /\n\/\/# sourceMappingURL=ldpbandits\.min\.js\.map\n$/);
  const { sources, sourcesContent } = JSON.parse(Buffer.from(map).toString());
  assert.ok(sources.includes("../src/client.js"));
  sources.forEach((source, i) => assert.equal(sourcesContent[i], read(source.replace("../", "")), source));
});

test("the single file is the same to the byte wherever it is built, and its hash is the one that the README quotes", async (t) => {
  const elsewhere = mkdtempSync(join(tmpdir(), "ldpbandits-"));
  t.after(() => rmSync(elsewhere, { recursive: true }));
  for (const name of ["src", "package.json"]) cpSync(new URL(name, ROOT), join(elsewhere, name), { recursive: true });
  const [here, there] = [await bundled("index"), await bundled("index", elsewhere)];
  assert.ok(Buffer.from(here.contents).equals(there.contents) && Buffer.from(here.map).equals(there.map));
  const hashes = read("README.md").match(/sha384-[\w+/=]+/g);
  assert.deepEqual([...new Set(hashes)], [integrityOf(here.contents), integrityOf((await bundled("worker")).contents)], "`npm run quote` writes it into the README");
});

test("curators alone are at most 2 kB, all at most 10.4 kB, the worker at most 3 kB, and the README says how much", async () => {
  assert.deepEqual(BUDGET, { curators: 2048, index: 10624, openfeature: 1792, react: 1088, worker: 3072 });
  for (const [entry, most] of Object.entries(BUDGET)) {
    const { bytes } = await bundled(entry);
    assert.ok(bytes <= most, `${entry}: ${bytes} bytes`);
    const [, said] = read("README.md").match(new RegExp(`\\| \\\`${entry}\\\` \\| (\\d+) \\|`)) ?? [];
    assert.ok(Math.abs(bytes / Number(said) - 1) < 0.02, `README.md should say ${bytes} for ${entry}: npm run quote`); // gzips differ
  }
});

test("the types hold strictly, in the sources and for who uses them", () => {
  const built = tsc("-p", "tsconfig.build.json");
  assert.equal(built.status, 0, built.stdout);
  const used = tsc(
    "--ignoreConfig", "--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom", "test/support/consumer.ts",
  );
  assert.equal(used.status, 0, used.stdout);
});

test("nothing is depended on, React and OpenFeature by their own entries only, and Node's modules by the folder of Node's", () => {
  const { dependencies, peerDependencies, peerDependenciesMeta, optionalDependencies, devDependencies } = JSON.parse(read("package.json"));
  assert.deepEqual([dependencies, optionalDependencies], [undefined, undefined]);
  assert.deepEqual(Object.keys(peerDependencies), ["@openfeature/web-sdk", "react"]);
  for (const name of Object.keys(peerDependencies)) assert.deepEqual(peerDependenciesMeta[name], { optional: true });
  for (const version of Object.values(devDependencies)) assert.match(version, /^\d+\.\d+\.\d+$/);
  for (const name of sources) {
    for (const [, from] of read(`src/${name}`).matchAll(/^(?:import|export) .* from "(.*)"/gm)) {
      const allowed = name.startsWith("node/") ? /^(\.|node:)/ : name === "react.js" ? /^(\.\/|react$)/ : /^\.\//;
      assert.match(from, allowed, `${name} imports ${from}`);
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

test("the package holds sources, the single file, types and examples, and its lock names no registry", () => {
  execFileSync(process.execPath, ["scripts/bundle.js"], { cwd }); // the rest of `npm run build` was done above
  const pack = ["pack", "--dry-run", "--ignore-scripts", "--json", "--loglevel=silent"];
  const [{ files }] = JSON.parse(execFileSync("npm", pack, { cwd, encoding: "utf8" }).replace(/^[^[]*/, ""));
  const packed = files.map(({ path }) => path);
  for (const name of sources) {
    assert.ok(packed.includes(`src/${name}`), name);
    assert.ok(packed.includes(`types/${name.replace(/js$/, "d.ts")}`), `types of ${name}`);
  }
  for (const ending of ["", ".map", ".integrity"]) assert.ok(packed.includes(`dist/ldpbandits.min.js${ending}`), ending);
  assert.equal(read("dist/ldpbandits.min.js.integrity"), `${integrityOf(readFileSync(new URL("dist/ldpbandits.min.js", ROOT)))}\n`);
  assert.ok(packed.includes("LICENSE") && packed.includes("examples/respond.js"));
  assert.ok(!packed.some((path) => path.startsWith("test")));
  const { packages } = JSON.parse(read("package-lock.json"));
  assert.ok(!/https?:/.test(JSON.stringify(Object.values(packages).map(({ funding, ...others }) => others))));
});

test("packed and installed in an empty folder, as the README says, every entry is there, with types, and React is the app's own", (t) => {
  const { version } = JSON.parse(read("package.json"));
  assert.match(read("README.md"), /npm ci && npm pack\)\n    npm install \S+\/ldpbandits-\*\.tgz\n/);
  const app = mkdtempSync(join(tmpdir(), "ldpbandits-"));
  t.after(() => rmSync(app, { recursive: true }));
  const npm = (where, ...command) => execFileSync("npm", [...command, "--loglevel=silent"], { cwd: where, encoding: "utf8" });
  npm(cwd, "pack", "--ignore-scripts", "--pack-destination", app); // it was built above
  writeFileSync(join(app, "package.json"), '{ "type": "module" }');
  npm(app, "install", "--offline", "--no-audit", "--no-fund", `./ldpbandits-${version}.tgz`);
  for (const name of ["react", "@types", "@openfeature"]) symlinkSync(join(cwd, "node_modules", name), join(app, "node_modules", name));
  const program = `
    const entries = ["", "/curators", "/node", "/not-private", "/openfeature", "/react", "/dist/ldpbandits.min.js"];
    const all = await Promise.all(entries.map((entry) => import("ldpbandits" + entry)));
    console.log(all.flatMap(Object.keys).length, import.meta.resolve("ldpbandits/react"));`;
  const [names, where] = execFileSync(process.execPath, ["--input-type=module", "-e", program], { cwd: app, encoding: "utf8" }).trim().split(" ");
  const exported = [everything, curators, node, notPrivate, openfeature, react, everything].flatMap(Object.keys).length;
  assert.equal(Number(names), exported);
  assert.ok(where.includes("/node_modules/ldpbandits/src/react.js"), "not in the SDK's own folder, where React is another");
  cpSync(new URL("test/support/consumer.ts", ROOT), join(app, "consumer.ts"));
  for (const way of [["nodenext"], ["esnext", "--moduleResolution", "bundler"]]) {
    const used = tsc("--ignoreConfig", "--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--module", ...way, join(app, "consumer.ts"));
    assert.equal(used.status, 0, `${way}: ${used.stdout}`);
  }
});

test("in a worker, where there is no page and perhaps something that a bundler calls process, a ledger is in memory", () => {
  const program = `
    globalThis.process = { env: {} };
    const { Client } = await import("ldpbandits/dist/ldpbandits.min.js");
    const decision = { arm: 0, name: "a", ticket: "t", curator: { mechanism: "bernoulli", epsilon: 1 }, default: 0, report_after: 9, sticky: 0, expires_in: 99, status: "running", shipped: null, retired: [], max_age: 9 };
    const limits = { rewards: { kind: "range" }, epsilon: 1, budget: 1, window: 9 };
    const client = new Client("https://agent.test", "e", { key: "k", limits, fetch: async () => Response.json(decision) });
    console.log((await client.decide()).name, await client.remaining());`;
  assert.equal(execFileSync(process.execPath, ["--input-type=module", "-e", program], { cwd, encoding: "utf8" }), "a 0\n");
});
