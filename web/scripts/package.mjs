// Builds and packs the package, installs it in an empty folder, and uses it there: by import and require, by TypeScript under
// each resolution of modules, and by the example of the README.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL("..", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "streamsketch-package-"));
const place = join(folder, "node_modules", "streamsketch");
const problems = [];
const need = (is, what) => { if (!is) problems.push(what); };
const run = (file, text) => {
  writeFileSync(join(folder, file), text);
  return execFileSync(process.execPath, [file], { cwd: folder, encoding: "utf8" });
};
try {
  execFileSync("npm", ["run", "--silent", "build"], { cwd: here, stdio: "inherit" });
  const [{ files, filename }] = JSON.parse(execFileSync("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], { cwd: here, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  mkdirSync(place, { recursive: true });
  execFileSync("tar", ["--extract", "--strip-components=1", "--file", join(folder, filename), "--directory", place]);
  const names = files.map(({ path }) => path);
  for (const name of ["LICENSE", "README.md", "dist/streamsketch.js", "dist/types/index.d.ts", "dist/cjs/streamsketch.js", "dist/cjs/types/index.d.ts"]) need(names.includes(name), `no ${name}`);
  need(!names.some((name) => /snowflake|test|\.map$/.test(name)), `files for other uses: ${names}`);
  need(readFileSync(join(place, "LICENSE"), "utf8") === readFileSync(join(here, "../LICENSE"), "utf8"), "another LICENSE than the project's");
  const own = JSON.parse(readFileSync(join(place, "package.json"), "utf8"));
  for (const one of [own.main, own.module, own.types, ...Object.values(own.exports["."]).flatMap(Object.values)]) need(existsSync(join(place, one)), `no ${one}`);
  need(own.dependencies === undefined && own.scripts.install === undefined && own.scripts.postinstall === undefined, "something runs on installation");
  const readme = readFileSync(join(place, "README.md"), "utf8");
  need(!/\]\((?!https:)/.test(readme), "the README links out of the package");

  // the name of an error is that of its class, in both kinds of modules
  const wrong = `try { readRelease(new Uint8Array(3)); } catch (error) { console.log(error.constructor.name, error.name, String(error.stack).split(":")[0]); }`;
  for (const [file, head] of [["wrong.mjs", 'import { readRelease } from "streamsketch";'], ["wrong.cjs", 'const { readRelease } = require("streamsketch");']]) {
    const said = run(file, `${head}\n${wrong}`).trim();
    need(said === "WireFormatError WireFormatError WireFormatError", `${file}: errors are ${said}`);
  }
  const example = /```javascript\n(.*?)```/s.exec(readme)[1];
  const said = run("example.mjs", example);
  // its noise is new: the cosine is 0.76 with a standard deviation of 0.023, the distance 9 of its own from 0, so one run in 10^12 fails
  need(/^squared distance \d+ ± \d+$/m.test(said) && /^cosine 0\.\d\d$/m.test(said) && /^Protected: one purchase/m.test(said), `the README's example says: ${said}`);

  const uses = `import { squaredDistance, readRelease, type Release } from "streamsketch";
const release: Release = readRelease(new Uint8Array(1));
const value: number = squaredDistance(release, release).value;
// @ts-expect-error a release is no number
const not: number = release;
console.log(value, not);
`;
  cpSync(join(here, "node_modules/@types"), join(folder, "node_modules/@types"), { recursive: true, dereference: true });
  for (const [resolution, module, file] of [["bundler", "esnext", "uses.ts"], ["node16", "node16", "uses.mts"], ["node16", "node16", "uses.cts"], ["nodenext", "nodenext", "uses.mts"], ["nodenext", "nodenext", "uses.cts"]]) {
    writeFileSync(join(folder, file), uses);
    try {
      execFileSync(join(here, "node_modules/.bin/tsc"), ["--noEmit", "--strict", "--target", "es2022", "--lib", "es2022,dom", "--types", "", "--module", module, "--moduleResolution", resolution, file], { cwd: folder, encoding: "utf8", stdio: "pipe" });
    } catch (error) { problems.push(`types under ${resolution}, ${file}: ${error.stdout}`); }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const one of problems) console.error(`✖ ${one}`);
console.log(`The package of npm: ${problems.length === 0 ? "imported, required and typed; the README's example runs" : `${problems.length} problems`}.`);
process.exitCode = problems.length > 0 ? 1 : 0;
