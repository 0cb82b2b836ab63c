/** Intervals among 10⁹ candidates at the highest confidence that a number holds: 1 minus what each may miss is 1. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { KIT, named } from "./kit.ts";

const HIGHEST = 1 - 2 ** -53;

function check(found: ss.Estimate, name: string): void {
  let before = found.interval(0.95);
  for (const candidates of [2, 1000, 1e6, 1e9, 2 ** 64]) {
    const { low, high } = found.intervalAmong(candidates, HIGHEST);
    const isBounded = found.curvature === 0 || Number.isFinite(found.highest); // few cells bound no others
    assert.ok(isBounded ? Number.isFinite(low) && Number.isFinite(high) : low < high, `${name}: ${low} … ${high} among ${candidates}`);
    assert.ok(low <= before.low && high >= before.high, `${name}: not farther among ${candidates}`);
    before = { low, high };
  }
  for (const candidates of [0, 1.5, 2 ** 65, 1e308]) assert.throws(() => found.intervalAmong(candidates, HIGHEST), /from 1 to 2\^64/, name);
}

test("frequencies have finite intervals among many", () => {
  for (const one of KIT.frequencies.filter((one) => !one.undefined && "item" in one)) {
    const [x, y] = one.of.map((name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes)));
    check(ss.frequency(x, BigInt(one.item), { less: y, estimator: one.estimator }), `${one.estimator} of ${one.of.join(" less ")}`);
  }
});

test("angles of signs have finite intervals among many", () => {
  for (const one of KIT.sign_estimates.filter((one) => !one.angle.undefined)) {
    const [x, y] = one.of.map((name: string) => ss.readSigns(ss.unhex(named("signs", name).bytes)));
    check(ss.angle(x, y, { norms: one.norms }), one.of.join(" and "));
  }
});

test("joint estimates have intervals at the highest confidence", () => {
  const names = KIT.joint[0].of;
  const pairs = ss.jointPairs(names.map((name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes))));
  const { low, high } = pairs.at(0, 1).interval(HIGHEST);
  assert.ok(low >= -1 && high <= 1 && low <= high, `${low} … ${high}`);
});
