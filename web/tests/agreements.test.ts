/** Agreements that Python wrote: every field, and the fingerprint. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import json from "./agreements.json";
import { KIT } from "./kit.ts";

const agreements = json as unknown as { json: string; fingerprint: string }[];

/** Return an agreement with a rule for text, undefined for none. */
function changedText(text: unknown, changes: object = {}): string {
  const projection = /"projection":\{.*?\}/.exec(agreements[0].json)?.[0] as string;
  return JSON.stringify({ ...JSON.parse(agreements[0].json), projection: undefined, text, ...changes }).replace("{", `{${projection},`);
}

for (const one of agreements) {
  test(`agreement ${one.fingerprint}`, () => {
    const found = ss.readAgreement(one.json);
    assert.equal(found.json, one.json);
    assert.equal(found.fingerprint, one.fingerprint);
    assert.equal(ss.readAgreement(`\n ${one.json.replaceAll(",", " , ")}\n`.replace(' , "', ', "')).fingerprint, found.fingerprint);
  });
}

test("rows of a unit are read, and refused where they do not fit features, units, times and clip", () => {
  const read = agreements.map((one) => ss.readAgreement(one.json));
  const found = read.filter((one) => one.rowsOfUnit !== null);
  assert.deepEqual(found.map((one) => [one.rowsOfUnit?.which, one.rowsOfUnit?.time?.type, one.clip]), [
    ["mean", undefined, "average"], ["latest", "timestamp", "average"], ["first", "integer", "average"], ["all", undefined, null], ["latest", "date", "average"],
  ]);
  const text = agreements[read.indexOf(found[0])].json;
  const changed = (changes: object) => JSON.stringify({ ...JSON.parse(text), ...changes });
  ss.readAgreement(changed({}));
  const time = { name: "at", type: "timestamp" };
  const bad = [
    { rows_of_unit: null }, { rows_of_unit: "mean" }, { rows_of_unit: {} }, { rows_of_unit: { which: "last" } }, { rows_of_unit: { which: "mean", time } },
    { rows_of_unit: { which: "latest" } }, { rows_of_unit: { which: "latest", time: { name: "at", type: "text" } } }, { rows_of_unit: { which: "first", time, format: "x" } },
    { rows_of_unit: { which: "all" } }, { clip: undefined }, { clip: "equal" }, { unit: null }, { features: undefined },
  ];
  for (const one of bad) assert.throws(() => ss.readAgreement(changed(one)), ss.WireFormatError, JSON.stringify(one));
});

test("agreements with a field that is missing, repeated, unknown or of another kind are refused", () => {
  const { json: text } = agreements[2];
  const fields = JSON.parse(text);
  const projection = /"projection":\{.*?\}/.exec(text)?.[0] as string; // its integers are beyond doubles
  const changed = (changes: object) => JSON.stringify({ ...fields, projection: undefined, ...changes }).replace("{", `{${projection},`);
  const goodWindows = { time: { name: "at", type: "timestamp" }, every: "1 h", are: "releases", first: "2026-11-22" };
  const badWindows = [
    null, 7, [], {}, { ...goodWindows, extra: 1 }, { ...goodWindows, zone: null }, { ...goodWindows, zone: "Europe/Berlin" }, { ...goodWindows, every: "1 fortnight" },
    { ...goodWindows, every: 60 }, { ...goodWindows, every: "0 s" }, { ...goodWindows, are: "rows" }, { ...goodWindows, first: undefined, last: "2026-11-22" }, { ...goodWindows, first: "" },
    { ...goodWindows, time: { name: "at", type: "text" } }, { ...goodWindows, time: { name: "at" } }, { ...goodWindows, time: "at" }, { ...goodWindows, max_windows: 2 },
    { ...goodWindows, period: "1 month" }, { ...goodWindows, period: "1 day", are: "keys" }, { ...goodWindows, period: "1 day", max_windows: 0 },
  ];
  const tree = { kind: "tree", horizon: 3, max_windows: 1, gap: 1, depth: 1 };
  const scheduled = { windows: goodWindows, schedule: tree, release: { noise: "auto", epsilon: "1" }, keys: { listed: ["2026-01-01"] } };
  const badSchedules = [
    null, {}, { ...tree, kind: "forest" }, { ...tree, horizon: 0 }, { ...tree, horizon: 100_001 }, { ...tree, gap: 0 }, { ...tree, max_windows: 4 }, { ...tree, gap: 2, max_windows: 3 },
    { ...tree, depth: 65 }, { ...tree, depth: undefined }, { ...tree, bits: 1 }, { ...tree, horizon: "3" },
    { kind: "factorisation", horizon: 3, max_windows: 1, gap: 1, blocks: 8, band: 4, bits: 8 }, { kind: "factorisation", horizon: 3, max_windows: 1, gap: 1, blocks: 1, band: null, bits: 8 },
  ];
  ss.readAgreement(changed({}));
  ss.readAgreement(changed({ windows: goodWindows }));
  ss.readAgreement(changed(scheduled));
  ss.readAgreement(changed({ key: null, keys: undefined, neighbours: { ...fields.neighbours, max_keys: 2 } }));
  ss.readAgreement(changed({ ...scheduled, schedule: { kind: "factorisation", horizon: 3, max_windows: 1, gap: 1, blocks: 8, band: null, bits: 8 } }));
  const bad = [
    { agreement: 2 }, { extra: 1 }, { missing: "maybe" }, { key: { name: "k", type: "boolean" } }, { key: 7 }, { index: [] }, { index: "item" },
    { clip: "equal" }, { clip: null }, { neighbours: { ...fields.neighbours, bound: "10/4" } }, { neighbours: { ...fields.neighbours, max_keys: 0 } },
    { neighbours: null }, { title: "a\nb" }, { counting: { units: 0, slack: 0 } }, { unit: undefined }, { value: 7 },
    { index: [{ name: "a", type: "decimal(19)" }] }, { index: [{ name: "a", type: "text" }, { name: "a", type: "text" }] }, { features: {} },
    { release: { noise: "auto" } }, { release: { noise: "none", epsilon: "1" } }, { release: { noise: "auto", epsilon: "1.0" }, keys: { public: true } },
    { release: { noise: "auto", epsilon: "1", delta: "0" }, keys: { public: true } }, { release: { noise: "auto", epsilon: "1e3" }, keys: { public: true } },
    { release: { noise: "auto", epsilon: "1" } }, { keys: { public: false } }, { keys: { listed: [] } }, { keys: { listed: ["2026-01-02", "2026-01-01"] } },
    { keys: { listed: ["b", "b"] } }, { keys: { listed: [7] } }, { keys: { selected: { epsilon: "0.1", delta: "0.1" } } }, { keys: { public: true, listed: ["a"] } },
    ...badWindows.map((windows) => ({ windows })), { windows: goodWindows, schedule: null }, { schedule: tree },
    ...badSchedules.map((schedule) => ({ ...scheduled, schedule })), { ...scheduled, windows: { ...goodWindows, are: "keys" } },
    { ...scheduled, windows: { time: goodWindows.time, every: "1 h", are: "releases" } }, { ...scheduled, release: { signs: "DP-Sign-logistic", epsilon: "1" } },
    { ...scheduled, keys: { public: true } }, { ...scheduled, schedule: undefined, windows: { time: goodWindows.time, every: "1 h", are: "keys" } },
    { key: null, keys: { public: true }, neighbours: { ...fields.neighbours, max_keys: 1 } },
  ];
  for (const one of bad) assert.throws(() => ss.readAgreement(changed(one)), ss.WireFormatError, JSON.stringify(one));
  for (const one of [`${text} x`, text.slice(0, -1), text.replace('"value"', '"unit"'), "[]", "7", "", "{", `${"[".repeat(100)}`, '{"a":1e999}', `{"a":${"9".repeat(99)}}`]) {
    assert.throws(() => ss.readAgreement(one), ss.WireFormatError, one.slice(0, 40));
  }
  assert.throws(() => ss.readAgreement(text, { maxJsonBytes: 10 }), ss.WireFormatError);
});

