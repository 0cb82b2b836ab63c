/** A page that shows releases dropped on it. Nothing leaves the computer: the page forbids all requests. */
import { type Agreement, checkNoise, guaranteeInWords, kindOf, readAgreement, readRelease, readTable, Release, warnings } from "../index.ts";
import { mount } from "./app.ts";
import { canBeJoint, type Changed, changesIn, compute, listed, MOST_TESTS, withChanges } from "./compute.ts";
import { colourAt, rgb, valueAt } from "./colour.ts";
import { element } from "./dom.ts";
import { drawMap } from "./drawing.ts";
import { cells, formatValue } from "./format.ts";
import type { JointModel } from "../joint.ts";
import { say } from "../say.ts";
import * as sentences from "../sentences.ts";
import { dialectOf, type OwnFile, ownRows, releasesOf } from "./own_rows.ts";
import { shareOf } from "./scaling.ts";
import type { View } from "./view.ts";
import { differ, itemsOf, rowsOf } from "./words.ts";

declare const VERSION: string;

const MOST = 1000;
const LONGEST = 60;
const PARQUET = "PAR1";
const NO_WEIGHT = 0.005;

/** Releases by name, what could not be read, and what items streams may have. */
export interface Dropped {
  readonly releases: Map<string, Release>;
  readonly refused: string[];
  /** The last one dropped: its name and its text. */
  dictionary: readonly [string, string] | null;
  agreement: Agreement | null;
  /** Rows with the columns of the agreement, which are private. */
  own: OwnFile | null;
}

