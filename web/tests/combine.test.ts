/** Sums, differences and multiples of the conformance kit; UTF-8 and base64 by arithmetic. */
import assert from "node:assert/strict";
import test from "node:test";
import { decodeBase64, decodeUtf8, encodeBase64, encodeUtf8 } from "../src/text.ts";
import * as ss from "./api.ts";
import { KIT, named } from "./kit.ts";

const read = (name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes));

for (const one of KIT.releases.filter((each) => each.sum !== undefined)) {
  test(`sum: ${one.name}`, () => {
    const [x, y, sign, populations] = one.sum;
    assert.equal(ss.hex((sign > 0 ? ss.combine : ss.subtract)(read(x), read(y), populations).toBytes()), one.bytes);
  });
}

for (const one of KIT.releases.filter((each) => each.scaled !== undefined)) {
  test(`multiple: ${one.name}`, () => {
    const [name, factor] = one.scaled;
    assert.equal(ss.hex(ss.scaled(read(name), ss.Ratio.parse(factor)).toBytes()), one.bytes);
  });
}

test("what shares noise, or is of another map, is not added", () => {
  const x = read("a part, x");
  assert.throws(() => ss.combine(x, x, "overlapping"), ss.DependentNoiseError);
  assert.throws(() => ss.combine(x, read("identity, x"), "disjoint"), ss.IncompatibleError);
  assert.throws(() => ss.combine(x, read("a part, y"), "both" as "disjoint"), ss.InvalidInputError);
  assert.throws(() => ss.scaled(x, 0n), ss.InvalidInputError);
});

test("UTF-8 and base64 by arithmetic are those of the platform", () => {
  for (const text of ["", "a", "Ä", "€", "🔑x", "\u0000\u007f\u0080\u07ff\u0800\uffff", "half \ud800 pair"]) {
    assert.deepEqual([...encodeUtf8(text)], [...new TextEncoder().encode(text)]);
    if (!text.includes("half")) assert.equal(decodeUtf8(encodeUtf8(text)), text);
  }
  for (const bad of [[0x80], [0xc0, 0x80], [0xc1, 0xbf], [0xe0, 0x80, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xf5], [0xc3], [0xe2, 0x82], [0xc3, 0x28]]) {
    assert.equal(decodeUtf8(Uint8Array.from(bad)), null, bad.join());
  }
  for (let size = 0; size < 7; size++) {
    const data = Uint8Array.from({ length: size }, (_, i) => 37 * i + 200);
    assert.equal(encodeBase64(data), btoa(String.fromCharCode(...data)));
    assert.deepEqual([...decodeBase64(encodeBase64(data))], [...data]);
  }
});
