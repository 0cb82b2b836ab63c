// Builds dist/: one minified file as an ES module and in dist/cjs/ for `require`, the declarations of each, and functions for
// warehouses.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { bigquery, library, snowflake } from "./udf.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
rmSync(`${here}dist`, { recursive: true, force: true });
const FORMATS = { esm: "dist/streamsketch.js", cjs: "dist/cjs/streamsketch.js" };
for (const [format, outfile] of Object.entries(FORMATS)) {
  await build({
    absWorkingDir: here,
    entryPoints: ["src/index.ts"],
    bundle: true,
    minify: true,
    keepNames: true, // which stack traces show
    format,
    target: "es2022",
    outfile,
    logLevel: "warning",
    charset: "utf8",
  });
}
execFileSync("node_modules/.bin/tsc", ["--project", "tsconfig.types.json"], { cwd: here, stdio: "inherit" });
cpSync(`${here}dist/types`, `${here}dist/cjs/types`, { recursive: true });
writeFileSync(`${here}dist/cjs/package.json`, '{"type": "commonjs"}\n');

const script = await library();
mkdirSync(`${here}dist/udf`, { recursive: true });
writeFileSync(`${here}dist/udf/streamsketch_udf.js`, script);
writeFileSync(`${here}dist/udf/bigquery.sql`, bigquery());
writeFileSync(`${here}dist/udf/snowflake.sql`, snowflake(script));
for (const name of ["streamsketch.js", "udf/streamsketch_udf.js"]) {
  const data = readFileSync(`${here}dist/${name}`);
  console.log(`dist/${name}: ${data.length} bytes, ${gzipSync(data).length} compressed`);
}
