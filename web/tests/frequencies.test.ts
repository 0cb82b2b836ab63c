/** Frequencies of the conformance kit. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { checkEnds, checkEstimate } from "./comparing.ts";
import { KIT, named } from "./kit.ts";

KIT.frequencies.forEach((one, place) => {
  test(`frequency ${place}: ${one.estimator ?? "dictionary"} of ${one.of.join(" less ")}`, () => {
    const [x, y] = one.of.map((name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes)));
    const estimate = () =>
      "dictionary" in one
        ? ss.missedBy(x, one.dictionary.map(BigInt))
        : ss.frequency(x, BigInt(one.item), { less: y, estimator: one.estimator });
    if (one.undefined) return assert.throws(estimate, ss.InvalidInputError);
    const found = estimate();
    checkEstimate(found, one);
    if (found instanceof ss.FrequencyEstimate) {
      assert.equal(found.chosen, one.chosen);
      checkEnds(found.intervalAmong(one.together.candidates, one.together.confidence), one.together, "together");
    }
  });
});
