/** What a page has to load: each entry bundled and minified by esbuild, then gzipped, in bytes. */

import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

export const BUDGET = { curators: 2048, index: 7680 };

/** @param {string} entry a file of src/, without its ending */
export async function bundled(entry) {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL(`../src/${entry}.js`, import.meta.url))],
    bundle: true,
    minify: true,
    format: "esm",
    write: false,
  });
  const [{ contents }] = outputFiles;
  return { contents, bytes: gzipSync(contents, { level: 9 }).length };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [entry, most] of Object.entries(BUDGET)) {
    const { bytes } = await bundled(entry);
    console.log(`| \`${entry}\` | ${bytes} | ${most} |`);
  }
}
