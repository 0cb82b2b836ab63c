// Writes tests/written.json, which Python's tests read, again: `npm run write`. Look at what changed.
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL("..", import.meta.url));
await build({ absWorkingDir: here, entryPoints: ["tests/written.ts"], bundle: true, format: "esm", platform: "node", outfile: "out/written.mjs", logLevel: "warning" });
const { writtenText } = await import(`${here}out/written.mjs`);
writeFileSync(`${here}tests/written.json`, writtenText());
