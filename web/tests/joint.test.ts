/** Joint estimates of the conformance kit, and their laws. */
import assert from "node:assert/strict";
import test from "node:test";
import { axesOf, composed } from "../src/eigen.ts";
import * as ss from "../src/index.ts";
import { KIT, named, type Case } from "./kit.ts";

const MEASURES: Record<string, ss.JointMeasure> = { cosine: "cosine", squared_distance: "squaredDistance", inner_product: "innerProduct" };

function releases(one: Case): ss.Release[] {
  return one.of.map((name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes)));
}

function numbersOf(found: ss.JointEstimates, of: (one: ss.JointEstimate) => number): number[] {
  const numbers: number[] = [];
  for (let i = 0; i < found.size; i++) for (let j = i + 1; j < found.size; j++) numbers.push(of(found.at(i, j)));
  return numbers;
}

function checkAll(found: readonly number[], stated: { value: number[]; within: number }, name: string): void {
  assert.equal(found.length, stated.value.length);
  found.forEach((one, i) => assert.ok(Math.abs(one - stated.value[i]) <= stated.within, `${name} ${i}: ${one} is not ${stated.value[i]} ± ${stated.within}`));
}

KIT.joint.forEach((one, place) => {
  test(`joint ${place}: ${one.by} of ${one.of.length} releases, ${one.order ?? "unordered"}`, () => {
    const found = ss.jointPairs(releases(one), { by: MEASURES[one.by], order: one.order });
    assert.deepEqual([found.model.target, found.model.strength, found.model.folds], [one.target, one.strength, 2]);
    assert.ok(Math.abs(found.model.weight - one.weight.value) <= one.weight.within);
    checkAll(numbersOf(found, (pair) => pair.value), one.value, "value");
    checkAll(numbersOf(found, (pair) => pair.standardError), one.standard_error, "standard error");
    checkAll(numbersOf(found, (pair) => pair.interval().low), one.low, "low");
    checkAll(numbersOf(found, (pair) => pair.interval().high), one.high, "high");
  });
});

test("the kit has both targets, hidden streams, unequal noise and matrices that no vectors have", () => {
  assert.deepEqual(new Set(KIT.joint.map((one) => one.target)), new Set(["common", "lag"]));
  assert.deepEqual(new Set(KIT.joint.map((one) => one.order)), new Set([null, "time"]));
  assert.ok(KIT.joint.some((one) => one.of.includes("no month") && one.low.value.includes(-1) && one.high.value.includes(1)));
});

test("profile distances are those of cosines, and intervals that hold together contain the values", () => {
  const of = releases(KIT.joint[0]);
  const [cosines, profiles] = (["cosine", "profileDistance"] as const).map((by) => ss.jointPairs(of, { by, order: "time" }));
  for (let i = 0; i < of.length; i++) {
    for (let j = 0; j < i; j++) {
      const [cosine, profile] = [cosines.at(i, j), profiles.at(i, j)];
      assert.ok(Math.abs(profile.value - (2 - 2 * cosine.value)) <= 1e-9);
      assert.ok(Math.abs(profile.standardError - 2 * cosine.standardError) <= 1e-9);
      const [ends, of] = [cosine.interval(), profile.interval()];
      assert.ok(Math.abs(of.low - (2 - 2 * ends.high)) <= 1e-9 && Math.abs(of.high - (2 - 2 * ends.low)) <= 1e-9);
      const wide = cosine.intervalAmong(15);
      assert.ok(wide.low <= cosine.value && cosine.value <= wide.high);
      assert.ok(wide.low <= ends.low && ends.high <= wide.high);
    }
  }
});

test("the order of unordered streams does not matter", () => {
  const of = releases(KIT.joint[0]);
  const order = [3, 0, 5, 1, 4, 2];
  const [once, again] = [of, order.map((place) => of[place])].map((some) => ss.jointPairs(some));
  order.forEach((from, i) => order.forEach((to, j) => assert.ok(Math.abs(again.at(i, j).value - once.at(from, to).value) <= 1e-9)));
});

test("joint estimates are refused where there are none", () => {
  const [x, y] = releases(KIT.joint[0]);
  const before = ["x", "y"].map((name) => ss.readRelease(ss.unhex(named("releases", `fjlt, noise before the map, ${name}`).bytes)));
  const few = ["x", "y"].map((name) => ss.readRelease(ss.unhex(named("releases", `3 cells, laplace, ${name}`).bytes)));
  assert.throws(() => ss.jointPairs([x]), ss.InvalidInputError);
  assert.throws(() => ss.jointPairs(before), /noise on the cells/);
  assert.throws(() => ss.jointPairs(few), /at least 4 cells, these have 3/);
  assert.throws(() => ss.jointPairs([x, y, x]), ss.DependentNoiseError);
});

test("axes of symmetric matrices rebuild them, and are orthonormal", () => {
  for (const n of [1, 2, 3, 9, 40]) {
    const matrix = new Float64Array(n * n);
    for (let i = 0; i < n; i++) for (let j = 0; j <= i; j++) matrix[i * n + j] = matrix[j * n + i] = i % 5 === 4 ? 0 : Math.sin(3 * i * j + i + j);
    const { values, vectors } = axesOf(matrix, n);
    composed(values, vectors, n).forEach((one, at) => assert.ok(Math.abs(one - matrix[at]) <= 1e-12 * n));
    for (let a = 0; a < n; a++) {
      for (let b = 0; b < n; b++) {
        let sum = 0;
        for (let i = 0; i < n; i++) sum += vectors[i * n + a] * vectors[i * n + b];
        assert.ok(Math.abs(sum - Number(a === b)) <= 1e-12 * n);
      }
    }
  }
});
