import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { transform } from "esbuild";

import { Agent } from "./support/agent.js";

const read = (name) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");
const blocks = (language) => [...read("README.md").matchAll(new RegExp("```" + language + "\n(.*?)```", "gs"))].map(([, text]) => text);

test("the page of the README is examples/page.html, and a page can use the single file by its hash", () => {
  const [single, page] = blocks("html");
  assert.equal(page, read("examples/page.html"));
  assert.match(single, /src="\/ldpbandits\.min\.js" integrity="sha384-[\w+/]{64}"/); // tests/browser has one that runs
});

test("the component of the README shows the page's own value for the arm", async (t) => {
  const [text] = blocks("jsx");
  const agent = new Agent();
  agent.decision.name = "eager";
  const { url, stop } = await agent.serve();
  t.after(stop);
  const { code } = await transform(text.replace("https://agent.example", url), { loader: "jsx", jsx: "automatic" });
  // In a process of its own, with a document: as on a page, but for its ledger.
  const program = `
    import { Window } from "happy-dom";
    const window = new Window({ url: "https://shop.example/" });
    const globals = { window, document: window.document, navigator: { userAgent: "Mozilla/5.0" }, addEventListener() {}, IS_REACT_ACT_ENVIRONMENT: true };
    for (const [name, value] of Object.entries(globals)) Object.defineProperty(globalThis, name, { value, configurable: true });
    const { act, createElement } = await import("react");
    const { createRoot } = await import("react-dom/client");
    const { Buy } = await import("./component.mjs");
    const [{ pageStorage }, { memoryStorage }] = await Promise.all([import("../../src/page.js"), import("ldpbandits")]);
    Object.assign(pageStorage, memoryStorage(), { note: undefined });
    const element = document.createElement("div");
    document.body.append(element);
    await act(() => createRoot(element).render(createElement(Buy)));
    while (!element.textContent.includes("now")) await act(() => new Promise((resolve) => setTimeout(resolve, 5)));
    await act(() => element.querySelector("button").click());
    console.log(element.innerHTML);
    process.exit(0);`;
  const { out } = await run(t, { "component.mjs": code, "program.mjs": program });
  assert.equal(out.trim(), "<button>Buy now</button>");
  assert.equal(agent.asked.length, 1);
});

/** Run program.mjs among these files, inside the package, where its own name can be imported. */
async function run(t, files) {
  const types = fileURLToPath(new URL("../types", import.meta.url));
  mkdirSync(types, { recursive: true });
  const folder = mkdtempSync(`${types}/readme-`);
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) writeFileSync(`${folder}/${name}`, text);
  const child = spawn(process.execPath, ["program.mjs"], { cwd: folder });
  let [out, errors] = ["", ""];
  child.stdout.on("data", (text) => (out += text));
  child.stderr.on("data", (text) => (errors += text));
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0, errors);
  return { out };
}

test("the programs of the README run, and print something", async (t) => {
  const agent = new Agent();
  agent.decision.name = "eager";
  const { url, stop } = await agent.serve();
  t.after(stop);
  const programs = blocks("js");
  const outs = [];
  for (const program of programs) outs.push((await run(t, { "program.mjs": program.replace("https://agent.example", url) })).out.trim());
  assert.deepEqual([outs[0], outs[1]], ["1 eager", "Buy now"]);
  assert.match(outs[2], /^[01]$/);
  assert.equal(outs.length, 3);
  assert.equal(agent.counted.size, 2);
});
