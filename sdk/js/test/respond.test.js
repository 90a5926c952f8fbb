import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const PROGRAM = fileURLToPath(new URL("../examples/respond.js", import.meta.url));
const run = (input, ...flags) => spawnSync(process.execPath, [PROGRAM, ...flags], { input, encoding: "utf8", maxBuffer: 1e9 });

test("one reward a line in, one response a line out, for each curator, also without a last newline", () => {
  for (const [name, input] of [["ctb", "0\n0.5\n1"], ["ctl", "0\n1e-3\n1\n"], ["ctb-s", "-1e9\n0\n12\n"], ["ctl-s", "7\r\n-7\r\n0\r\n"], ["ctb-t(0.5)", "-1e9\n0.5\n7\n"], ["ctl-t(-1e2)", "-1e9\n0.5\n7\n"]]) {
    const { status, stdout, stderr } = run(input, "--curator", name, "--epsilon", "1");
    assert.equal(status, 0, stderr);
    const responses = stdout.trimEnd().split("\n").map(Number);
    assert.equal(responses.length, 3);
    for (const response of responses) {
      assert.ok(name.startsWith("ctb") ? response === 0 || response === 1 : Number.isInteger(response * 2 ** 20));
    }
  }
});

test("a hundred thousand rewards give a hundred thousand responses of the right law (false alarm below 1e-8)", () => {
  const n = 100_000;
  const { stdout } = run("1\n".repeat(n), "--curator", "ctb", "--epsilon", "1");
  const responses = stdout.trimEnd().split("\n");
  assert.equal(responses.length, n);
  const heads = Math.E / (1 + Math.E);
  const ones = responses.filter((response) => response === "1").length;
  assert.ok(Math.abs(ones / n - heads) < 6 * Math.sqrt((heads * (1 - heads)) / n));
});

test("bad input is one line on stderr and exit code 2, without the reward", () => {
  const good = ["--curator", "ctb", "--epsilon", "1"];
  const bad = [["86.75\n", ...good], ["\n", ...good], ["eighty\n", ...good], ["1\n"], ["1\n", "--curator", "ctb"], ["1\n", "--curator", "toString", "--epsilon", "1"], ["1\n", "--curator", "ctb", "--epsilon", "0"], ["1\n", "--curator", "ctb-t(x)", "--epsilon", "1"], ["1\n", "--curator", "ctb-t", "--epsilon", "1"], ["1\n", ...good, "--seed", "1"]];
  for (const [input, ...flags] of bad) {
    const { status, stderr, stdout } = run(input, ...flags);
    assert.deepEqual([status, stdout], [2, ""], flags.join(" "));
    assert.match(stderr, /^respond\.js: .*\n$/);
    assert.ok(!/86\.75|eighty/.test(stderr));
  }
});
