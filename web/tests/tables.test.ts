/** Tables and statements of the conformance kit. */
import assert from "node:assert/strict";
import test from "node:test";
import { hex, keyText, readTable, SignatureError, unhex, utf8, verify, WireFormatError } from "./api.ts";
import { KIT } from "./kit.ts";

for (const one of KIT.tables) {
  test(`table: ${one.name}`, () => {
    const table = readTable(unhex(one.bytes));
    assert.equal(table.kind, one.kind);
    assert.equal(table.keyType === "time" ? "nanoseconds" : table.keyType, one.keys.type);
    const keys = table.keys.map((key) => (key instanceof Uint8Array ? hex(key) : table.keyType === "date" ? keyText(key, "date") : String(key)));
    assert.deepEqual(keys, one.keys.items);
    assert.deepEqual(table.releases.map((release) => hex(release.toBytes())), one.rows);
  });
}

for (const one of KIT.refused.filter((one) => one.kind.endsWith("Table"))) {
  test(`refused: ${one.kind}, ${one.name}`, () => assert.throws(() => readTable(unhex(one.bytes)), WireFormatError));
}

for (const one of KIT.statements) {
  test(`statement: ${one.name}`, async () => {
    const found = verify(unhex(one.file), one.bundle, [one.signer]);
    if ("reason" in one) return assert.rejects(() => found, SignatureError);
    const { predicate, ...said } = await found;
    assert.deepEqual(JSON.parse(JSON.stringify(predicate, (_, value) => (typeof value === "bigint" ? Number(value) : value))), one.states);
    for (const name of ["kind", "guarantee", "agreement", "library", "expires"] as const) assert.equal(said[name], one.states[name], name);
    assert.equal(said.isInside, one.bundle === null);
  });
}

test("times are shown to the nanosecond, before 1970 too", () => {
  assert.equal(keyText(-1n, "time"), "1969-12-31T23:59:59.999999999Z");
  assert.equal(keyText(0n, "time"), "1970-01-01T00:00:00Z");
  assert.equal(keyText(20_000n, "date"), "2024-10-04");
  assert.equal(keyText(2n ** 62n, "date"), "day 4611686018427387904");
  assert.equal(utf8("ä").length, 2);
});
