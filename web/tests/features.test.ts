/** Features of the conformance kit. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { KIT } from "./kit.ts";

for (const one of KIT.features) {
  test(`features: ${one.name}`, () => {
    const features = new ss.Features(one.features);
    one.rows.forEach((row: ss.Entry[], i: number) => assert.deepEqual([...features.transform(row)].map(String), one.cells[i], JSON.stringify(row)));
  });
}

test("features that are none are refused", () => {
  for (const text of ["[]", "{}", '{"columns":[]}', '{"columns":[{"kind":"other"}],"seed":1,"joint":0}']) {
    assert.throws(() => new ss.Features(text), ss.WireFormatError, text);
  }
  assert.throws(() => new ss.Features(KIT.features[0].features).transform([1]), ss.InvalidInputError);
});
