// Runs axe over every page of the documentation that `make docs` built, in a headless Chromium: `npm run site -- FOLDER`.
// Says so where there is no site or no Chromium. A named folder must be there.
import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { axe, findBrowser, start } from "./chromium.mjs";

const here = fileURLToPath(new URL("..", import.meta.url));
const folder = resolve(process.argv[2] ?? `${here}../out/site`);
const path = findBrowser();
const reason = path === undefined ? "there is no Chromium. Say CHROMIUM=PATH if it is elsewhere." : !existsSync(`${folder}/index.html`) ? `${folder} has no pages. \`make docs\` builds them.` : null;
if (reason !== null) {
  console.log(`The documentation is not looked at: ${reason}`);
  process.exit(path !== undefined && process.argv.length > 2 ? 1 : 0);
}
const WIDE = [1280, 900];
const NARROW = [390, 844];

// Contrast is the slowest rule by far. It is a matter of colours and sizes, most of which all pages share: one text of
// each look is tested.
const tests = () => {
  const faults = async (what, options) => {
    const { violations } = await globalThis.axe.run(what, { resultTypes: ["violations"], preload: false, ...options });
    return violations.flatMap((one) => one.nodes.map((node) => [one.id, node.html.slice(0, 160)]));
  };
  const joined = new Map();
  const behind = (element) => {
    if (!joined.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = [opacity, backgroundImage, backgroundColor].filter((one) => !["1", "none", "rgba(0, 0, 0, 0)"].includes(one)).join(" ");
      joined.set(element, own + (/^rgb\(/.test(backgroundColor) ? "" : ` ${behind(element.parentElement)}`));
    }
    return joined.get(element);
  };
  const lookOf = (element) => {
    const { color, fontSize, fontWeight } = getComputedStyle(element);
    return `${color} ${fontSize} ${fontWeight} ${behind(element).trim()}`;
  };
  const hasText = (element) => element.checkVisibility() && [...element.childNodes].some((one) => one.nodeType === Node.TEXT_NODE && one.data.trim() !== "");
  globalThis.tests = {
    rules: () => faults(document, { rules: { "color-contrast": { enabled: false } } }),
    async contrast(theme, seen) {
      document.body.dataset.theme = theme;
      joined.clear();
      joined.set(null, "");
      const found = new Map();
      for (const element of document.body.querySelectorAll("*")) {
        if (!hasText(element)) continue;
        const look = lookOf(element);
        if (!seen.includes(look) && !found.has(look)) found.set(look, element);
      }
      const include = [...found.values()];
      return { looks: [...found.keys()], faults: include.length === 0 ? [] : await faults({ include }, { runOnly: ["color-contrast"] }) };
    },
    // no rule is about what is inside a formula, which is half of some pages
    flatten() {
      for (const formula of document.querySelectorAll("math")) {
        const text = document.createElementNS(formula.namespaceURI, "mtext");
        text.textContent = formula.textContent;
        formula.replaceChildren(text);
      }
    },
    async narrow() {
      const { scrollWidth } = document.documentElement;
      return [...(scrollWidth > innerWidth ? [["wider-than-its-window", `${scrollWidth} pixels`]] : []), ...(await faults(document, { runOnly: ["scrollable-region-focusable"] }))];
    },
  };
};

const seen = new Set();
async function faultsOf(tab, page) {
  await tab.size(...NARROW);
  await tab.show(pathToFileURL(page).href);
  await tab.run(`${axe}; (${tests})()`);
  const faults = await tab.run("tests.narrow()");
  await tab.run("tests.flatten()");
  await tab.size(...WIDE);
  await tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"); // by then the page knows its size
  faults.push(...(await tab.run("tests.rules()")));
  for (const theme of ["light", "dark"]) {
    const { looks, faults: found } = await tab.run(`tests.contrast("${theme}", ${JSON.stringify([...seen])})`);
    for (const look of looks) seen.add(look);
    faults.push(...found.map(([id, html]) => [`${id} (${theme})`, html]));
  }
  return faults;
}

// A page with a fault of each kind, which must be found.
const PLANTED = `<!doctype html><html lang="en"><title>Faults</title><body data-theme="light"><style>[data-theme="light"] p { color: #999 }</style>
<main><h1>Faults</h1><p>Pale</p><img src="data:,"><form><input></form><pre style="overflow: auto">${"wide ".repeat(99)}</pre><div style="width: 500px">Wide</div></main></body></html>`;
const EXPECTED = ["color-contrast (light)", "image-alt", "label", "scrollable-region-focusable", "wider-than-its-window"];

// the viewer has its own test
const pages = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".html") && !name.startsWith("_") && name !== "viewer.html").sort();
const since = performance.now();
const chromium = start(path);
let failed = 0;
try {
  mkdirSync(`${here}out`, { recursive: true });
  writeFileSync(`${here}out/planted.html`, PLANTED);
  const planted = await faultsOf(await chromium.tab(), `${here}out/planted.html`);
  const missed = EXPECTED.filter((id) => !planted.some(([found]) => found === id));
  if (missed.length > 0) throw new Error(`not found on a page that has them: ${missed.join(", ")}`);
  const left = [...pages];
  const work = async () => {
    const tab = await chromium.tab();
    for (let page = left.shift(); page !== undefined; page = left.shift()) {
      const faults = await faultsOf(tab, `${folder}/${page}`);
      for (const [id, html] of faults) console.log(`${page}: ${id}: ${html}`);
      failed += faults.length > 0 ? 1 : 0;
    }
  };
  await Promise.all([work(), work()]);
} finally {
  await chromium.close();
}
console.log(`The documentation in Chromium: ${pages.length} pages, ${failed} with faults, in ${Math.round((performance.now() - since) / 1000)} s.`);
process.exitCode = failed > 0 || pages.length === 0 ? 1 : 0;
