// Runs the same tests in a headless Chromium, as one page without requests; says so where there is none.
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { findBrowser, start } from "./chromium.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const path = findBrowser();
if (path === undefined) {
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
const browser = start(path);
try {
  const tab = await browser.tab();
  await tab.show(pathToFileURL(page).href);
  const { tests: count, failed, first } = JSON.parse(await tab.run("globalThis.result"));
  console.log(`In Chromium: ${count} tests, ${failed} failed.`);
  for (const one of first) console.log(one);
  process.exitCode = failed > 0 || count === 0 ? 1 : 0;
} finally {
  await browser.close();
}
