/** Projections and streams of the conformance kit: maps, hashing and sketching. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { KIT, plain, type Case } from "./kit.ts";

for (const one of KIT.projections) {
  const { kind } = one.fields;
  test(`projection: ${one.json.slice(0, 80)}`, () => {
    const projection = ss.readProjection(one.json);
    assert.equal(ss.projectionJson(projection), one.json);
    assert.equal(ss.projectionFingerprint(projection), one.fingerprint);
    assert.equal(projection.kind, kind);
    assert.equal(ss.scaleSquared(projection).toNumber(), one.scale_squared);
    const law = ss.varianceLaw(projection);
    for (const name of ["a", "b", "c"] as const) assert.equal(law[name].toNumber(), one.variance[name], name);
    const fields = plain(projection);
    assert.deepEqual(JSON.parse(JSON.stringify({ ...one.fields, ...fields })), JSON.parse(JSON.stringify(one.fields)));
    const matrix = new ss.Matrix(projection);
    for (const { index, nonzeros } of one.columns) {
      const { rows, entries } = matrix.column(BigInt(index));
      assert.deepEqual(Array.from(rows, (row, i) => [row, entries[i]]), nonzeros, index);
    }
  });
}

const ITEMS: Record<string, (item: any) => ss.Part> = {
  integer: BigInt,
  nanoseconds: (item) => new ss.Nanoseconds(BigInt(item)),
  text: String,
  bytes: ss.unhex,
  date: ss.Day.parse,
  time: (item) => {
    const [, second, fraction = "", zone] = /^(.*?:\d\d(?::\d\d)?)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?$/.exec(item) as RegExpExecArray;
    return new ss.Nanoseconds(BigInt(Date.parse(`${second}${zone ?? "Z"}`)) * 1_000_000n + BigInt(fraction.padEnd(9, "0")));
  },
};

for (const one of KIT.streams) {
  test(`stream: ${one.name}`, () => {
    const projection = ss.readProjection(one.projection);
    const columns: ss.Part[][] = one.keys.map((column: Case) => column.items.map(ITEMS[column.type]));
    const items = columns[0].map((_, i) => (columns.length === 1 ? columns[0][i] : columns.map((column) => column[i])));
    const indices = ss.hashItems(projection, items);
    assert.deepEqual(indices.map(String), one.indices);
    const exact = (value: any) => (one.values.type === "float" ? ss.Ratio.of(value) : ss.Ratio.parse(String(value)));
    const steps = one.values.items.map((value: any) => {
      const { numerator, denominator } = exact(value).over(projection.resolution);
      return numerator / denominator; // toward zero
    }) as bigint[];
    assert.deepEqual(steps.map(String), one.steps);
    const matrix = new ss.Matrix(projection);
    const cells = Array.from({ length: projection.sketchDim }, () => 0n);
    indices.forEach((index, i) => {
      const { rows, entries } = matrix.column(index);
      rows.forEach((row, at) => (cells[row] += steps[i] * BigInt(entries[at])));
    });
    assert.deepEqual(cells.map(String), one.cells);
  });
}

test("a matrix of more entries than the limits allow is not read", () => {
  const projection = ss.readProjection(KIT.projections.find((one) => one.fields.kind === "rademacher")?.json);
  assert.throws(() => new ss.Matrix(projection, { maxEntries: 3 }).column(0n), ss.InvalidInputError);
});

test("integers are indices, and other items need a hashed domain", () => {
  const projection = { dim: 10n, seed: 7n };
  assert.deepEqual(ss.hashItems(projection, [3, 9n]), [3n, 9n]);
  for (const item of [10, -1, "a", 0.5, [1, 2]]) assert.throws(() => ss.hashItems(projection, [item]), ss.InvalidInputError);
  assert.throws(() => ss.hashItems({ dim: 1n << 60n, seed: 7n }, ["\ud800"]), ss.InvalidInputError);
});
