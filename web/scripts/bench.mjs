// Prints how long reading and estimating take: `npm run bench`.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
await build({ absWorkingDir: here, entryPoints: ["bench/speed.ts"], bundle: true, format: "esm", platform: "node", outfile: "out/bench.mjs", logLevel: "warning" });
process.exit(spawnSync(process.execPath, ["out/bench.mjs"], { cwd: here, stdio: "inherit" }).status ?? 1);
