import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { Agent } from "./support/agent.js";

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");
const blocks = (language) => [...read("README.md").matchAll(new RegExp("```" + language + "\n(.*?)```", "gs"))].map(([, text]) => text);

test("the page of the README is examples/page.html", () => {
  assert.deepEqual(blocks("html"), [read("examples/page.html")]);
});

test("the programs of the README run, and print something", async (t) => {
  const agent = new Agent();
  const { url, stop } = await agent.serve();
  t.after(stop);
  // Inside the package, where its own name can be imported.
  const types = fileURLToPath(new URL("../types", import.meta.url));
  mkdirSync(types, { recursive: true });
  const folder = mkdtempSync(`${types}/readme-`);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const programs = blocks("js");
  assert.equal(programs.length, 2);
  for (const program of programs) {
    writeFileSync(`${folder}/program.mjs`, program.replace("https://agent.example", url));
    const child = spawn(process.execPath, ["program.mjs"], { cwd: folder });
    let [out, errors] = ["", ""];
    child.stdout.on("data", (text) => (out += text));
    child.stderr.on("data", (text) => (errors += text));
    const code = await new Promise((resolve) => child.on("close", resolve));
    assert.equal(code, 0, errors);
    assert.ok(out);
  }
  assert.equal(agent.counted.size, 1);
});
