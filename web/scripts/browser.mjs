// Runs the same tests in a headless Chromium, as one page without requests; says so where there is none.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { findBrowser } from "./chromium.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const browser = findBrowser();
if (browser === undefined) {
  console.log("The browser's tests are skipped: there is no Chromium. Say CHROMIUM=PATH if it is elsewhere.");
  process.exit(0);
}
const tests = readdirSync(`${here}tests`).filter((name) => name.endsWith(".test.ts") && !name.endsWith(".node.test.ts"));
const { outputFiles } = await build({
  absWorkingDir: here,
  stdin: { contents: tests.map((name) => `import "./tests/${name}";`).join("\n"), resolveDir: here },
  alias: { "node:test": "./tests/browser/test.ts", "node:assert/strict": "./tests/browser/assert.ts" },
  bundle: true,
  format: "iife",
  target: "es2022",
  charset: "utf8",
  write: false,
  logLevel: "warning",
});
mkdirSync(`${here}out`, { recursive: true });
const page = `${here}out/tests.html`;
const script = outputFiles[0].text.replaceAll("</script", "<\\/script");
writeFileSync(page, `<!doctype html><meta charset="utf-8"><title>tests</title><body><script>${script}</script>`);
const profile = mkdtempSync(`${tmpdir()}/streamsketch-web-`);
try {
  const dom = execFileSync(
    browser,
    ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", `--user-data-dir=${profile}`,
      "--virtual-time-budget=120000", "--timeout=120000", "--dump-dom", `file://${page}`],
    { encoding: "utf8", maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "ignore"] },
  );
  const found = /<pre id="result">(.*?)<\/pre>/s.exec(dom);
  if (found === null) throw new Error("the page has no result: the tests did not end");
  const { tests: count, failed, first } = JSON.parse(found[1].replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&"));
  console.log(`In Chromium: ${count} tests, ${failed} failed.`);
  for (const one of first) console.log(one);
  process.exitCode = failed > 0 || count === 0 ? 1 : 0;
} finally {
  rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
}
