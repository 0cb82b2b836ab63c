// Builds the script of the report's page into the Python package; with --check, compares it with what is there.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
const target = fileURLToPath(new URL("../../streamsketch/report/page.js", import.meta.url));
const { outputFiles } = await build({
  absWorkingDir: here,
  entryPoints: ["src/page/report.ts"],
  bundle: true,
  minify: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  write: false,
  logLevel: "warning",
});
const found = outputFiles[0].text;
if (/<\/script|<!--/i.test(found)) throw new Error("the script has text that ends a script in HTML");
if (!process.argv.includes("--check")) {
  writeFileSync(target, found);
  console.log(`streamsketch/report/page.js: ${found.length} bytes`);
} else if (readFileSync(target, "utf8") !== found) {
  console.error("streamsketch/report/page.js is not what web/src/page makes: run `npm run page` in web/, and commit it");
  process.exit(1);
}
