/** Releases from rows are those of the Python library, from the same secret bits (rows.json). */
import assert from "node:assert/strict";
import test from "node:test";
import { utf8 } from "../src/bytes.ts";
import * as ss from "./api.ts";
import json from "./rows.json";
import { knownBits } from "./written.ts";

interface Case {
  readonly name: string;
  readonly agreement: string;
  readonly csv: string;
  readonly seed: number;
  readonly releases: Record<string, string>;
  readonly findings: readonly (readonly [column: string, kind: string, rows: number])[];
}
const { releases: cases, agreement: reading, texts } = json as unknown as { releases: Case[]; agreement: string; texts: { csv: string; cells: number[] | null }[] };

/** Return a release's bytes with cumulants of no more digits than computers agree on. */
function digits(release: ss.Release): string {
  const { k2, k4, place } = release.noise;
  const noise = { k2: Number(k2.toPrecision(12)), k4: Number(k4.toPrecision(12)), place };
  return ss.hex(new ss.Release({ ...release.message, noise }).toBytes());
}

for (const { name, agreement, csv, seed, releases, findings } of cases) {
  test(`what is said of the rows of ${name} is what Python says`, () => {
    const said = new ss.AgreedRows(agreement, utf8(csv)).findings.map(({ column, kind, rows }) => [column, kind, rows]);
    assert.deepEqual(said.sort(), [...findings].sort());
  });

  test(`the releases of ${name} are those of Python`, () => {
    const made = new ss.AgreedRows(agreement, utf8(csv)).release({ leaveOut: true, bits: knownBits(BigInt(seed)) });
    const byKey = made instanceof ss.Release ? { "": made } : Object.fromEntries(made.labels.map((label, i) => [label, made.releases[i]]));
    assert.deepEqual(Object.keys(byKey).sort(), Object.keys(releases).sort());
    for (const [key, release] of Object.entries(byKey)) {
      const wanted = ss.readRelease(ss.unhex(releases[key]));
      assert.deepEqual(release.guarantee, wanted.guarantee, key);
      assert.deepEqual(release.cells.toArray(), wanted.cells.toArray(), key);
      assert.deepEqual(release.dataIds, wanted.dataIds);
      assert.equal(digits(release), digits(wanted), key);
      assert.equal(ss.checkNoise(release).verdict, ss.checkNoise(wanted).verdict);
    }
  });
}

test("CSV is read, or refused, as by Python", () => {
  for (const { csv, cells } of texts) {
    const read = (): bigint[] => (new ss.AgreedRows(reading, utf8(csv)).release({ leaveOut: true }) as ss.Release).cells.toArray();
    if (cells === null) assert.throws(read, ss.InvalidInputError, csv);
    else assert.deepEqual(read().map(Number), cells, csv);
  }
});

const SALES = "item,sold\ntea,1\n,2\njam,many\njam,\ncoffee,3\n";

test("rows that are left out are counted, by reason and column", () => {
  const rows = new ss.AgreedRows(reading, utf8(SALES));
  assert.deepEqual([rows.count, rows.kept, rows.units], [5, 2, null]);
  assert.deepEqual(rows.dropped, [
    { reason: "missing", column: "item", count: 1, rows: [3] },
    { reason: "malformed", column: "sold", count: 1, rows: [4] },
    { reason: "missing", column: "sold", count: 1, rows: [5] },
  ]);
  assert.ok(rows.areRefused);
  assert.throws(() => rows.release(), /correct them, or leave them out/);
});

test("numbers may have a decimal comma, and files other encodings", () => {
  const text = "item;sold\ncafé;1,0\nthé;2\n";
  const latin = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const rows = new ss.AgreedRows(reading, latin, { delimiter: ";", decimal: ",", encoding: "windows-1252" });
  const plain = new ss.AgreedRows(reading, utf8("item,sold\ncafé,1\nthé,2\n"));
  const cells = (one: ss.AgreedRows): bigint[] => (one.release() as ss.Release).cells.toArray();
  assert.deepEqual(cells(rows), cells(plain));
  assert.throws(() => new ss.AgreedRows(reading, latin, { delimiter: ";" }), /not UTF-8/);
  assert.equal(new ss.AgreedRows(reading, utf8("item,sold\ntea,1.5\n"), { decimal: "," }).kept, 0);
});

