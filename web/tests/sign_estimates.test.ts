/** Hamming distances, angles and cosines of the conformance kit's signs. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { checkNumber } from "./comparing.ts";
import { KIT, named } from "./kit.ts";

for (const one of KIT.sign_estimates) {
  test(`signs: ${one.of.join(" and ")}`, () => {
    const [x, y] = one.of.map((name: string) => ss.readSigns(ss.unhex(named("signs", name).bytes)));
    assert.equal(ss.hamming(x, y), one.hamming);
    for (const [name, estimator] of [["angle", ss.angle], ["cosine", ss.signCosine]] as const) {
      const stated = one[name];
      const estimate = () => estimator(x, y, { norms: one.norms });
      if (stated.undefined) {
        assert.throws(estimate, ss.InvalidInputError);
        continue;
      }
      const found = estimate();
      checkNumber(found.value, stated.value, name);
      checkNumber(found.projectionVariance, stated.projection_variance, `${name}: projection's variance`);
      checkNumber(found.noiseVariance, stated.noise_variance, `${name}: noise's variance`);
      assert.deepEqual([found.lowest, found.highest], stated.range);
    }
  });
}

test("one release has no angle with itself", () => {
  const x = ss.readSigns(ss.unhex(KIT.signs[0].bytes));
  assert.throws(() => ss.hamming(x, x), ss.DependentNoiseError);
});
