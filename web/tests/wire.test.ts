/** Releases and signs of the conformance kit: bytes to fields and back, and bytes that must be refused. */
import assert from "node:assert/strict";
import test from "node:test";
import { readRelease, readSigns, unhex, hex, blake2b, WireFormatError } from "../src/index.ts";
import { KIT, plain } from "./kit.ts";

test("BLAKE2b has the digests of Python's hashlib, with keys and persons too", () => {
  assert.match(hex(blake2b(new TextEncoder().encode("abc"), 64)), /^ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b7/);
  const counted = Uint8Array.from({ length: 255 }, (_, i) => i);
  assert.match(hex(blake2b(counted, 64, { key: counted.subarray(0, 64) })), /^142709d62e28fcccd0af97fad0f8465b971e82201dc51070/);
  assert.match(hex(blake2b(new Uint8Array(0), 64, { key: counted.subarray(0, 64) })), /^10ebb67700b1868efb4417987acf4690/);
  const options = { key: new TextEncoder().encode("abc"), person: new TextEncoder().encode("streamsketch.key") };
  assert.equal(hex(blake2b(new Uint8Array(300), 16, options)), "ba6deec8d96c7af982fc3463b65ff0cb");
});

for (const one of KIT.releases) {
  test(`release: ${one.name}`, () => {
    const release = readRelease(unhex(one.bytes));
    const { projection: _, values, counts, ...fields } = release.message;
    const stated = plain(fields);
    for (const [name, value] of Object.entries(stated)) assert.deepEqual(value, one[name], name);
    for (const name of ["agreement", "clip", "history"]) assert.equal(name in stated, name in one, name);
    assert.equal(values.width, one.width);
    assert.deepEqual(release.cells.toArray().map(String), one.cells);
    assert.deepEqual(release.counts?.toArray().map(String), one.counts);
    assert.equal(counts === undefined, one.counts === undefined);
    assert.equal(hex(release.toBytes()), one.bytes);
  });
}

for (const one of KIT.signs) {
  test(`signs: ${one.name}`, () => {
    const signs = readSigns(unhex(one.bytes));
    assert.equal(signs.kind, one.kind);
    const { projection: _, signs: bits, ...fields } = signs.message;
    for (const [name, value] of Object.entries(plain(fields))) assert.deepEqual(value, one[name], name);
    assert.equal(Array.from({ length: signs.projection.sketchDim }, (_, i) => (signs.at(i) > 0 ? "+" : "-")).join(""), one.signs);
    assert.equal(bits.length, Math.ceil(one.signs.length / 8));
    assert.equal(hex(signs.toBytes()), one.bytes);
  });
}

const READERS: Record<string, (data: Uint8Array) => unknown> = {
  PrivateSketch: readRelease,
  SignSketch: readSigns,
  IndividualSignSketch: readSigns,
};
for (const one of KIT.refused) {
  const read = READERS[one.kind];
  if (read === undefined) continue;
  test(`refused: ${one.kind}, ${one.name}`, () => {
    assert.throws(() => read(unhex(one.bytes)), WireFormatError);
  });
}
