import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { curatorFromSpec } from "ldpbandits/curators";
import { respondNotPrivate } from "ldpbandits/not-private";

const FOLDER = new URL("../../../vectors/", import.meta.url);
const FILES = ["ctb-range.json", "ctb-s.json", "ctb-t.json", "ctb.json", "ctl-range.json", "ctl-real-line.json", "ctl-s.json", "ctl-t.json", "ctl.json"];

test("every file of vectors/ is read here", () => {
  assert.deepEqual(readdirSync(FOLDER).filter((name) => name.endsWith(".json")).sort(), FILES);
});

for (const file of FILES) {
  test(`${file}: given its words, a curator gives the listed response, and consumes exactly those words`, () => {
    const cases = JSON.parse(readFileSync(new URL(file, FOLDER), "ascii"));
    assert.ok(cases.length >= 200);
    for (const { spec, reward, words, response } of cases) {
      const listed = words.match(/.{16}/g).map((/** @type {string} */ word) => BigInt(`0x${word}`));
      const draw = (/** @type {number} */ count) => {
        assert.ok(count <= listed.length, "more words than listed");
        return listed.splice(0, count);
      };
      const curator = curatorFromSpec(spec);
      assert.deepEqual(curator.spec, spec);
      assert.ok(Object.is(respondNotPrivate(curator, reward, draw), response));
      assert.equal(listed.length, 0, "fewer words than listed");
    }
  });
}
