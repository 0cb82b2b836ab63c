/** Tests of sameness of the conformance kit. */
import assert from "node:assert/strict";
import test from "node:test";
import { spectrumOf, valuesOf } from "../src/fourier.ts";
import * as ss from "./api.ts";
import { checkNumber } from "./comparing.ts";
import { KIT, named } from "./kit.ts";

const read = (name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes));

for (const one of KIT.sameness) {
  test(`sameness: ${one.of.join(" and ")}, ${one.tolerance}`, () => {
    const [x, y] = one.of.map(read);
    checkNumber(ss.sameness(x, y, one.tolerance), one.p_value, "p-value");
  });
}

test("a transform and back is the same", () => {
  const values = Float64Array.from({ length: 16 }, (_, i) => Math.sin(i * i));
  valuesOf(spectrumOf(values, 16), 16).forEach((value, i) => assert.ok(Math.abs(value - values[i]) < 1e-14));
});

test("noise of unknown law, and tolerances that are none, are refused", () => {
  assert.throws(() => ss.sameness(read("by text alone"), read("a part, x")), ss.StreamsketchError);
  for (const tolerance of [-1, NaN, Infinity]) assert.throws(() => ss.sameness(read("a part, x"), read("a part, y"), tolerance), ss.InvalidInputError);
});
