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

/** One cell with Laplace noise of scale 400. */
const ONE_CELL =
  "8953534b0d0a1a0a019a000000000000000a140a086964656e74697479100118012a0408021001120508011201001a1209d4585555ff8713411111010000a3e151422257097b14ae47e17a" +
  "643f1a110a026c311204080210011a056576656e74221b6469736372657465204c61706c6163652c207363616c652034303032120a100a076c61706c616365120508a00610013a08617373" +
  "65727465642a040802100132080001020304050607b33cb10f2eb507e617eaa59adf9297d8";

function ofOneCell(cell: number, place: number): ss.Release {
  const { message } = ss.readRelease(ss.unhex(ONE_CELL));
  return new ss.Release({ ...message, values: ss.Integers.of([BigInt(cell)]).toMessage(), releaseIds: [new Uint8Array(8).fill(place)] });
}

test("a small square of one cell has the p-value of its root", () => {
  const q = Math.exp(-1 / 400);
  const chance = (n: number) => ((1 - q) / (1 + q)) ** 2 * q ** n * (n + (1 + q * q) / (1 - q * q)); // of a sum of two
  for (const cell of [0, 1, 5, 20, 100, 400, 2000, 9000]) {
    let beyond = 0;
    for (let n = 40_000; n > cell; n--) beyond += 2 * chance(n);
    const [p, least, most] = [ss.sameness(ofOneCell(0, 1), ofOneCell(cell, 2)), beyond, beyond + 2 * chance(cell)];
    assert.ok(cell === 0 ? p === 1 : p > least * 0.997 && p < most * 1.003, `${cell}: ${p}, not ${least} … ${most}`);
  }
});

test("squares of two cells on a grid are never below 0", () => {
  const ofTwoCells = (cells: readonly bigint[], place: number): ss.Release => {
    const { message } = ofOneCell(0, place);
    return new ss.Release({ ...message, projection: { ...message.projection, dim: 2n, sketchDim: 2 }, values: ss.Integers.of([...cells]).toMessage() });
  };
  const p = ss.sameness(ofTwoCells([0n, 0n], 1), ofTwoCells([1n, 0n], 2));
  assert.ok(p > 0.9999 && p <= 1, `${p}: all but one pair in a million is as far apart`);
});

test("a tolerance far beyond the noise of one cell leaves the law of the noise", () => {
  const near = ss.sameness(ofOneCell(0, 1), ofOneCell(1_000_400, 2), 1_000_000);
  const far = ss.sameness(ofOneCell(0, 1), ofOneCell(1_000_000_400, 2), 1_000_000_000);
  assert.ok(near > 0 && Math.abs(far / near - 1) < 1e-3, `${far}, not ${near}`);
});

test("a transform and back is the same", () => {
  const values = Float64Array.from({ length: 16 }, (_, i) => Math.sin(i * i));
  valuesOf(spectrumOf(values, 16), 16).forEach((value, i) => assert.ok(Math.abs(value - values[i]) < 1e-14));
});

test("noise of unknown law, and tolerances that are none, are refused", () => {
  assert.throws(() => ss.sameness(read("by text alone"), read("a part, x")), ss.StreamsketchError);
  for (const tolerance of [-1, NaN, Infinity]) assert.throws(() => ss.sameness(read("a part, x"), read("a part, y"), tolerance), ss.InvalidInputError);
});
