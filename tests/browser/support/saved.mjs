/** The pages that commands save: plan, audits, report, papers. */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { pathToFileURL } from "node:url";

import { ROOT } from "./browser.mjs";

const run = promisify(execFile);

/** Panels of the report: of one picture and of two, alone in a row and in pairs, and one beyond the paper. */
const PANELS = ["1a", "1b", "1c", "1d", "1e", "tails"];

/** Let `ldpbandits` save its pages into a folder, with papers about an experiment of the agent; returns their addresses by name. */
export async function savePages(folder, agent, experiment) {
  const python = process.env.PYTHON ?? join(ROOT, ".venv/bin/python");
  const env = { ...process.env, PYTHONPATH: join(ROOT, "src"), LDPBANDITS_ADMIN_KEY: agent.keys.admin };
  const ldpbandits = (words) => run(python, ["-m", "ldpbandits", ...words], { cwd: folder, env });
  await Promise.all([
    ldpbandits(["plan", "--baseline", "0.3", "--lift", "0.5", "--epsilon", "1,2,4", "--users", "5000", "--trials", "20", "--horizon", "1e5", "--out", "plan.html"]),
    ldpbandits(["audit", "--curator", "ctb", "--epsilon", "1", "--samples", "1e5", "--out", "audit-bits.html"]),
    ldpbandits(["audit", "--curator", "ctl", "--epsilon", "1", "--samples", "1e5", "--out", "audit.html"]),
    ldpbandits(["reproduce", "--out", "report", "--horizon", "1e4", "--trials", "4", ...PANELS.flatMap((panel) => ["--panel", panel])]),
    ldpbandits(["papers", experiment, "--out", "papers", "--url", agent.url]),
  ]);
  const files = ["plan", "audit-bits", "audit", "report/report", "papers/dpia", "papers/notice", "papers/storage"];
  return Object.fromEntries(files.map((file) => [file.split("/").at(-1), pathToFileURL(join(folder, `${file}.html`)).href]));
}
