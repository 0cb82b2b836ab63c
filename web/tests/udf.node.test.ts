/** Functions of warehouses, called as BigQuery and Snowflake call them: in engines that have the language alone. */
import assert from "node:assert/strict";
import test from "node:test";
import vm from "node:vm";
// @ts-expect-error a script without types
import { bigquery, library, snowflake } from "../scripts/udf.mjs";
import * as ss from "./api.ts";
import { KIT, named } from "./kit.ts";

const script: string = await library();

function hexOf(name: string): string {
  return named("releases", name).bytes;
}

/** Return the names and bodies of the functions in SQL. */
function bodies(sql: string, quote: string): Map<string, { parameters: string[]; body: string }> {
  const found = new Map<string, { parameters: string[]; body: string }>();
  for (const statement of sql.split("CREATE OR REPLACE FUNCTION ").slice(1)) {
    const [, name, given] = /^(?:DATASET\.)?(\w+)\(([^)]*)\)/.exec(statement) as RegExpExecArray;
    const start = statement.indexOf(quote) + quote.length;
    const end = statement.indexOf(quote.replace("r", ""), start);
    assert.equal(statement.slice(end).trim(), `${quote.replace("r", "")};`);
    found.set(name, { parameters: given.split(", ").map((one) => one.split(" ")[0]), body: statement.slice(start, end) });
  }
  return found;
}

type Call = (name: string, ...values: unknown[]) => any;

/** BigQuery: the library is a script before the function; bytes are base64. */
function onBigQuery(): { call: Call; bytes: (hex: string) => unknown; text: (value: any) => string } {
  const context = vm.createContext({});
  vm.runInContext(script, context);
  const functions = bodies(bigquery(), 'r"""');
  const call: Call = (name, ...values) => {
    const { parameters, body } = functions.get(name) as { parameters: string[]; body: string };
    return vm.runInContext(`(function (${parameters.join(", ")}) {${body}})`, context)(...values);
  };
  return { call, bytes: (hex) => Buffer.from(hex, "hex").toString("base64"), text: (value) => Buffer.from(value, "base64").toString("hex") };
}

/** Snowflake: names of arguments are in capitals, bytes are a Uint8Array, NULL is undefined; globals may be lost. */
function onSnowflake(): { call: Call; bytes: (hex: string) => unknown; text: (value: any) => string } {
  const functions = bodies(snowflake(script), "$$");
  let context = vm.createContext({});
  const call: Call = (name, ...values) => {
    const { parameters, body } = functions.get(name) as { parameters: string[]; body: string };
    if (name === "combine") context = vm.createContext({});
    const given = values.map((value) => (value instanceof Uint8Array ? vm.runInContext("(v) => Uint8Array.from(v)", context)([...value]) : (value ?? undefined)));
    return vm.runInContext(`(function (${parameters.map((one) => one.toUpperCase()).join(", ")}) {${body}})`, context)(...given);
  };
  return { call, bytes: (hex) => Uint8Array.from(Buffer.from(hex, "hex")), text: (value) => Buffer.from(value).toString("hex") };
}

