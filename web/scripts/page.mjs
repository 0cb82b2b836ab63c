// Builds the script of the report's page and the viewer into the Python package; with --check, compares them with what
// is there.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
const target = fileURLToPath(new URL("../../streamsketch/report/", import.meta.url));
const { version } = JSON.parse(readFileSync(`${here}package.json`, "utf8"));

async function bundled(entry) {
  const { outputFiles } = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    define: { VERSION: JSON.stringify(version) },
    write: false,
    logLevel: "warning",
  });
  const { text } = outputFiles[0];
  if (/<\/script|<!--/i.test(text)) throw new Error(`${entry} has text that ends a script in HTML`);
  return text;
}

function viewer(script) {
  const digest = createHash("sha256").update(script).digest("base64");
  const style = ["page.css", "live.css"].map((name) => readFileSync(`${target}templates/${name}`, "utf8")).join("");
  return readFileSync(`${here}src/page/viewer.html`, "utf8").replace("/* style */", () => style).replace("DIGEST", () => digest).replace("/* script */", () => script);
}

const files = { "page.js": await bundled("src/page/report.ts"), "viewer.html": viewer(await bundled("src/page/viewer.ts")) };
for (const [name, found] of Object.entries(files)) {
  if (!process.argv.includes("--check")) {
    writeFileSync(target + name, found);
    console.log(`streamsketch/report/${name}: ${Buffer.byteLength(found)} bytes`);
  } else if (readFileSync(target + name, "utf8") !== found) {
    console.error(`streamsketch/report/${name} is not what web/src/page makes: run \`npm run page\` in web/, and commit it`);
    process.exitCode = 1;
  }
}
