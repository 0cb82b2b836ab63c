/** The page's script: its numbers and texts are those of Python's page, and files and names cannot harm it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AgreedRows, changes, type Item, readAgreement, readRelease, type Release, topDifferences } from "../src/index.ts";
import { colourAt, isLight, placeOn, valueAt } from "../src/page/colour.ts";
import { canBeJoint, changesIn, compute, withChanges } from "../src/page/compute.ts";
import { cellOf, csvOf } from "../src/page/csv.ts";
import { type Differing, type PageData, unpack, unpackDiffering } from "../src/page/data.ts";
import { fixed, formatValue, shortened } from "../src/page/format.ts";
import { orderOf, treeOf } from "../src/page/groups.ts";
import { promiseOf } from "../src/page/own_rows.ts";
import { orderOf as sorted, PairRows } from "../src/page/pairs.ts";
import { ellipses, places, shareOf } from "../src/page/scaling.ts";
import { compareNames, View } from "../src/page/view.ts";
import { jointText, readFiles, shown } from "../src/page/viewer.ts";
import { keyAndWindow, windowTime } from "../src/page/windows.ts";
import { csvRows, differ, itemsOf, rowsOf } from "../src/page/words.ts";
import page from "./page.json";
import rows from "./rows.json";

interface Case {
  name: string;
  releases: Record<string, string>;
  facts: any;
  joint: any;
}

const CASES = page.cases as unknown as Case[];
const ROWS = rows as unknown as { releases: { agreement: string; csv: string }[] };

function bytesOf(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

function releasesOf(one: Case): Map<string, Release> {
  return new Map(Object.entries(one.releases).map(([name, text]) => [name, readRelease(bytesOf(text))]));
}

function isNear(first: number, second: number, share: number): boolean {
  return first === second || Math.abs(first - second) <= share * Math.max(Math.abs(first), Math.abs(second), 1e-9);
}

test("numbers have the digits that Python gives them", () => {
  for (const [value, error, text] of page.numbers as unknown as [string, string, string][]) {
    const number = (one: string): number => (one === "inf" ? Infinity : Number(one));
    assert.equal(formatValue(number(value), number(error)), text);
  }
  assert.equal(fixed(2.5, 0), "2", "halves go to even");
  assert.equal(fixed(0.125, 2), "0.12");
  assert.equal(fixed(0.375, 2), "0.38");
  assert.equal(fixed(1234567.5, 0), "1,234,568");
  assert.deepEqual(shortened({ value: -0.001, error: 0.1, low: 0, high: 0 }, true, 1), ["0.00"]);
  assert.deepEqual(shortened({ value: 12345.6, error: 3, low: 0, high: 0 }, false, 1), ["12,345.6", "12,000"]);
});

function tested(series: Parameters<typeof changesIn>[0]): ReturnType<typeof changesIn> extends Generator<number, infer Found> ? Found : never {
  const steps = changesIn(series);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

for (const [one, isJoint] of CASES.flatMap((one) => [[one, false], [one, true]] as const)) {
  test(`the viewer finds what Python's page says: ${one.name}${isJoint ? ", joint estimates" : ""}`, async () => {
    assert.ok(canBeJoint([...releasesOf(one).values()]));
    const { data, pairs, answer: compared, series, joint } = compute(releasesOf(one), "t", "made", "guarantee", isJoint);
    const answer = series === null ? compared : withChanges(compared, tested(series));
    const facts = isJoint ? one.joint : one.facts;
    const digits = isJoint ? 1e-7 : 1e-9;
    assert.equal(joint === null ? null : jointText(joint, data.by === "cosine" ? "cosines" : "distances"), facts.made);
    for (const name of ["by", "names", "ranked", "largest", "quantity", "unit", "factor", "windows"] as const) assert.deepEqual(data[name], facts[name], name);
    assert.deepEqual(data.groups.map((group) => [...group]).sort((a, b) => a[0] - b[0]), facts.groups);
    data.tree.forEach(([, , height], row) => assert.ok(isNear(height, facts.heights[row], 1e-4), `height ${row}: ${height}`));
    for (const end of ["nearest", "farthest"] as const) assert.ok(isNear(data.scale[end], facts.scale[end], digits), end);
    data.sizes.forEach(([, text], place) => assert.equal(text, facts.sizes[place][1]));
    assert.equal(answer.short, facts.answer);
    assert.equal(answer.detail.replaceAll(/^The (\d+) streams are/g, "$1 of the $1 streams are"), facts.detail);
    assert.deepEqual(answer.listed, facts.listed);
    const theirs = await unpack(data.names.length, facts.pairs);
    for (let at = 0; at < pairs.value.length; at++) {
      for (const part of ["value", "error", "low", "high"] as const) assert.ok(isNear(pairs[part][at], theirs[part][at], digits), `${part} of pair ${at}`);
    }
    assert.deepEqual([...data.similar].sort((a, b) => a - b), data.names.map((_, place) => place));
  });
}

async function grouped(): Promise<View> {
  const { data, pairs } = compute(releasesOf(CASES[0]), "t", "made", "guarantee");
  return new View(data, pairs);
}

test("streams are ordered by cluster, name, size and time, and windows choose among them", async () => {
  const view = await grouped();
  assert.equal(view.order, "similar");
  const kinds = view.streams().map((stream) => stream % 3);
  assert.equal(kinds.filter((kind, place) => place > 0 && kind !== kinds[place - 1]).length, 2, "each group is side by side");
  view.change({ order: "size" });
  const sizes = view.streams().map((stream) => view.data.sizes[stream][0]);
  assert.deepEqual(sizes, [...sizes].sort((a, b) => b - a));
  view.change({ order: "name" });
  assert.deepEqual(view.streams().map((stream) => view.data.names[stream]), [...view.data.names].sort());
  const windows = new View(...(({ data, pairs }) => [data, pairs] as const)(compute(releasesOf(CASES[1]), "t", "", "")));
  assert.deepEqual(windows.orders(), ["time", "similar", "name", "size"]);
  windows.change({ window: 1 });
  assert.deepEqual(windows.streams().map((stream) => windows.data.names[stream]), ["a 2024-W02", "b 2024-W02"]);
  const noise = new View(...(({ data, pairs }) => [data, pairs] as const)(compute(releasesOf(CASES[2]), "t", "", "")));
  assert.deepEqual(noise.orders(), ["name", "size"], "noise is not ordered by similarity");
  assert.equal(compareNames("shop 9", "shop 10"), -1);
});

test("the nearest come first, and a search finds parts of names", async () => {
  const view = await grouped();
  assert.deepEqual(new Set(view.nearestTo(0).slice(0, 2)), new Set([3, 6]));
  view.change({ search: "SHOP 4" });
  assert.deepEqual(view.data.names.filter((_, place) => view.isFound(place)), ["shop 4"]);
});

test("a CSV has every pair once, and runs no formulas", async () => {
  const view = await grouped();
  const lines = csvOf(view).join("").trimEnd().split("\n");
  assert.equal(lines[0], "first,second,cosine,standard_error,low_95_together,high_95_together");
  assert.equal(lines.length, 1 + (9 * 8) / 2);
  const [first, second, value, error] = lines[1].split(",");
  const [i, j] = [first, second].map((name) => view.data.names.indexOf(name));
  assert.deepEqual([Number(value), Number(error)], [view.pairs.at(i, j).value, view.pairs.at(i, j).error]);
  assert.equal(cellOf('=cmd("x")'), `"'=cmd(""x"")"`);
  assert.equal(cellOf("-1"), "'-1");
});

test("rows are sorted as comparisons sort them, equal ones as they are", () => {
  const numbers = Float64Array.of(3, -1, 0, -0, 1e300, -Infinity, 3, -1e-300, Infinity, 0.1, -1, 5e-324, 65536, 65537);
  const rows = Uint32Array.from(numbers, (_, row) => numbers.length - 1 - row);
  for (const isFalling of [false, true]) {
    const expected = [...rows].sort((a, b) => (isFalling ? -1 : 1) * (numbers[a] < numbers[b] ? -1 : numbers[a] > numbers[b] ? 1 : 0));
    assert.deepEqual([...sorted(numbers, isFalling, rows)], expected);
  }
  assert.equal(sorted(new Float32Array(0), true, new Uint32Array(0)).length, 0);
});

test("the table of pairs is sorted by estimate, error and name, searched, and follows the window", async () => {
  const view = await grouped();
  const pairs = new PairRows(view);
  const { names } = view.data;
  const named = (rows: Uint32Array): string[] => [...rows].map((row) => `${names[pairs.first[row]]}, ${names[pairs.second[row]]}`);
  const all = (names.length * (names.length - 1)) / 2;
  for (const sort of ["value", "error"] as const) {
    const rows = pairs.rows(sort, true);
    assert.equal(new Set(rows).size, all);
    for (let at = 1; at < all; at++) assert.ok(view.pairs[sort][rows[at - 1]] >= view.pairs[sort][rows[at]]);
    const first = view.pairs.at(pairs.first[rows[0]], pairs.second[rows[0]]);
    assert.equal(first[sort], view.pairs[sort][rows[0]], "a row names the streams of its numbers");
  }
  assert.deepEqual(named(pairs.rows("name", false)).slice(0, 2), ["shop 0, shop 1", "shop 0, shop 2"]);
  assert.deepEqual(named(pairs.rows("name", true)).slice(0, 1), ["shop 7, shop 8"]);
  assert.equal(pairs.rows("name", false, "SHOP 4").length, names.length - 1);
  assert.deepEqual(named(pairs.rows("name", false, "shop 4, shop 2")), ["shop 2, shop 4"]);
  assert.equal(pairs.rows("name", false, "shop 4, nowhere").length, 0);
  const windows = new View(...(({ data, pairs }) => [data, pairs] as const)(compute(releasesOf(CASES[1]), "t", "", "")));
  windows.change({ window: 0 });
  const rows = new PairRows(windows);
  assert.deepEqual([...rows.rows("name", false)].map((row) => [rows.first[row], rows.second[row]].map((stream) => windows.data.names[stream])), [["a 2024-W01", "b 2024-W01"]]);
});

test("windows that changed are those that Python finds", () => {
  for (const one of page.changes as unknown as (Case & { tolerance: number | "typical"; allowed: number; rows: { p_value: number; estimate: number; alarm: boolean }[] })[]) {
    const found = changes(releasesOf(one), { tolerance: one.tolerance });
    assert.ok(isNear(found.tolerance, one.allowed, 1e-9));
    assert.deepEqual(found.rows.map((row) => row.alarm), one.rows.map((row) => row.alarm), one.name);
    one.rows.forEach((row, place) => {
      assert.ok(isNear(found.rows[place].distance.value, row.estimate, 1e-9));
      assert.ok(row.p_value < 1e-12 || isNear(found.rows[place].pValue, row.p_value, 0.02), `${one.name} ${place}: ${found.rows[place].pValue} is not ${row.p_value}`);
    });
  }
  assert.throws(() => changes(new Map()), Error);
});

for (const one of page.differences as unknown as (Case & { dictionary: (string | number)[]; pairs: any[] })[]) {
  test(`what differs is what Python finds: ${one.name}`, async () => {
    const releases = [...releasesOf(one).values()];
    const items: Item[] = one.dictionary.map((item) => (typeof item === "number" ? BigInt(item) : item));
    const packed: (i: number, j: number) => Differing = await unpackDiffering(3, one.facts);
    const ofViewer = differ(releases, itemsOf(one.dictionary.map((item) => [String(item)]), releases, null), shown);
    [[0, 1], [0, 2], [1, 2]].forEach(([i, j], pair) => {
      const expected = one.pairs[pair];
      const found = topDifferences(releases[i], releases[j], items);
      assert.deepEqual([found.candidates, found.separated], [expected.candidates, expected.separated]);
      const [ofPage, ofDropped] = [packed(i, j), ofViewer(i, j)];
      assert.deepEqual([ofPage.candidates, ofPage.separated, ofPage.of], [expected.candidates, expected.separated, "sums"]);
      expected.rows.forEach((row: any, place: number) => {
        const mine = found.rows[place];
        assert.equal(String(mine.item), String(row.item));
        for (const name of ["estimate", "error", "low", "high"] as const) assert.ok(isNear(mine[name], row[name], 1e-9), `${name}: ${mine[name]} is not ${row[name]}`);
        for (const [shown, share] of [[ofPage.rows[place], 1e-6], [ofDropped.rows[place], 1e-9]] as const) {
          assert.equal(shown.name, String(row.item));
          assert.ok(isNear(shown.value, row.estimate, share) && isNear(shown.error, row.error, share));
          assert.ok(isNear(shown.low, row.low, share) && isNear(shown.high, row.high, share));
        }
      });
    });
    await assert.rejects(unpackDiffering(4, one.facts), RangeError);
  });
}

test("dictionaries are lines, or the first column of CSV, or the columns of an agreement", () => {
  assert.deepEqual(rowsOf("words.txt", "\ufefftea\r\njam, red\n\n", []), [["tea"], ["jam, red"]]);
  assert.deepEqual(rowsOf("words.csv", 'word,kind\n"jam, ""red""",food\ntea,\n', []), [['jam, "red"', "food"], ["tea", ""]]);
  assert.deepEqual(rowsOf("w.CSV", "kind,word\nfood,jam\n", ["word", "kind"]), [["jam", "food"]]);
  assert.deepEqual(csvRows('a,\n"b\nc"'), [["a", ""], ["b\nc"]]);
  assert.throws(() => csvRows('"a"b'), Error);
  const releases = [...releasesOf((page.differences as unknown as Case[])[0]).values()];
  assert.deepEqual([...itemsOf([["tea", "food"], ["7"]], releases, null)], [["tea", "tea"], ["7", "7"]]);
  assert.throws(() => itemsOf([], releases, null), Error);
  const whole = [...releasesOf((page.differences as unknown as Case[])[2]).values()];
  assert.deepEqual([...itemsOf([["7"]], whole, null).keys()], [7n]);
  assert.throws(() => itemsOf([["tea"]], whole, null), Error);
});

test("numbers of another length than the names need are refused", async () => {
  await assert.rejects(unpack(3, CASES[0].facts.pairs), RangeError);
  const facts = CASES[3].facts.pairs as PageData["pairs"];
  assert.equal((await unpack(2, facts)).value.length, 1);
});

test("colours keep their place and their contrast", () => {
  const scale = { nearest: 1, farthest: 1000, logarithmic: true };
  for (const place of [0, 0.25, 0.5, 1]) assert.ok(isNear(placeOn(scale, valueAt(scale, place)), place, 1e-9));
  assert.deepEqual(colourAt(0), [253, 231, 37]);
  assert.deepEqual(colourAt(1), [70, 50, 127]);
  assert.ok(isLight(colourAt(0)) && !isLight(colourAt(1)));
  assert.deepEqual(colourAt(NaN), colourAt(0));
});

test("the share of a map is that of two of its axes, and the whole for points of a plane", () => {
  const plane = Array.from({ length: 9 }, (_, i) => [Math.cos(i), Math.sin(3 * i), 0]);
  const squares = (points: number[][]): Float64Array => Float64Array.from(points.flatMap((a) => points.map((b) => a.reduce((sum, one, axis) => sum + (one - b[axis]) ** 2, 0))));
  assert.ok(Math.abs(shareOf(squares(plane), 9) - 1) < 1e-9);
  const corners = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]; // three equal eigenvalues
  assert.ok(Math.abs(shareOf(squares(corners), 4) - 2 / 3) < 1e-9);
});

test("points of a plane are found again, without ellipses where nothing is uncertain", () => {
  const points = [[0, 0], [3, 1], [-2, 4], [1, -5], [6, 2]];
  const n = points.length;
  const squares = Float64Array.from({ length: n * n }, (_, at) => {
    const [a, b] = [points[Math.floor(at / n)], points[at % n]];
    return (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2;
  });
  const found = places(squares, n);
  for (let at = 0; at < n * n; at++) {
    const [a, b] = [found[Math.floor(at / n)], found[at % n]];
    assert.ok(isNear((a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2, squares[at], 1e-6));
  }
  const none = new Float64Array(n * n);
  for (const [long, wide] of ellipses({ value: squares, ofMap: none, ofNoise: none }, found)) assert.deepEqual([long, wide], [0, 0]);
  const tree = treeOf(squares, n);
  assert.equal(tree.length, n - 1);
  assert.equal(new Set(orderOf(tree, squares, n)).size, n);
});

test("names of windows are read as in Python", () => {
  assert.equal(windowTime("1970-W02"), windowTime("1970-01-05"));
  assert.equal(windowTime("1970-01-02T0100Z"), 90_000_000);
  assert.equal(windowTime("1970-02"), 31 * 86_400_000);
  for (const none of ["north", "1970-13", "1970-02-30", "2023-W53", "1970-01-01T25:00Z"]) assert.equal(windowTime(none), null, none);
  assert.deepEqual(keyAndWindow("north west 2024-05"), ["north west", "2024-05"]);
  assert.deepEqual(keyAndWindow("2024-05-01"), ["", "2024-05-01"]);
});

test("a CSV file with the columns of an agreement is rows, and another one a list of items", () => {
  const { agreement, csv } = ROWS.releases[0];
  const text = (words: string): Uint8Array => new TextEncoder().encode(words);
  const files = [{ name: "sales.csv", bytes: text(csv) }, { name: "agreement.json", bytes: text(agreement) }, { name: "items.csv", bytes: text("item\ntea\n") }];
  const first = readFiles(files);
  assert.deepEqual([first.own?.name, first.own?.dialect.delimiter, first.dictionary?.[0]], ["sales.csv", ",", "items.csv"]);
  assert.deepEqual(readFiles([files[0]]).own, null);
  const semicolons = readFiles([{ name: "s.csv", bytes: text(csv.replaceAll(",", ";")) }, files[1]]);
  assert.equal(semicolons.own?.dialect.delimiter, ";");
  first.own!.made = new AgreedRows(agreement, files[0].bytes).release({ leaveOut: true });
  assert.equal(readFiles(files, first.own).own?.made, first.own!.made, "what was released is not drawn again");
  assert.deepEqual([...readFiles(files, first.own).releases.keys()], ["sales (yours)"]);
});

test("a release that was made stays, with its own guarantee, whatever is dropped next", () => {
  const [{ agreement, csv }, cut] = ROWS.releases;
  const text = (words: string): Uint8Array => new TextEncoder().encode(words);
  const sales = { name: "sales.csv", bytes: text(csv) };
  const { own } = readFiles([sales, { name: "agreement.json", bytes: text(agreement) }]);
  own!.made = new AgreedRows(agreement, sales.bytes).release({ leaveOut: true });
  const others = [cut.agreement, agreement.replace('"customer"', '"buyer"').replace('"name":"customer"', '"name":"buyer"')];
  for (const other of others) {
    const next = readFiles([sales, { name: "agreement.json", bytes: text(other) }, { name: "more.csv", bytes: text(csv) }], own);
    assert.equal(next.own, own);
    const { guarantee, isOther } = promiseOf(own!.made, next.agreement!);
    assert.ok(guarantee.includes("ε = 0.7") && isOther, guarantee);
  }
  const { own: kept, refused } = readFiles([sales, { name: "agreement.json", bytes: text(agreement) }, { name: "more.csv", bytes: text(csv) }], own);
  assert.equal(promiseOf(kept!.made!, readAgreement(agreement)).isOther, false);
  assert.match(refused.join(), /more\.csv: .*one file of rows at a time/);
});

test("files that are no releases are named and not shown", () => {
  const text = (words: string): Uint8Array => new TextEncoder().encode(words);
  const [name, release] = Object.entries(CASES[3].releases)[0];
  const { releases, refused } = readFiles([
    { name: "notes.pdf", bytes: text("hello") },
    { name: "broken.parquet", bytes: text("PAR1 and no more") },
    { name: `${name}.sketch`, bytes: bytesOf(release) },
    { name: "cut.sketch", bytes: bytesOf(release).subarray(0, 60) },
    { name: "<img src=x>\u202e.sketch", bytes: text("") },
  ]);
  assert.deepEqual([...releases.keys()], [name]);
  assert.equal(refused.length, 4);
  assert.ok(refused.every((one) => !one.includes("\u202e")));
  assert.equal(shown("a\u0000b"), "a\\u{0}b");
  assert.equal(shown("x".repeat(500)).length, 60);
});