for (const [warehouse, make] of [["BigQuery", onBigQuery], ["Snowflake", onSnowflake]] as const) {
  test(`${warehouse}: estimates are those of the package`, () => {
    const { call, bytes } = make();
    const [x, y] = ["a part, x", "a part, y"].map((name) => ss.readRelease(ss.unhex(hexOf(name))));
    for (const [name, estimator] of [["squared_distance", ss.squaredDistance], ["inner_product", ss.innerProduct]] as const) {
      const found = call(name, bytes(hexOf("a part, x")), bytes(hexOf("a part, y")));
      const expected = estimator(x, y);
      const { low, high } = expected.interval();
      assert.deepEqual({ ...found }, { value: expected.value, standard_error: expected.standardError, low_95: low, high_95: Number.isFinite(high) ? high : null });
    }
    const [p, q] = ["count-sketch, x", "count-sketch, y"];
    assert.equal(call("cosine", bytes(hexOf(p)), bytes(hexOf(q))).value, ss.cosine(ss.readRelease(ss.unhex(hexOf(p))), ss.readRelease(ss.unhex(hexOf(q)))).value);
    const counted = "of counted units, x";
    assert.equal(call("units", bytes(hexOf(counted))).value, ss.units(ss.readRelease(ss.unhex(hexOf(counted)))).value);
    assert.equal(call("total", bytes(hexOf(counted))).value, ss.total(ss.readRelease(ss.unhex(hexOf(counted)))).value);
    assert.equal(call("mean_norm", bytes(hexOf(counted))).value, ss.meanNorm(ss.readRelease(ss.unhex(hexOf(counted)))).value);
  });

  test(`${warehouse}: frequencies of text, integers, dates and bytes`, () => {
    const { call, bytes } = make();
    const hashed = named("releases", "wide cells, x");
    const release = ss.readRelease(ss.unhex(hashed.bytes));
    for (const [item, type, own] of [["Ä🔑", "text", "Ä🔑"], ["2026-01-31", "date", ss.Day.parse("2026-01-31")], ["/wA=", "bytes", Uint8Array.of(255, 0)], ["3", "integer", 3n]] as const) {
      assert.equal(call("frequency", bytes(hashed.bytes), item, type).value, ss.frequency(release, own).value, type);
    }
    assert.equal(call("frequency", bytes(hashed.bytes), "a", null).value, ss.frequency(release, "a").value);
    for (const type of ["float", "constructor"]) assert.throws(() => call("frequency", bytes(hashed.bytes), "a", type));
  });

  test(`${warehouse}: NULL gives NULL, bytes that are no sketch an error`, () => {
    const { call, bytes } = make();
    const x = bytes(hexOf("a part, x"));
    for (const name of ["squared_distance", "cosine"]) assert.equal(call(name, x, null), null);
    for (const name of ["squared_norm", "guarantee", "warnings"]) assert.equal(call(name, null), null);
    assert.equal(call("frequency", null, "a", "text"), null);
    assert.equal(call("combine", null, x, "disjoint"), null);
    assert.equal(call("cosine", bytes(hexOf("an empty stream")), x), null);
    assert.throws(() => call("squared_norm", bytes("00")));
  });

  test(`${warehouse}: NULL, with the reason, for what sound releases do not say`, () => {
    const { call, bytes } = make();
    const [x, y, counted, row] = ["a part, x", "a part, y", "of counted units, x", "row 0 of root"].map((name) => bytes(hexOf(name)));
    for (const name of ["squared_distance", "inner_product", "cosine", "profile_distance", "mean_distance", "mean_product"]) {
      for (const [first, second] of [[counted, counted], [row, counted]]) {
        assert.equal(call(name, first, second), null, name);
        assert.ok(call("why_null", first, second, name).length > 10);
      }
    }
    for (const name of ["units", "total", "mean_norm"]) {
      assert.equal(call(name, x), null);
      assert.match(call("why_null", x, null, name), /count|slack/);
    }
    for (const name of ["squared_norm", "units"]) assert.equal(call(name, row), null);
    assert.equal(call("frequency", row, "3", "integer"), null);
    assert.equal(call("combine", x, x, "disjoint"), null);
    assert.equal(call("why_null", x, y, "squared_distance"), null);
    assert.equal(call("why_null", counted, null, "units"), null);
    assert.match(call("why_null", x, null, "cosine"), /NULL/);
    assert.match(call("why_null", x, x, "cosine"), /share/);
    for (const name of ["constructor", "frequency"]) assert.throws(() => call("why_null", x, y, name));
    assert.throws(() => call("why_null", bytes("00"), null, "units"));
    assert.throws(() => call("combine", x, y, "all"));
    assert.throws(() => call("squared_distance", x, bytes(hexOf("identity, x"))), "projections that differ are a mistake of the query");
  });

  test(`${warehouse}: combined releases have the kit's bytes, and text is whole`, () => {
    const { call, bytes, text } = make();
    for (const one of KIT.releases.filter((each) => each.sum !== undefined && each.sum[2] === 1)) {
      const found = call("combine", bytes(hexOf(one.sum[0])), bytes(hexOf(one.sum[1])), one.sum[3]);
      assert.equal(text(found), one.bytes, one.name);
    }
    for (const name of ["a part, x", "under conditions"]) {
      const release = ss.readRelease(ss.unhex(hexOf(name)));
      assert.equal(call("guarantee", bytes(hexOf(name))), ss.guaranteeText(release.guarantee));
      assert.equal(call("warnings", bytes(hexOf(name))), ss.warnings(release).join("\n"));
      assert.equal(call("noise_check", bytes(hexOf(name))), ss.checkNoise(release).verdict);
    }
  });
}

test("every function of the SQL is one of the library, and none releases", () => {
  const context = vm.createContext({});
  vm.runInContext(script, context);
  const names = [...bodies(bigquery(), 'r"""').keys()];
  assert.deepEqual(names, [...bodies(snowflake(script), "$$").keys()]);
  for (const name of names) assert.equal(vm.runInContext(`typeof streamsketch.${name}`, context), "function");
  assert.ok(!/getRandomValues/.test(script), "the library draws random bits");
  assert.ok(script.length < 100_000, `Snowflake recommends less than 100 kB, and the library has ${script.length}`);
});
