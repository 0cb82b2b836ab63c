// Bundles the tests with what they import, and runs them under node: `npm test`, or `npm test -- NAME` for some.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
const MOST = 1_200_000; // milliseconds: a test that fails, and prints for ever how, must not hang
const wanted = process.argv.slice(2);
const tests = readdirSync(`${here}tests`).filter((name) => name.endsWith(".test.ts") && (wanted.length === 0 || wanted.some((one) => name.includes(one))));
if (tests.length === 0) throw new Error(`there is no test of ${wanted.join(" or ")}`);
await build({
  absWorkingDir: here,
  stdin: { contents: tests.map((name) => `import "./tests/${name}";`).join("\n"), resolveDir: here },
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  outfile: "out/tests.mjs",
  external: ["esbuild"],
  sourcemap: "inline",
  sourcesContent: false,
  logLevel: "warning",
});
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test-reporter=spec", "--test", `--test-timeout=${MOST}`, "out/tests.mjs"], { cwd: here, stdio: "inherit", timeout: MOST + 30_000, killSignal: "SIGKILL" });
process.exit(status ?? 1);