for (const one of KIT.agreements) {
  test(`windows ${one.name}`, () => {
    if (one.reason !== undefined) {
      assert.throws(() => ss.readAgreement(one.json), ss.WireFormatError, one.reason);
      return;
    }
    const found = ss.readAgreement(one.json);
    assert.equal(found.json, one.json);
    assert.equal(found.fingerprint, one.fingerprint);
    const { max_windows: maxWindows, ...others } = one.windows;
    assert.deepEqual(found.windows, { ...others, maxWindows });
    assert.equal(ss.windowsText(found.windows as ss.AgreedWindows), one.words);
  });
}

test("text is spelt as in every other reader", () => {
  assert.ok(KIT.spellings.length >= 120);
  for (const one of KIT.spellings) {
    const { text } = ss.readAgreement(changedText(one.rule));
    assert.equal(ss.spell(one.text, text), one.spelt, one.name);
    assert.equal(ss.spell(one.spelt, text), one.spelt, one.name);
    assert.deepEqual(ss.spellItems(ss.readAgreement(changedText(one.rule)), [one.text, 7]), [one.spelt, 7], one.name);
  }
});

test("units are spelt in NFC at most, and a rule is stated in one way", () => {
  const rule = { unicode: "14.0", form: "NFKC", blanks: "trim", case: "fold", invisible: "drop" };
  const both = ss.readAgreement(changedText(rule, { unit: { name: "item", type: "text" } }));
  assert.deepEqual(ss.spellItems(both, [" TEA\u200b e\u0301"]), ["TEA\u200b é"]);
  assert.deepEqual(ss.spellItems(ss.readAgreement(changedText(undefined)), [" TEA "]), [" TEA "]);
  const two = changedText(rule, { index: [{ name: "item", type: "text" }, { name: "week", type: "integer" }] });
  assert.deepEqual(ss.spellItems(ss.readAgreement(two), [[" TEA ", 7n]]), [["tea", 7n]]);
  const bad = [null, {}, [], "NFC", { unicode: "14.0" }, { form: "NFC" }, { ...rule, unicode: "15.0" }, { ...rule, form: "NFD" }, { ...rule, case: null }, { ...rule, extra: "x" }];
  for (const one of bad) assert.throws(() => ss.readAgreement(changedText(one)), ss.WireFormatError, JSON.stringify(one));
  assert.throws(() => ss.readAgreement(changedText(rule, { index: [{ name: "week", type: "integer" }] })), ss.WireFormatError);
});

test("canonical JSON has the form that hashes are taken over", () => {
  const value = { b: [1n, 0.1, 1e-6, 1.5e16, 1e16, 1e15, -0, 100], a: 'Ä\u007f"\\\n\u0001🔑', z: null, é: true } as unknown as ss.Json;
  assert.equal(ss.canonicalJson(value), '{"a":"\\u00c4\\u007f\\"\\\\\\n\\u0001\\ud83d\\udd11","b":[1,0.1,1e-06,1.5e+16,1e+16,1000000000000000.0,-0.0,100.0],"z":null,"\\u00e9":true}');
  assert.equal(ss.canonicalJson("Ä", true), '"Ä"');
});
