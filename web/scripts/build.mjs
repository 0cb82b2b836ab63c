// Builds dist/: one minified ESM file, and the declarations beside it.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
rmSync(`${here}dist`, { recursive: true, force: true });
await build({
  absWorkingDir: here,
  entryPoints: ["src/index.ts"],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outfile: "dist/streamsketch.js",
  logLevel: "warning",
  charset: "utf8",
});
execFileSync("node_modules/.bin/tsc", ["--project", "tsconfig.types.json"], { cwd: here, stdio: "inherit" });
