// Shows releases in the viewer, in a headless Chromium at three sizes, and runs axe over it; says so where there is none.
// The screenshots are in out/.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { findBrowser, start } from "./chromium.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const path = findBrowser();
if (path === undefined) {
  console.log("The viewer is not looked at: there is no Chromium. Say CHROMIUM=PATH if it is elsewhere.");
  process.exit(0);
}
// of each size, what is dropped, and how the answer begins
const SIZES = [[1200, 1000, "groups", "3 groups stand out."], [800, 1000, "windows", "4 changes stand out."], [400, 800, "groups", "3 groups stand out."]];
const { cases } = JSON.parse(readFileSync(`${here}tests/page.json`, "utf8"));
const viewer = pathToFileURL(fileURLToPath(new URL("../../streamsketch/report/viewer.html", import.meta.url))).href;
const ITEMS = Array.from({ length: 30 }, (_, item) => item).join("\n");
// all that is drawn, and no window is tested any more
const IS_READY = `[".hm-box", ".vt table", ".answer", ".dictionary"].every((part) => document.querySelector(part) !== null) &&
  !/^Testing/.test(document.querySelector("section [role=status]")?.textContent ?? "")`;
const LOOK = `(() => {
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
  return { answer: document.querySelector(".answer").textContent, differing, said, inWindow, wider: document.documentElement.scrollWidth - innerWidth };
})()`;
mkdirSync(`${here}out`, { recursive: true });
const browser = start(path);
let failed = 0;
try {
  const tab = await browser.tab();
  for (const [width, height, which, answer] of SIZES) {
    const { releases } = cases.find((one) => one.name === which);
    await tab.size(width, height);
    await tab.show(viewer);
    await tab.drop([...Object.entries(releases).map(([name, text]) => [`${name}.sketch`, Buffer.from(text, "base64")]), ["items.txt", ITEMS]]);
    await tab.until(IS_READY);
    const found = await tab.run(LOOK);
    const violations = await tab.faults();
    writeFileSync(`${here}out/viewer-${width}.png`, await tab.picture());
    const isGood = violations.length === 0 && found.wider <= 0 && found.answer.startsWith(answer) && found.differing === 10 && found.said.startsWith("30 items") &&
      JSON.stringify(found.inWindow) === (which === "windows" ? '["2024-W02","1 of 15 pairs",4]' : "null");
    if (!isGood) console.log(`${width} by ${height}:`, JSON.stringify({ ...found, violations }));
    failed += isGood ? 0 : 1;
  }
} finally {
  await browser.close();
}
console.log(`The viewer in Chromium: ${SIZES.length} sizes, ${failed} with faults.`);
process.exitCode = failed > 0 ? 1 : 0;
