/** Sums over entries of histograms, and asserted agreements, as Python computes them. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import page from "./page.json";
import cases from "./sums.json";

const ESTIMATES = { l1Norm: ss.l1Norm, distinct: ss.distinct, entropy: ss.entropy } as const;

for (const one of cases as unknown as (Record<string, any> & { name: string; bytes: string; agreed: string })[]) {
  test(`sums over the entries of a histogram: ${one.name}`, () => {
    const release = ss.readRelease(ss.unhex(one.bytes));
    assert.equal(ss.hex(release.withAgreement("00112233445566778899aabbccddeeff").toBytes()), one.agreed);
    for (const [name, estimate] of Object.entries(ESTIMATES)) {
      for (const nonnegative of [false, true]) {
        const stated = one[`${name} ${nonnegative ? "True" : "False"}`];
        if (stated === null) {
          assert.throws(() => estimate(release, { nonnegative }), ss.InvalidInputError);
          continue;
        }
        const found = estimate(release, { nonnegative });
        const { low, high } = found.interval();
        // Python puts wide noise on a coarser lattice: where few entries are at 0, variances agree to a share of 1e-3
        const share = one.name.startsWith("wide") ? 1e-3 : 1e-9;
        [found.value, found.standardError ** 2, low, high].forEach((value, place) => {
          const within = place === 0 ? 1e-9 * Math.max(1, Math.abs(stated[0])) : share * Math.max(Math.sqrt(stated[1]), Math.abs(stated[place]));
          assert.ok(Math.abs(value - stated[place]) <= within, `${name} ${nonnegative}: ${value} is not ${stated[place]}`);
        });
      }
    }
  });
}

test("an agreement is asserted for a release that states none, which is then comparable", () => {
  const [first, second] = (cases as unknown as { bytes: string }[]).map(({ bytes }) => ss.readRelease(ss.unhex(bytes)));
  const agreed = first.withAgreement("ab".repeat(16));
  assert.equal(agreed.agreement, "ab".repeat(16));
  assert.throws(() => ss.squaredDistance(agreed, second), ss.IncompatibleError);
  assert.equal(ss.squaredDistance(agreed, second.withAgreement(agreed.agreement)).value, ss.squaredDistance(first, second).value);
  assert.deepEqual(agreed.withAgreement(null).toBytes(), first.toBytes());
  for (const none of ["", "AB".repeat(16), "ab"]) assert.throws(() => first.withAgreement(none), ss.InvalidInputError);
});

test("sums over entries are refused for sketches of other maps", () => {
  const [text] = Object.values(page.cases[0].releases);
  const release = ss.readRelease(Uint8Array.from(atob(text as string), (letter) => letter.charCodeAt(0)));
  for (const estimate of Object.values(ESTIMATES)) assert.throws(() => estimate(release), ss.InvalidInputError);
});
