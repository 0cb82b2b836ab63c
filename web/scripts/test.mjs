// Bundles each test with what it imports, and runs them under node: `npm test`, or `npm test -- NAME` for some.
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
const wanted = process.argv.slice(2);
const tests = readdirSync(`${here}tests`, { recursive: true })
  .map(String)
  .filter((name) => name.endsWith(".test.ts") && (wanted.length === 0 || wanted.some((one) => name.includes(one))));
rmSync(`${here}out/tests`, { recursive: true, force: true });
await build({
  absWorkingDir: here,
  entryPoints: tests.map((name) => `tests/${name}`),
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  outdir: "out/tests",
  outbase: "tests",
  outExtension: { ".js": ".mjs" },
  external: ["esbuild"],
  sourcemap: "inline",
  logLevel: "warning",
});
const files = tests.map((name) => `out/tests/${name.replace(/\.ts$/, ".mjs")}`);
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-reporter=spec", ...files], { cwd: here, stdio: "inherit" });
process.exit(status ?? 1);
