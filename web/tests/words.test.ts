/** Guarantees in words: what Python says of the same releases. */
import assert from "node:assert/strict";
import test from "node:test";
import { checkNoise, guaranteeInWords, guaranteeText, readRelease, readSigns, Release, unhex, warnings } from "../src/index.ts";
import { say } from "../src/say.ts";
import * as sentences from "../src/sentences.ts";
import { KIT, named } from "./kit.ts";
import table from "./words.json";

const words = table as unknown as Record<string, any>[];
const SAME = ["Guarantee", "Protected", "Only if", "Meaning", "How", "Not protected"];

for (const one of words) {
  test(`words: ${one.name}`, () => {
    const release = readRelease(unhex(named("releases", one.name).bytes));
    const found = Object.fromEntries(guaranteeInWords(release).map(({ heading, sentences }) => [heading, sentences]));
    for (const heading of SAME) assert.deepEqual(found[heading], one[heading], heading);
    const { verdict } = checkNoise(release);
    if (/norm of its cells/.test(one.Check[0])) assert.equal(verdict, "too little");
    if (verdict !== "not checked") {
      assert.equal(verdict, one.verdict);
      assert.deepEqual(found.Check, one.Check);
      assert.deepEqual(warnings(release), one.Warnings);
    }
  });
}

test("the text of an individual guarantee says first that it is no differential privacy", () => {
  const kinds = new Map<string, number>();
  for (const one of KIT.signs) {
    const signs = readSigns(unhex(one.bytes));
    const text = guaranteeText(signs.guarantee);
    assert.equal(text.startsWith("individual differential privacy only (not differential privacy): ε = "), signs.kind === "IndividualSignSketch", one.name);
    assert.equal(text.startsWith("ε = "), signs.kind === "SignSketch", one.name);
    kinds.set(signs.kind, (kinds.get(signs.kind) ?? 0) + 1);
  }
  assert.equal(kinds.size, 2);
});

test("most releases of the kit are checked", () => {
  const verdicts = KIT.releases.map((one) => checkNoise(readRelease(unhex(one.bytes))).verdict);
  assert.ok(verdicts.filter((one) => one === "enough").length > verdicts.length / 4, verdicts.join());
});

test("warnings name weak budgets, too little noise and individual guarantees", () => {
  const { message } = readRelease(unhex(named("releases", "a part, x").bytes));
  const changed = (changes: object) => warnings(new Release({ ...message, guarantee: { ...message.guarantee, ...changes } }));
  assert.ok(changed({ epsilon: 21 }).some((one) => one.includes("hardly protects anybody")));
  assert.ok(changed({ epsilon: 2 ** -18 }).some((one) => one.includes("too little noise")) || message.guarantee.steps === undefined);
  assert.ok(warnings(readSigns(unhex(KIT.signs.find((one) => one.kind === "IndividualSignSketch")?.bytes)))[0].includes("individual"));
});

test("sums that state otherwise than the releases inside are found out", () => {
  const { message } = readRelease(unhex(named("releases", "a sum of two alike").bytes));
  const checked = (sum: object, part: object) => {
    const parts = message.parts.map((one, i) => (i === 0 ? { ...one, guarantee: { ...one.guarantee, ...part } } : one));
    return checkNoise(new Release({ ...message, parts, guarantee: { ...message.guarantee, ...sum } }));
  };
  const { verdict } = checked({}, {});
  const { neighbours } = message.guarantee;
  for (const part of [{ neighbours: { ...neighbours, unit: "another" } }, { conditions: ["it rains"] }]) {
    assert.equal(checked({}, part).verdict, "too little");
    assert.equal(checked(part, {}).verdict, "neighbours" in part ? "too little" : verdict);
  }
  const bases = ["asserted", "", "enforced"];
  for (const stated of bases) {
    for (const inside of bases) {
      const all = { ...message, parts: message.parts.map((one) => ({ ...one, guarantee: { ...one.guarantee, basis: inside } })) };
      const found = checkNoise(new Release({ ...all, guarantee: { ...message.guarantee, basis: stated } }));
      const isHonest = bases.indexOf(inside) >= bases.indexOf(stated);
      assert.equal(found.verdict, isHonest ? verdict : "too little");
      assert.equal(found.reason.includes("rests on less than the sum states"), !isHonest);
    }
  }
});

test("fields of sentences are checked by the compiler, and their values are said as they are", () => {
  assert.equal(say(sentences.MORE_UNITS, { unit: "{unit} $& $1" }), "A person with more than one {unit} $& $1: n of them spend n times ε.");
  // @ts-expect-error a field is missing
  assert.match(say(sentences.BEYOND_BOUND, { unit: "sale" }), /undefined/);
  // @ts-expect-error a field too many
  assert.equal(say(sentences.ROW, { window: 1, last: 2 }), "row 1");
});
