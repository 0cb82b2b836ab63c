/** Compares estimates with those of the kit, within their tolerances. */
import assert from "node:assert/strict";
import type { Estimate, Interval } from "../src/index.ts";
import type { Case } from "./kit.ts";

export function checkNumber(found: number, stated: { value: number; within: number }, name: string): void {
  assert.ok(Math.abs(found - stated.value) <= stated.within, `${name}: ${found} is not ${stated.value} ± ${stated.within}`);
}

export function checkEnds(found: Interval, stated: Case, name: string): void {
  for (const end of ["low", "high"] as const) {
    const [value, wanted] = [found[end], stated[end]];
    if (wanted === null) assert.ok(!Number.isFinite(value), `${name} ${end}: ${value}`);
    else checkNumber(value, { value: wanted, within: stated.within }, `${name} ${end}`);
  }
}

export function checkEstimate(found: Estimate, stated: Case): void {
  checkNumber(found.value, stated.value, "value");
  checkNumber(found.projectionVariance, stated.projection_variance, "projection's variance");
  checkNumber(found.noiseVariance, stated.noise_variance, "noise's variance");
  checkNumber(found.standardError, stated.standard_error, "standard error");
  assert.deepEqual([found.lowest, found.highest].map((end) => (Number.isFinite(end) ? end : null)), stated.range);
  for (const one of stated.intervals ?? []) checkEnds(found.interval(one.confidence, one.method), one, `${one.method} ${one.confidence}`);
}
