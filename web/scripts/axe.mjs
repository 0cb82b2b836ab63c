// Shows releases in the viewer, in a headless Chromium at three sizes, and runs axe over it; says so where there is none.
// The screenshots are in out/.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { findBrowser } from "./chromium.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const browser = findBrowser();
if (browser === undefined) {
  console.log("The viewer is not looked at: there is no Chromium. Say CHROMIUM=PATH if it is elsewhere.");
  process.exit(0);
}
// of each size, what is dropped, and how the answer begins
const SIZES = [[1200, 1000, "groups", "3 groups stand out."], [800, 1000, "windows", "4 changes stand out."], [400, 800, "groups", "3 groups stand out."]];
const { cases } = JSON.parse(readFileSync(`${here}tests/page.json`, "utf8"));
const axe = readFileSync(`${here}node_modules/axe-core/axe.min.js`, "utf8").replaceAll("</script", "<\\/script");
// the page forbids every script but its own, and so those of a test
const viewer = readFileSync(fileURLToPath(new URL("../../streamsketch/report/viewer.html", import.meta.url)), "utf8").replace(/<meta http-equiv="Content-Security-Policy"[^>]*>/, "");
const drop = (which) => `
addEventListener("load", async () => {
  const files = new DataTransfer();
  for (const [name, text] of Object.entries(${JSON.stringify(cases.find((one) => one.name === which).releases)})) files.items.add(new File([Uint8Array.from(atob(text), (one) => one.charCodeAt(0))], name + ".sketch"));
  files.items.add(new File([Array.from({ length: 30 }, (_, item) => item).join("\\n")], "items.txt"));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  for (let wait = 0; wait < 900 && [".hm-box", ".vt table"].some((part) => document.querySelector(part) === null); wait++) await new Promise((done) => setTimeout(done, 100));
  const isTesting = () => /^Testing/.test(document.querySelector("section [role=status]")?.textContent ?? "");
  for (let wait = 0; wait < 900 && isTesting(); wait++) await new Promise((done) => setTimeout(done, 100));
  let found;
  try {
    document.querySelector(".vt table").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true }));
    const differing = document.querySelectorAll(".differing li").length;
    const said = document.querySelector(".dictionary [role=status]").textContent;
    const range = document.querySelector("input[type=range]");
    let inWindow = null;
    if (range !== null) {
      range.value = "2";
      range.dispatchEvent(new Event("input"));
      inWindow = [document.querySelector(".windows output").textContent, document.querySelector(".vt output").textContent, document.querySelectorAll("svg.map circle.away").length];
    }
    const { violations } = await axe.run(document, { resultTypes: ["violations"] });
    found = { violations: violations.map((one) => [one.id, one.nodes[0].html.slice(0, 200)]), answer: document.querySelector(".answer").textContent, differing, said, inWindow, wider: document.documentElement.scrollWidth - innerWidth };
  } catch (error) { found = { error: String(error.stack) }; }
  const end = Object.assign(document.createElement("pre"), { id: "result", hidden: true, textContent: JSON.stringify(found) });
  document.body.append(end);
});`;
mkdirSync(`${here}out`, { recursive: true });
const page = `${here}out/viewer.html`;
const profile = mkdtempSync(`${tmpdir()}/streamsketch-web-`);
let failed = 0;
try {
  for (const [width, height, which, answer] of SIZES) {
    writeFileSync(page, viewer.replace("</body>", () => `<script>${axe}</script><script>${drop(which)}</script></body>`));
    const dom = execFileSync(
      browser,
      ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking", `--user-data-dir=${profile}`,
        "--virtual-time-budget=120000", `--window-size=${width},${height}`, `--screenshot=${here}out/viewer-${width}.png`, "--dump-dom", `file://${page}`],
      { encoding: "utf8", maxBuffer: 2 ** 28, stdio: ["ignore", "pipe", "ignore"] },
    );
    const text = /<pre id="result"[^>]*>(.*?)<\/pre>/s.exec(dom)?.[1] ?? '{"error": "no result"}';
    const found = JSON.parse(text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&nbsp;", " ").replaceAll("&quot;", '"').replaceAll("&amp;", "&"));
    const isGood = found.error === undefined && found.violations.length === 0 && found.wider <= 0 && found.answer.startsWith(answer) &&
      found.differing === 10 && found.said.startsWith("30 items") &&
      JSON.stringify(found.inWindow) === (which === "windows" ? '["2024-W02","1 of 15 pairs",4]' : "null");
    if (!isGood) console.log(`${width} by ${height}:`, JSON.stringify(found));
    failed += isGood ? 0 : 1;
  }
} finally {
  rmSync(profile, { recursive: true, force: true, maxRetries: 3 });
}
console.log(`The viewer in Chromium: ${SIZES.length} sizes, ${failed} with faults.`);
process.exitCode = failed > 0 ? 1 : 0;
