// Functions of warehouses: a library for BigQuery, and the SQL that makes the functions there and in Snowflake.
import { build } from "esbuild";

const here = process.cwd(); // npm runs scripts in web/
const NUMBERS = ["value", "standard_error", "low_95", "high_95"];
const ONE = ["x"], TWO = ["x", "y"];
// name, sketches, other arguments (text), what is returned
const FUNCTIONS = [
  ...["squared_norm", "mean_norm", "units", "total"].map((name) => [name, ONE, [], "numbers"]),
  ...["squared_distance", "inner_product", "cosine", "profile_distance", "mean_distance", "mean_product"].map((name) => [name, TWO, [], "numbers"]),
  ["frequency", ONE, ["item", "type"], "numbers"],
  ["combine", TWO, ["populations"], "bytes"],
  ["why_null", TWO, ["name"], "text"],
  ...["guarantee", "warnings", "noise_check"].map((name) => [name, ONE, [], "text"]),
];

/** Return the bundle: a script that defines the global `streamsketch`, for engines without browsers' interfaces. */
export async function library() {
  const { outputFiles } = await build({
    absWorkingDir: here,
    entryPoints: ["src/udf.ts"],
    bundle: true,
    minify: true,
    format: "iife",
    globalName: "streamsketch",
    target: "es2020",
    charset: "ascii",
    write: false,
    logLevel: "warning",
  });
  const [{ text }] = outputFiles;
  if (text.includes("$$")) throw new Error("Snowflake ends a function at $$, which the bundle has");
  return text;
}

/** Return BigQuery's SQL; `place` is where the library is, in Cloud Storage. */
export function bigquery(dataset = "DATASET", place = "gs://BUCKET/streamsketch_udf.js") {
  const types = { numbers: `STRUCT<${NUMBERS.map((name) => `${name} FLOAT64`).join(", ")}>`, bytes: "BYTES", text: "STRING" };
  return FUNCTIONS.map(([name, sketches, texts, result]) => {
    const parameters = [...sketches.map((one) => `${one} BYTES`), ...texts.map((one) => `${one} STRING`)];
    return `CREATE OR REPLACE FUNCTION ${dataset}.${name}(${parameters.join(", ")})
RETURNS ${types[result]}
DETERMINISTIC
LANGUAGE js
OPTIONS (library = ["${place}"])
AS r"""
return streamsketch.${name}(${[...sketches, ...texts].join(", ")});
""";
`;
  }).join("\n");
}

/** Return Snowflake's SQL: each function has the library in it, which is evaluated once in an environment. */
export function snowflake(script) {
  const types = { numbers: "OBJECT", bytes: "BINARY", text: "STRING" };
  const setup = `if (typeof globalThis.streamsketch === "undefined") {\n${script.trim()}\nglobalThis.streamsketch = streamsketch;\n}`;
  return FUNCTIONS.map(([name, sketches, texts, result]) => {
    const parameters = [...sketches.map((one) => `${one} BINARY`), ...texts.map((one) => `${one} STRING`)];
    const called = result === "bytes" ? `${name}_bytes` : name;
    const values = [...sketches, ...texts].map((one) => one.toUpperCase());
    return `CREATE OR REPLACE FUNCTION ${name}(${parameters.join(", ")})
RETURNS ${types[result]}
LANGUAGE JAVASCRIPT
IMMUTABLE
AS
$$
${setup}
return globalThis.streamsketch.${called}(${values.join(", ")});
$$;
`;
  }).join("\n");
}
