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
const viewer = fileURLToPath(new URL("../../streamsketch/report/viewer.html", import.meta.url));
const OWN = 'document.querySelector(".own")';
const RELEASE = `{
  window.saved = null;
  const made = URL.createObjectURL;
  URL.createObjectURL = (content) => { content.arrayBuffer().then((bytes) => { window.saved = String.fromCharCode(...new Uint8Array(bytes).subarray(0, 4)); }); return made.call(URL, content); };
  const go = ${OWN}.querySelector("button.release");
  const before = go.disabled;
  document.getElementById("leave-out").click();
  go.click();
  before;
}`;
// what a page without the policy could do; each attempt ends in an event, whatever comes of it
const LEAVE = `(async () => {
  const blocked = new Set();
  addEventListener("securitypolicyviolation", (event) => blocked.add(event.effectiveDirective));
  const fetched = await fetch("https://localhost:9/").then(() => "sent", () => "refused");
  navigator.sendBeacon("https://localhost:9/", "rows");
  const image = new Image();
  const shown = new Promise((done) => { image.onload = image.onerror = done; });
  image.src = "https://localhost:9/rows";
  await shown;
  await new Promise((done) => setTimeout(done)); // events that wait in line
  return { fetched, blocked: [...blocked] };
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
    const theirs = Object.entries(releases).map(([name, bytes]) => [`${name}.sketch`, Buffer.from(bytes, "hex")]);
    await tab.drop([["agreement.json", agreement], ["sales.csv", csv], ...theirs]);
    await tab.until(`${OWN}?.querySelector("h2") != null`);
    const first = await tab.run(`${OWN}.innerText`);
    for (const words of ["240 rows", "no value", "not of the agreed type", "a key that is not listed", "several spellings", "rows of units", "ε = 3"]) expect(first.includes(words), `the check does not say ${words}: ${first}`);
    expect(await tab.run(RELEASE), "rows that the agreement refuses are released unasked");
    await tab.until(`${OWN}.innerText.includes("Released.")`);
    expect(await tab.run(`${OWN}.querySelector("button.release") === null`), "a second release is offered");
    await tab.run(`[...${OWN}.querySelectorAll("button")].find((one) => one.textContent.startsWith("Save")).click()`);
    await tab.until("window.saved !== null");
    const saved = await tab.run("window.saved");
    expect(saved === "PAR1", `saved: ${saved}`);
    const streams = await tab.run('document.querySelector(".facts").innerText');
    expect(streams.startsWith("6 streams"), streams);
    const violations = await tab.faults();
    expect(violations.length === 0, JSON.stringify(violations));
    expect(await tab.run("document.documentElement.scrollWidth - innerWidth") <= 0, `wider than ${width}`);
    writeFileSync(`${here}out/own-${width}.png`, await tab.picture());
    const { fetched, blocked } = await tab.run(LEAVE);
    expect(fetched === "refused" && blocked.includes("connect-src") && blocked.includes("img-src"), `the page can send: ${fetched}, ${blocked}`);
  }
} finally {
  await browser.close();
}
for (const fault of faults) console.log(fault);
console.log(`A release of one's own rows in Chromium: ${faults.length} faults.`);
process.exitCode = faults.length > 0 ? 1 : 0;