test("the index of a row depends on its own cells alone", () => {
  const { agreement } = cases.find(({ name }) => name === "tuples")!;
  const index = ["item", "day"].map((name) => ({ name, type: "text" }));
  const fields = { ...(ss.parseJson(agreement, 2 ** 16) as ss.JsonObject), index, release: { epsilon: "1000000", noise: "laplace" } };
  const cells = (...rows: string[]): bigint[] => {
    const text = `item,day,customer\n${rows.map((row, unit) => `${row},${unit}\n`).join("")}`;
    return (new ss.AgreedRows(ss.canonicalJson(fields as ss.Json), utf8(text)).release() as ss.Release).cells.toArray();
  };
  // cells with what may stand between two of them, in one that is made of both
  for (const mark of ["\0string ", "\",\"", "\\\",\\\""]) {
    const quoted = (cell: string): string => `"${cell.replaceAll('"', '""')}"`;
    const pair = [`${quoted(`a${mark}b`)},${quoted("c")}`, `${quoted("a")},${quoted(`b${mark}c`)}`];
    const sum = cells(pair[0]).map((cell, place) => cell + cells(pair[1])[place]);
    assert.deepEqual(cells(...pair), sum, JSON.stringify(mark));
    assert.deepEqual(cells(...pair.reverse()), sum, JSON.stringify(mark));
  }
});

test("words that objects know by themselves are no booleans", () => {
  const { agreement } = cases.find(({ name }) => name === "tuples")!;
  for (const word of ["constructor", "__proto__", "toString", "valueOf"]) {
    const rows = new ss.AgreedRows(agreement, utf8(`item,day,size,sold,customer\ntea,2026-01-01,${word},1,Ann\ntea,2026-01-01,TRUE,1,Ann\n`));
    assert.deepEqual([rows.kept, rows.dropped.map(({ reason, column }) => [reason, column])], [1, [["malformed", "size"]]]);
  }
});

test("two releases of the same rows have other noise and other ids", () => {
  const { agreement, csv } = cases[0];
  const rows = new ss.AgreedRows(agreement, utf8(csv));
  const [one, other] = [0, 1].map(() => rows.release({ leaveOut: true }) as ss.Release);
  assert.notEqual(one.cells.toArray().join(), other.cells.toArray().join());
  assert.notEqual(one.releaseIds[0], other.releaseIds[0]);
});

test("noise that cannot be drawn is replaced by no noise that may be wider", () => {
  const { agreement } = cases.find(({ name }) => name === "l1, least variance, and Gaussian noise is too wide")!;
  const released = (bound: string): ss.Guarantee => new ss.AgreedRows(agreement.replace('"bound":"5000000"', `"bound":"${bound}"`), utf8("item,sold,customer\n")).guarantee;
  assert.match(released("11863283").mechanism, /Laplace/); // of a variance just below 2^48, the largest of Gaussian noise
  assert.throws(() => released("11863284"), /a variance of .* is not in \[1\/2, 2\^48\]/);
  assert.throws(() => released("5000000000"), /a scale of/); // neither can be drawn: the reason is that of the noise that suits
});

test("what is for Python is refused in a sentence", () => {
  const fields = ss.parseJson(cases.find(({ name }) => name === "l1, keys, two of them")!.agreement, 2 ** 16) as ss.JsonObject;
  const time = { name: "day", type: "date" };
  const others: readonly (readonly [object, RegExp])[] = [
    [{ release: undefined, keys: undefined }, /states no ε/],
    [{ release: { epsilon: "1", signs: "SJLT" }, key: null, keys: undefined, neighbours: { bound: "1", max_keys: 1n, relation: "l1", unit: "customer" } }, /publishes signs/],
    [{ keys: { selected: { delta: "0.000001", epsilon: "0.1" } }, release: { delta: "0.00001", epsilon: "1", noise: "auto" } }, /chooses keys privately/],
    [{ windows: { are: "keys", every: "1 day", first: "2026-01-01", last: "2026-02-01", time } }, /windows of time/],
    [{ key: { name: "shop", type: "date" }, keys: { public: true } }, /the column shop holds date/],
    [{ index: [{ name: "when", type: "timestamp" }] }, /the column when holds timestamp/],
    [{ missing: "keep", text: undefined }, /keeps missing values/],
    [{ neighbours: { bound: "1", max_keys: 2n, relation: "l2", unit: "customer" } }, /bounds l2/],
  ];
  for (const [change, wanted] of others) {
    const changed = Object.fromEntries(Object.entries({ ...fields, ...change }).filter(([, value]) => value !== undefined)) as unknown as ss.Json;
    const agreement = ss.readAgreement(ss.canonicalJson(changed));
    assert.match(ss.notHere(agreement) ?? "", wanted);
    assert.throws(() => new ss.AgreedRows(agreement, utf8("shop,item,sold,customer,day,when\n")), ss.InvalidInputError);
  }
});
