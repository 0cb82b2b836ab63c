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

/** Return the number of a time that the kit states. */
function moment(time: string, type: string): bigint {
  return type === "integer" ? BigInt(time) : BigInt(Date.parse(time));
}

/** Return a sum over a number of rows, to the nearest integer, halves away from zero. */
function average(sum: number, rows: number): number {
  return Math.sign(sum) * Math.floor((2 * Math.abs(sum) + rows) / (2 * rows));
}

for (const one of KIT.people) {
  test(`rows of units: ${one.name}`, () => {
    const { features: fields, rowsOfUnit, clip } = ss.readAgreement(one.agreement);
    const features = new ss.Features(JSON.stringify(fields, (_, value) => (typeof value === "bigint" ? Number(value) : value)));
    const owned = new Map<string, { time: bigint; cells: number[] }[]>();
    one.units.forEach((unit: string, i: number) => {
      const time = rowsOfUnit?.time ? moment(one.times[i], rowsOfUnit.time.type) : 0n;
      owned.set(unit, [...(owned.get(unit) ?? []), { time, cells: [...features.transform(one.rows[i])].map(Number) }]);
    });
    const total: number[] = new Array(one.cells.length).fill(0);
    for (const own of owned.values()) {
      const end = own.map((row) => row.time).reduce((a, b) => ((rowsOfUnit?.which === "first") === a < b ? a : b));
      const rows = own.filter((row) => row.time === end).map((row) => row.cells);
      total.forEach((_, cell) => {
        const sum = rows.reduce((before, row) => before + row[cell], 0);
        total[cell] += clip === "average" ? average(sum, rows.length) : sum;
      });
    }
    assert.deepEqual(total.map((cell) => String(cell + 0)), one.cells);
  });
}

test("features that are none are refused", () => {
  for (const text of ["[]", "{}", '{"columns":[]}', '{"columns":[{"kind":"other"}],"seed":1,"joint":0}']) {
    assert.throws(() => new ss.Features(text), ss.WireFormatError, text);
  }
  assert.throws(() => new ss.Features(KIT.features[0].features).transform([1]), ss.InvalidInputError);
});
