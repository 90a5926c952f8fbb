/**
 * The SDK in one file, `dist/ldpbandits.min.js`, and its service worker in another, `dist/ldpbandits-worker.min.js`, with
 * their maps and the hashes by which a page, or a visitor, makes sure of them. The same sources give the same bytes,
 * wherever they are built: esbuild is pinned, and no path of this machine gets in.
 *
 *     node scripts/bundle.js          writes dist/, and the licence beside it
 *     node scripts/bundle.js --quote  writes the hashes and the sizes into README.md
 */

import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The files that sites serve, by their entries. @type {Record<string, string>} */
const FILES = { index: "ldpbandits.min.js", worker: "ldpbandits-worker.min.js" };

/** What a page has to load: the most that an entry may have, bundled, minified and gzipped, in bytes. */
export const BUDGET = { curators: 2048, index: 10624, openfeature: 1792, react: 1088, worker: 3072 };

/**
 * One entry in one file, minified.
 *
 * @param {string} entry a file of src/, without its ending
 * @param {string} [root] where src/ is
 */
export async function bundled(entry, root = ROOT) {
  const { version, license } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const { outputFiles } = await build({
    absWorkingDir: root,
    entryPoints: [`src/${entry}.js`],
    outfile: `dist/${FILES[entry] ?? `${entry}.min.js`}`,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    external: ["react"],
    banner: { js: `/*! ldpbandits ${version}, ${license} */` },
    sourcemap: "linked",
    tsconfigRaw: {}, // what the type checker is told is not a matter of the bundle
    write: false,
  });
  const [map, { contents }] = outputFiles;
  return { contents, map: map.contents, bytes: gzipSync(contents, { level: 9 }).length };
}

/**
 * What a `<script>` says of a file in its attribute `integrity`.
 *
 * @param {Uint8Array} contents
 */
export function integrityOf(contents) {
  return `sha384-${createHash("sha384").update(contents).digest("base64")}`;
}

/**
 * A text that quotes hash and sizes as they are.
 *
 * @param {string} text
 */
export async function quoted(text) {
  for (const [entry, most] of Object.entries(BUDGET)) {
    const { contents, bytes } = await bundled(entry);
    text = text.replace(new RegExp(`(\\| \`${entry}\` \\|) \\d+ \\| \\d+ \\|`), `$1 ${bytes} | ${most} |`);
    const file = FILES[entry];
    if (file) text = text.replace(new RegExp(`(${file}" integrity="|${file}\`: \`)sha384-[\\w+/=]+`, "g"), `$1${integrityOf(contents)}`);
  }
  return text;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] === "--quote") {
    const readme = join(ROOT, "README.md");
    writeFileSync(readme, await quoted(readFileSync(readme, "utf8")));
  } else {
    mkdirSync(join(ROOT, "dist"), { recursive: true });
    for (const [entry, name] of Object.entries(FILES)) {
      const { contents, map, bytes } = await bundled(entry);
      writeFileSync(join(ROOT, "dist", name), contents);
      writeFileSync(join(ROOT, "dist", `${name}.map`), map);
      writeFileSync(join(ROOT, "dist", `${name}.integrity`), `${integrityOf(contents)}\n`);
      console.log(`dist/${name}: ${contents.length} bytes, ${bytes} gzipped, integrity ${integrityOf(contents)}`);
    }
    copyFileSync(join(ROOT, "../../LICENSE"), join(ROOT, "LICENSE")); // a package has its own
  }
}
