// Forgets one factor after another in src/, as tests/mutants.json lists them, and sees that a case of the conformance kit, or of what this library makes, fails each time:
// `npm run mutants`, or `npm run mutants -- NAME` for those whose file, text or description contains a name.
import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
const KIT = ["combine", "estimates", "features", "frequencies", "history", "joint", "rounds", "rows", "sameness", "tables", "words", "written"];
const wanted = process.argv.slice(2);
const mutants = JSON.parse(readFileSync(`${here}tests/mutants.json`, "utf8")).filter((one) => wanted.length === 0 || wanted.some((name) => JSON.stringify(one).includes(name)));

// Stands for node:test: runs the tests in order, and ends at the first that fails.
const FIRST_FAILURE = `
const tests = [];
export default function test(name, body) { tests.push([name, body]); }
setImmediate(async () => {
  for (const [name, body] of tests) {
    try { await body(); } catch { console.log(name); process.exit(1); }
  }
});`;

function changed({ file, text, replacement }) {
  const source = readFileSync(`${here}src/${file}`, "utf8");
  const places = source.split(text).length - 1;
  if (places !== 1) throw new Error(`src/${file} has ${places} places with "${text}", and a mutant takes one: change tests/mutants.json`);
  return source.replace(text, () => replacement);
}

async function bundled(mutant, outfile) {
  const plugin = {
    name: "mutant",
    setup(esbuild) {
      esbuild.onResolve({ filter: /^node:test$/ }, () => ({ path: "first-failure", namespace: "runner" }));
      esbuild.onLoad({ filter: /.*/, namespace: "runner" }, () => ({ contents: FIRST_FAILURE }));
      esbuild.onLoad({ filter: /src[\\/][\w]+\.ts$/ }, ({ path }) =>
        mutant !== null && path.replaceAll("\\", "/").endsWith(`src/${mutant.file}`) ? { contents: changed(mutant), loader: "ts" } : undefined);
    },
  };
  const contents = KIT.map((name) => `import "./tests/${name}.test.ts";`).join("\n");
  const options = { absWorkingDir: here, stdin: { contents, resolveDir: here }, bundle: true, format: "esm", platform: "node", target: "node20", logLevel: "warning" };
  await build({ ...options, outfile, plugins: [plugin] });
}

/** Return the first test that fails, or null. */
async function firstFailure(mutant, place) {
  const outfile = `${here}out/mutants/${place}.mjs`;
  await bundled(mutant, outfile);
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [outfile], { cwd: here, stdio: ["ignore", "pipe", "inherit"] });
    let said = "";
    child.stdout.on("data", (data) => (said += data));
    child.on("close", (status) => resolve(status === 0 ? null : said.trim() || `status ${status}`));
  });
}

mkdirSync(`${here}out/mutants`, { recursive: true });
writeFileSync(`${here}out/mutants/package.json`, '{"type": "module"}');
const sound = await firstFailure(null, "sound");
if (sound !== null) throw new Error(`without a change ${sound} fails`);
const left = mutants.map((mutant, place) => [mutant, place]);
let missed = 0;
async function work() {
  for (let next = left.shift(); next !== undefined; next = left.shift()) {
    const [mutant, place] = next;
    const failed = await firstFailure(mutant, place);
    missed += failed === null ? 1 : 0;
    console.log(`${failed === null ? "✖ NOT SEEN" : "✔"} ${mutant.file}: ${mutant.forgets}${failed === null ? "" : ` (${failed})`}`);
  }
}
await Promise.all(Array.from({ length: availableParallelism() }, work));
console.log(`${mutants.length - missed} of ${mutants.length} forgotten factors are seen by the kit`);
process.exit(missed === 0 && mutants.length > 0 ? 0 : 1);
