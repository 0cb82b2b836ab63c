/** Ranges of windows of the conformance kit, from their rows. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { KIT, named } from "./kit.ts";

const read = (name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes));

for (const one of KIT.releases.filter((each) => each.range !== undefined)) {
  test(`range: ${one.name}`, () => {
    const { start, stop, minus_start: minusStart, minus_stop: minusStop } = one.history;
    const found = ss.rangeOf(one.range.map(read), { start, stop, minusStart, minusStop });
    assert.equal(ss.hex(found.toBytes()), one.bytes);
  });
}

test("schedules have the rows of their description", () => {
  const base = { maxWindows: 1, gap: 1 };
  const numbers = (schedule: ss.Schedule) => ss.matrixOf(schedule).map((row) => row.map(Number));
  assert.deepEqual(numbers({ ...base, kind: "separate", horizon: 2 }), [[1, 0], [0, 1]]);
  const tree = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 1, 1]];
  assert.deepEqual(numbers({ ...base, kind: "tree", horizon: 5, depth: 2 }), tree);
  const blocks = [[16, 0, 0, 0, 0, 0], [8, 16, 0, 0, 0, 0], [7, 7, 16, 0, 0, 0], [6, 6, 8, 16, 0, 0], [5, 5, 7, 7, 16, 0], [4, 4, 6, 6, 8, 16]];
  assert.deepEqual(numbers({ ...base, kind: "factorisation", horizon: 6, blocks: 2, bits: 4 }), blocks);
  const band = [[16, 0, 0], [8, 16, 0], [0, 8, 16]];
  assert.deepEqual(numbers({ ...base, kind: "factorisation", horizon: 3, blocks: 2, bits: 4, band: 2 }), band);
  assert.throws(() => ss.matrixOf({ ...base, kind: "separate", horizon: 100_000 }), ss.InvalidInputError);
});

test("rows that are none, or too few, are refused", () => {
  const [one] = KIT.releases.filter((each) => each.range !== undefined);
  assert.throws(() => ss.rangeOf([read("a part, x")], { start: 0, stop: 1 }), ss.InvalidInputError);
  assert.throws(() => ss.rangeOf([], { start: 0, stop: 1 }), ss.InvalidInputError);
  assert.throws(() => ss.rangeOf(one.range.slice(0, 1).map(read), { start: 0, stop: 3 }), ss.InvalidInputError);
  assert.throws(() => ss.rangeOf(one.range.map(read), { start: 2, stop: 1 }), ss.InvalidInputError);
});