/** Return untrusted text on one line, without characters that cannot be seen. */
export function shown(text: string, longest = LONGEST): string {
  const safe = text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0)!.toString(16)}}`);
  return (safe.length <= longest ? safe : `${safe.slice(0, longest - 1)}…`) || "(no name)";
}

/** Read files: releases, and tables of them. */
export function readFiles(files: readonly { readonly name: string; readonly bytes: Uint8Array }[], before: OwnFile | null = null): Dropped {
  const releases = new Map<string, Release>();
  const refused: string[] = [];
  const found: Dropped = { releases, refused, dictionary: null, agreement: null, own: null };
  const lists = new Map<string, Uint8Array>();
  const add = (name: string, release: Release): void => {
    let unique = shown(name);
    for (let copy = 2; releases.has(unique); copy++) unique = `${shown(name, LONGEST - 5)} (${copy})`;
    releases.set(unique, release);
  };
  for (const { name, bytes } of files) {
    const stem = name.replace(/\.[^.]*$/, "");
    try {
      if (/\.(?:txt|csv|tsv)$/i.test(name)) lists.set(name, bytes);
      else if (/\.json$/i.test(name)) found.agreement = readAgreement(bytes);
      else if (String.fromCharCode(...bytes.subarray(0, 4)) === PARQUET) {
        const table = readTable(bytes);
        table.releases.forEach((release, place) => {
          if (!(release instanceof Release)) throw new Error("a table of signs; this page shows sketches");
          add(table.labels[place], release);
        });
      } else if (kindOf(bytes) === "PrivateSketch") add(stem, readRelease(bytes));
      else refused.push(`${shown(name)}: not a release. The page reads .sketch files and .parquet tables of them, lists of items (.txt, .csv), agreements (.json), and rows with the columns of an agreement (.csv).`);
    } catch (error) {
      refused.push(`${shown(name)}: ${shown(error instanceof Error ? error.message : "cannot be read", 300)}`);
    }
  }
  const { agreement } = found;
  const own: OwnFile[] = [];
  for (const [name, bytes] of lists) {
    const dialect = agreement === null || agreement.terms === null ? null : dialectOf(bytes, agreement);
    if (before?.bytes === bytes && (dialect !== null || before.made !== null)) own.unshift(before);
    else if (dialect !== null) own.push({ name, bytes, dialect, made: null });
    else {
      try {
        found.dictionary = [name, new TextDecoder("utf-8", { fatal: true }).decode(bytes)];
      } catch {
        refused.push(`${shown(name)}: a list of items is UTF-8, and rows have the columns of the agreement in their first line.`);
      }
    }
  }
  found.own = own[0] ?? null;
  for (const { name } of own.slice(1)) refused.push(`${shown(name)}: the page makes a release of one file of rows at a time. Save what it made, and start again.`);
  if (found.own !== null) for (const [name, release] of releasesOf(found.own)) add(name, release);
  return found;
}

function guaranteeOf(releases: readonly Release[]): string {
  const most = releases.reduce((found, { guarantee }) => Math.max(found, guarantee.epsilon), 0);
  const delta = releases.reduce((found, { guarantee }) => Math.max(found, guarantee.delta), 0);
  const units = new Set(releases.map(({ guarantee }) => shown(guarantee.neighbours.unit)));
  const alike = releases.every(({ guarantee }) => guarantee.epsilon === most && guarantee.delta === delta);
  const whose = units.size === 1 ? say(sentences.FOR_UNITS, { unit: [...units][0] }) : sentences.FOR_DIFFERENT_UNITS;
  return `${say(sentences.BUDGET, { epsilon: most, delta })}${alike ? "" : " at most,"} ${whose}`;
}

/** Return what ε of the release that guarantees least means, in one plain sentence, and what several add up to. */
function meaning(releases: readonly Release[]): string[] {
  if (releases.some((one) => checkNoise(one).verdict === "too little")) return [];
  const epsilon = releases.reduce((found, { guarantee }) => Math.max(found, guarantee.epsilon), 0);
  const delta = releases.reduce((found, { guarantee }) => Math.max(found, guarantee.delta), 0);
  const units = new Set(releases.map(({ guarantee }) => plainUnit(guarantee.neighbours.unit)));
  const unit = units.size === 1 ? [...units][0] : "unit";
  const factor = epsilon < 10 ? (Math.ceil(10 * Math.exp(epsilon)) / 10).toLocaleString("en", { minimumFractionDigits: 1 }) : sentences.LARGE_FACTOR;
  return [say(sentences.FACTOR, { unit, factor, unless: delta > 0 ? say(sentences.UNLESS, { delta }) : "", epsilon })];
}

function plainUnit(unit: string): string {
  return shown(unit.replace(/_id$/, "").replaceAll("_", " "));
}

/** Return which bounds were not enforced when data were read, in sentences: the guarantee rests on them. */
function asserted(releases: readonly Release[]): string[] {
  const counts = new Map<string, number>();
  for (const { guarantee: { basis, neighbours } } of releases) {
    if (basis === "enforced") continue;
    const whether = basis === "asserted" ? "" : sentences.NOT_SAID;
    const text = say(sentences.ASSERTED_BOUND, { unit: plainUnit(neighbours.unit), bound: shown(String(neighbours.bound)), whether });
    counts.set(text, (counts.get(text) ?? 0) + 1);
  }
  return [...counts].map(([text, count]) => (count === releases.length ? text : say(sentences.IN_SOME, { count, releases: releases.length, text })));
}

/** Return the section on the guarantee: each text once, with the releases it is about. */
function guarantees(releases: ReadonlyMap<string, Release>): HTMLElement {
  const groups = new Map<string, string[]>();
  const one = new Map<string, Release>();
  for (const [name, release] of releases) {
    const text = JSON.stringify([guaranteeInWords(release), warnings(release)]);
    groups.set(text, [...(groups.get(text) ?? []), name]);
    one.set(text, release);
  }
  const found = element("section", {}, element("h2", { id: "guarantee" }, sentences.GUARANTEED));
  for (const [text, names] of groups) {
    const release = one.get(text)!;
    const list = element("dl");
    for (const { heading, sentences } of guaranteeInWords(release)) list.append(element("dt", {}, heading), element("dd", {}, shown(sentences.join(" "), 20_000)));
    found.append(element("p", {}, element("strong", {}, groups.size === 1 ? sentences.EVERY_RELEASE : listed(names)), ":"), list);
    for (const warning of warnings(release)) found.append(element("p", { class: "warning" }, shown(warning, 2_000)));
  }
  const { unit } = [...releases.values()][0].guarantee.neighbours;
  found.append(element("p", {}, `What one ${shown(unit)} adds to several of these releases, such as those of several windows, is protected less: their ε add up.`));
  return found;
}

/** Return the section on changes: each window against the one before. */
function changesOf({ keys, typical, untested }: Changed, among: number): Node[] {
  const rows = keys.flatMap(([key, found]) => found.map(({ window, distance, pValue, alarm }) => {
    const { low, high } = distance.intervalAmong(among);
    const texts = [...cells({ value: distance.value, error: distance.standardError, low, high }), pValue.toPrecision(2)];
    return element("tr", {}, element("th", { scope: "row", class: "name" }, `${key} ${window}`.trim()), ...texts.map((text) => element("td", {}, text)), element("td", {}, alarm ? element("strong", {}, "alarm") : ""));
  }));
  const alarms = rows.filter((row) => row.querySelector("strong") !== null).length;
  const heads = ["window", "squared distance", "± s.e.", "95\u00a0% interval, all at once", "p", ""].map((text, at) => element("th", at === 0 ? { scope: "col", class: "name" } : { scope: "col" }, text));
  heads[5] = element("td");
  const table = element("table", { class: "plain" }, element("caption", {}, sentences.EACH_CHANGE), element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...rows));
  const rule = say(sentences.ALARMS, { typical: typical ? sentences.BEYOND_TYPICAL : "", level: 5 });
  return [
    element("h2", {}, "Changes"),
    element("p", {}, `${rule} ${alarms === 0 ? sentences.NO_ALARM : ""}${untested > 0 ? ` ${untested} windows are not tested: the page tests ${MOST_TESTS}, of noises whose law is known.` : ""}`),
    element("details", {}, element("summary", {}, `The numbers of ${rows.length} changes`), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Changes" }, table)),
  ];
}

/** Return a legend of the colours, with the number of hatched cells. */
function legend(found: ReturnType<typeof compute>): HTMLElement {
  const { scale, factor } = found.data;
  const list = element("ul", { class: "key", "aria-label": "Colours" });
  for (let step = 0; step < 5; step++) {
    const mark = element("i");
    mark.style.background = rgb(colourAt(step / 4));
    list.append(element("li", {}, mark, formatValue(valueAt(scale, step / 4) / factor, Math.abs(scale.farthest - scale.nearest) / factor / 20)));
  }
  let unclear = 0;
  for (let i = 0; i < found.pairs.n; i++) for (let j = 0; j < i; j++) unclear += found.pairs.unclear(i, j) ? 1 : 0;
  const mark = element("i", { class: "hatch" });
  list.append(element("li", {}, mark, say(sentences.UNCLEAR_PAIRS, { unclear, pairs: found.pairs.value.length })));
  return list;
}

/** Fill a place of the page with what releases say, with each pair's own estimates or with joint ones. */
export function show(place: HTMLElement, dropped: Dropped, again: () => void, together = false): void {
  const { releases, refused } = dropped;
  const parts: (Node | string)[] = refused.map((one) => element("p", { class: "warning" }, one));
  if (dropped.own !== null && dropped.agreement !== null) parts.push(ownRows(dropped.own, dropped.agreement, shown, again));
  if (releases.size < 2 || releases.size > MOST) {
    if (releases.size > 0) parts.push(element("p", {}, `The page compares 2 to ${MOST} streams, and these files have ${releases.size}.`));
    place.replaceChildren(...parts);
    return;
  }
  const everything = [...releases.values()];
  const title = releases.size === 2 ? [...releases.keys()].join(" and ") : `${releases.size} streams`;
  const made = `streamsketch ${VERSION}, ${new Intl.DateTimeFormat("en-GB", { dateStyle: "long" }).format(new Date())}`;
  let found: ReturnType<typeof compute>;
  try {
    found = compute(releases, title, made, guaranteeOf(everything), together);
  } catch (error) {
    place.replaceChildren(...parts, element("p", { class: "warning" }, shown(error instanceof Error ? error.message : "These releases cannot be compared.", 500)));
    return;
  }
  const { data, pairs } = found;
  const { short, detail, listed: parties } = found.answer;
  const [head, rest] = [element("p", { class: "answer" }, short), element("p", {}, detail)];
  parts.push(head, rest);
  if (parties.length > 0) parts.push(element("ul", { class: "groups" }, ...parties.slice(0, 12).map(([head, text]) => element("li", {}, element("strong", {}, head), `: ${text}`))));
  parts.push(element("p", { class: "soft facts" }, element("span", {}, `${releases.size} streams`), element("span", {}, `${data.guarantee}, `, element("a", { href: "#guarantee" }, sentences.STATED_BELOW)), element("span", {}, `made by ${made}`)));
  for (const text of asserted(everything)) parts.push(element("p", { class: "asserted" }, element("strong", {}, sentences.ASSERTED), ` ${text}`));
  if (found.below.length > 0 && data.ranked) {
    parts.push(element("p", { class: "below-noise-floor" }, element("strong", {}, sentences.NOT_DRAWN), ` ${say(sentences.BELOW_FLOOR, { numbers: sentences.SQUARED_NORMS, count: found.below.length, where: sentences.LIKE_EMPTY })} ${say(sentences.EMPTY_OR_SMALL, { names: listed(found.below) })}`));
  }
  const changed = element("section", {});
  if (found.series !== null) parts.push(changed);
  const live = element("div", { id: "live" });
  parts.push(element("h2", {}, `All ${found.joint === null ? "" : "joint "}${data.by === "cosine" ? "cosines" : "distances"}`));
  if (canBeJoint(found.releases)) parts.push(jointBox(together, (chosen) => show(place, dropped, again, chosen)));
  if (found.joint !== null) parts.push(element("p", { class: "joint" }, jointText(found.joint, data.by === "cosine" ? "cosines" : "distances")));
  parts.push(live, legend(found), ...meaning(everything).map((text) => element("p", { class: "meaning" }, text)), element("p", { class: "rule" }, say(sentences.ONE_INTERVAL, { which: found.below.length > 0 ? sentences.DRAWN_OR_NOT : "" })));
  const map = data.ranked && data.names.length > 2 ? drawMap(data.names, found.squares) : null;
  const share = map === null ? 0 : shareOf(found.squares.value, data.names.length);
  if (map !== null) parts.push(element("h2", {}, "Map"), element("figure", {}, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Map" }, map), element("figcaption", {}, `Nearby points are similar streams. ${say(sentences.MAP_SHARE, { share: Math.floor(100 * share + 1e-9), partly: share < 0.8 ? sentences.MAP_PARTLY : "" })} ${sentences.MAP_ELLIPSES}`)));
  const table = element("div", { id: "live-pairs" });
  parts.push(element("h2", {}, sentences.PAIRS_AND_SIZES), table, sizes(data.names, data.sizes.map(([, text]) => text)), guarantees(releases));
  place.replaceChildren(...parts);
  const view = mount({ live, table, map }, data, pairs);
  live.before(dictionaryBox(view, found.releases, dropped));
  if (found.series !== null) {
    void testChanges(found.series, changed, found.among).then((said) => {
      const answer = withChanges(found.answer, said);
      [head.textContent, rest.textContent] = [answer.short, answer.detail];
    });
  }
}

/** Return how joint estimates were made, as Python's page says it. */
export function jointText({ target, strength, folds, weight }: JointModel, titles: string): string {
  const gain = weight < NO_WEIGHT ? sentences.NO_GAIN : say(sentences.WEIGHT, { weight: weight.toFixed(2) });
  return say(sentences.JOINT, { titles, towards: sentences.TOWARDS, model: say(sentences.JOINT_MODEL, { target, strength, folds, gain }) });
}

/** Return the control by which joint estimates are chosen. */
function jointBox(together: boolean, choose: (together: boolean) => void): HTMLElement {
  const box = element("input", { type: "checkbox", id: "joint" });
  box.checked = together;
  box.addEventListener("change", () => choose(box.checked));
  return element("p", {}, box, element("label", { for: "joint" }, ` joint estimates: draw each pair ${sentences.TOWARDS}`));
}

/** Fill a section with tests of windows, one at a time, as some take a second; the page stays usable between them. */
async function testChanges(series: Parameters<typeof changesIn>[0], place: HTMLElement, among: number): Promise<Changed> {
  const every = [...series.values()].reduce((sum, windows) => sum + windows.size - 1, 0);
  const said = element("p", { role: "status" });
  place.replaceChildren(element("h2", {}, "Changes"), said);
  const steps = changesIn(series);
  let step = steps.next();
  for (; !step.done; step = steps.next()) {
    said.textContent = `Testing which windows have changed: ${step.value} of ${every} …`;
    await new Promise((done) => setTimeout(done));
  }
  place.replaceChildren(...changesOf(step.value, among));
  return step.value;
}

/** Return the control by which a dictionary is pasted, and what is said of the one that is there. */
function dictionaryBox(view: View, releases: readonly Release[], { dictionary, agreement }: Dropped): HTMLElement {
  const said = element("p", { role: "status", class: "soft" });
  const take = ([name, text]: readonly [string, string]): void => {
    try {
      const items = itemsOf(rowsOf(name, text, agreement?.index.map((one) => one.name) ?? []), releases, agreement);
      said.className = "soft";
      said.textContent = `${items.size.toLocaleString("en")} items: select a pair to see which of them differ.`;
      view.change({ differing: differ(releases, items, shown) });
    } catch (error) {
      said.className = "warning";
      said.textContent = `No dictionary: ${shown(error instanceof Error ? error.message : "it cannot be read", 400)}`;
      view.change({ differing: null });
    }
  };
  const words = element("textarea", { id: "words", rows: "5", spellcheck: "false", autocomplete: "off" });
  const go = element("button", { type: "button" }, "Show what differs");
  go.addEventListener("click", () => take(["pasted.txt", words.value]));
  const box = element("details", {}, element("summary", {}, `${sentences.WHAT_DIFFERS}: give items that streams may have`),
    element("p", { class: "soft" }, "Drop a text file with one item a line or a CSV file, whose first column holds the items; or paste them. They are read as text, or as integers where the projection takes only these. Releases that follow an agreement need its JSON file, too."),
    element("p", {}, element("label", { for: "words" }, "Items, one a line"), words, go));
  if (dictionary !== null) take(dictionary);
  return element("div", { class: "dictionary" }, box, said);
}

function sizes(names: readonly string[], texts: readonly string[]): HTMLElement {
  const rows = names.map((name, place) => element("tr", {}, element("th", { scope: "row", class: "name" }, name), element("td", {}, texts[place])));
  const table = element("table", { class: "plain" }, element("caption", {}, sentences.SIZES), element("thead", {}, element("tr", {}, element("th", { scope: "col", class: "name" }, "stream"), element("th", { scope: "col" }, "squared norm"))), element("tbody", {}, ...rows));
  return element("details", {}, element("summary", {}, "Sizes"), element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Sizes" }, table));
}

function start(): void {
  const [area, input, place] = [document.getElementById("drop"), document.getElementById("files") as HTMLInputElement | null, document.getElementById("shown")];
  if (area === null || input === null || place === null) return;
  document.documentElement.classList.add("alive");
  const all = new Map<string, Uint8Array>();
  let own: OwnFile | null = null;
  const take = async (files: Iterable<File>): Promise<void> => {
    for (const file of files) all.set(file.name, new Uint8Array(await file.arrayBuffer()));
    place.replaceChildren(element("p", { role: "status" }, "Reading …"));
    await new Promise((done) => setTimeout(done)); // let the page say so
    draw();
  };
  const draw = (): void => {
    const dropped = readFiles([...all].map(([name, bytes]) => ({ name, bytes })), own);
    own = dropped.own;
    show(place, dropped, draw);
  };
  input.addEventListener("change", () => void take(input.files ?? []));
  for (const kind of ["dragenter", "dragover"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      area.classList.add("over");
    });
  }
  document.addEventListener("dragleave", () => area.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    area.classList.remove("over");
    void take(event.dataTransfer?.files ?? []);
  });
  document.getElementById("again")?.addEventListener("click", () => {
    all.clear();
    own = null;
    input.value = "";
    place.replaceChildren();
  });
}

if (typeof document !== "undefined") start();
