// Makes a release of somebody's own rows on the viewer, in a headless Chromium with its Content-Security-Policy in force;
// says so where there is none. The screenshots are in out/.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { findBrowser, start } from "./chromium.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const path = findBrowser();
if (path === undefined) {
  console.log("No release is made in the viewer: there is no Chromium. Say CHROMIUM=PATH if it is elsewhere.");
  process.exit(0);
}
const { agreement, csv, releases } = JSON.parse(readFileSync(`${here}tests/rows.json`, "utf8")).releases.find(({ name }) => name === "l1, keys, two of them");
const axe = readFileSync(`${here}node_modules/axe-core/axe.min.js`, "utf8");
const viewer = fileURLToPath(new URL("../../streamsketch/report/viewer.html", import.meta.url));
const DROP = (files) => `(async () => {
  const files = new DataTransfer();
  for (const [name, content, isHex] of ${JSON.stringify(files)}) files.items.add(new File([isHex ? Uint8Array.from(content.match(/../g), (one) => parseInt(one, 16)) : content], name));
  document.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  for (let wait = 0; wait < 300 && document.querySelector(".own h2") === null; wait++) await new Promise((done) => setTimeout(done, 20));
  return document.querySelector(".own").innerText;
})()`;
const RELEASE = `(async () => {
  window.saved = null;
  const made = URL.createObjectURL;
  URL.createObjectURL = (content) => { content.arrayBuffer().then((bytes) => { window.saved = String.fromCharCode(...new Uint8Array(bytes).subarray(0, 4)); }); return made.call(URL, content); };
  const go = document.querySelector(".own button.release");
  const before = go.disabled;
  document.getElementById("leave-out").click();
  go.click();
  for (let wait = 0; wait < 1500 && !document.querySelector(".own").innerText.includes("Released."); wait++) await new Promise((done) => setTimeout(done, 20));
  const again = document.querySelector(".own button.release") !== null;
  [...document.querySelectorAll(".own button")].find((one) => one.textContent.startsWith("Save")).click();
  for (let wait = 0; wait < 100 && window.saved === null; wait++) await new Promise((done) => setTimeout(done, 20));
  return { before, again, saved: window.saved, text: document.querySelector(".own").innerText, streams: document.querySelector(".facts").innerText };
})()`;
// what a page without the policy could do
const LEAVE = `(async () => {
  const blocked = [];
  addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
  const fetched = await fetch("https://localhost:9/").then(() => "sent", () => "refused");
  const beacon = navigator.sendBeacon("https://localhost:9/", "rows");
  new Image().src = "https://localhost:9/rows";
  await new Promise((done) => setTimeout(done, 200));
  return { fetched, beacon, blocked: [...new Set(blocked)].sort() };
})()`;
const faults = [];
const expect = (holds, what) => { if (!holds) faults.push(what); };
mkdirSync(`${here}out`, { recursive: true });
const browser = start(path);
try {
  const tab = await browser.tab();
  for (const width of [1200, 400]) {
    await tab.size(width, 1000);
    await tab.show(pathToFileURL(viewer).href);
    const theirs = Object.entries(releases).map(([name, bytes]) => [`${name}.sketch`, bytes, true]);
    const first = await tab.run(DROP([["agreement.json", agreement], ["sales.csv", csv], ...theirs]));
    for (const words of ["240 rows", "no value", "not of the agreed type", "a key that is not listed", "several spellings", "rows of units", "ε = 3"]) expect(first.includes(words), `the check does not say ${words}: ${first}`);
    const { before, again, saved, text, streams } = await tab.run(RELEASE);
    expect(before, "rows that the agreement refuses are released unasked");
    expect(!again, "a second release is offered");
    expect(saved === "PAR1", `saved: ${saved}`);
    expect(text.includes("Released."), text);
    expect(streams.startsWith("6 streams"), streams);
    await tab.run(axe);
    const violations = await tab.run(`axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.map((one) => [one.id, one.nodes[0].html.slice(0, 200)]))`);
    expect(violations.length === 0, JSON.stringify(violations));
    expect(await tab.run("document.documentElement.scrollWidth - innerWidth") <= 0, `wider than ${width}`);
    const { data } = await tab.ask("Page.captureScreenshot", { format: "png" });
    writeFileSync(`${here}out/own-${width}.png`, Buffer.from(data, "base64"));
    const { fetched, blocked } = await tab.run(LEAVE);
    expect(fetched === "refused" && blocked.includes("connect-src") && blocked.includes("img-src"), `the page can send: ${fetched}, ${blocked}`);
  }
} finally {
  await browser.close();
}
for (const fault of faults) console.log(fault);
console.log(`A release of one's own rows in Chromium: ${faults.length} faults.`);
process.exitCode = faults.length > 0 ? 1 : 0;
