/** Estimates of the conformance kit, and intervals. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "../src/index.ts";
import { checkEnds, checkEstimate, checkNumber } from "./comparing.ts";
import { KIT, named, type Case } from "./kit.ts";

type Estimator = (...of: any[]) => ss.Estimate;
const ESTIMATORS: Record<string, Estimator> = {
  squared_norm: ss.squaredNorm,
  squared_distance: ss.squaredDistance,
  inner_product: ss.innerProduct,
  cosine: ss.cosine,
  normalised_inner_product: ss.normalisedInnerProduct,
  units: ss.units,
  total: ss.total,
  mean_norm: ss.meanNorm,
  mean_distance: ss.meanDistance,
  mean_product: ss.meanProduct,
};

function releases(one: Case): ss.Release[] {
  return one.of.map((name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes)));
}

KIT.estimates.forEach((one, place) => {
  test(`estimate ${place}: ${one.estimate} of ${one.of.join(" and ")}`, () => {
    const of = releases(one);
    if (one.estimate === "pairwise") {
      const found = ss.pairwise(of);
      one.pairs.flat().forEach((pair: Case, i: number) => {
        checkNumber(found.value[i], pair.value, "value");
        checkNumber(found.projectionVariance[i], pair.projection_variance, "projection's variance");
        checkNumber(found.noiseVariance[i], pair.noise_variance, "noise's variance");
      });
      return;
    }
    const estimator = ESTIMATORS[one.estimate];
    if (one.undefined) return assert.throws(() => estimator(...of), ss.StreamsketchError);
    checkEstimate(estimator(...of, ...(one.norms ?? [])), one);
  });
});

KIT.simultaneous.forEach((one, place) => {
  test(`simultaneous ${place}: ${one.estimate} of ${one.of.join(" and ")}`, () => {
    const found = ESTIMATORS[one.estimate](...releases(one), ...(one.norms ?? []));
    checkEnds(found.intervalAmong(one.candidates, one.confidence), one.interval, "interval");
  });
});

test("all pairs agree with pair by pair, for every measure", () => {
  const of = ["a part, x", "a part, y", "a part, z"].map((name) => ss.readRelease(ss.unhex(named("releases", name).bytes)));
  for (const by of ["squaredDistance", "innerProduct"] as const) {
    const found = ss.pairwise(of, by);
    for (const [i, j] of [[0, 1], [0, 2], [1, 2]]) {
      const one = ss[by](of[i], of[j]);
      assert.ok(Math.abs(found.value[i * 3 + j] - one.value) <= 1e-9 * Math.abs(one.value));
      assert.equal(found.value[i * 3 + j], found.value[j * 3 + i]);
      assert.ok(Math.abs(found.noiseVariance[i * 3 + j] - one.noiseVariance) <= 1e-9 * one.noiseVariance);
    }
  }
});

test("releases that share noise, or are of different maps, are not compared", () => {
  const read = (name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes));
  const x = read("a part, x");
  assert.throws(() => ss.squaredDistance(x, x), ss.DependentNoiseError);
  assert.throws(() => ss.innerProduct(x, read("identity, x")), ss.IncompatibleError);
  assert.throws(() => ss.pairwise([x, x]), ss.DependentNoiseError);
});
