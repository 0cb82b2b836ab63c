/** Agreements: a projection, which columns of which types enter it, and under which bound. */
import { blake2b } from "./blake2b.ts";
import { compareText, hex, textOf, utf8 } from "./bytes.ts";
import { ANY_NUMBER } from "./checks.ts";
import { need } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { canonicalJson, integerField, isObject, objectOf, parseJson, textField, type Json, type JsonObject } from "./json.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { isPrintable } from "./printable.ts";
import { projectionOf } from "./projection_json.ts";
import type { Item, Part } from "./hashing.ts";
import { ruleOfUnits, spell, textRuleOf, type TextRule } from "./spelling.ts";
import type { Projection, Schedule } from "./types.ts";

const NEEDED = ["agreement", "projection", "key", "index", "value", "unit", "neighbours", "missing", "title"];
const LATER = ["clip", "counting", "features", "release", "keys", "windows", "schedule", "text", "rows_of_unit"];
const TYPE = /^(?:integer|text|bytes|date|timestamp|boolean|decimal\((?:[0-9]|1[0-8])\))$/;
const KEY_TYPES = ["text", "integer", "bytes", "date"];
const CLIPS: Readonly<Record<string, readonly string[]>> = { l1: ["scale", "cut"], l2: ["scale"], "sketch-l2": ["scale", "equal", "average"], "one-coordinate": [] };
const NOISES = ["auto", "laplace", "gaussian", "least-variance"];
const MOST_COLUMNS = 64;
const MOST_WINDOWS = 100_000;
const MOST_IN_PERIOD = 2 ** 20 - 1;
const LENGTH = /^ *(?:[1-9]\d{0,19}(?:\.\d{1,20})?|0\.\d{1,20}) *(?:s|sec|second|min|minute|h|hour|d|day|w|week)s? *$/;
const BY_CALENDAR = /^ *(?:1 *)?(?:d|day|w|week|month)s? *$/;
const SCHEDULES: Readonly<Record<string, readonly string[]>> = { separate: [], tree: ["depth"], factorisation: ["band", "bits", "blocks"] };
const LARGE = 1n << 63n;
const HASHED = 1n << 60n;

export interface AgreedColumn {
  readonly name: string;
  readonly type: string;
}

/** Keys that are listed, all that have data, or those of a private choice. */
export type PublishedKeys =
  | { readonly listed: readonly (string | bigint)[] }
  | { readonly public: true }
  | { readonly selected: { readonly epsilon: string; readonly delta: string } };

/** Windows of time, as JSON has them: this package reads them, and does not compute which rows are in them. */
export interface AgreedWindows {
  readonly time: { readonly name: string; readonly type: "timestamp" | "date"; readonly format: string | null };
  readonly every: string;
  readonly zone: string | null;
  readonly first: string | null;
  readonly last: string | null;
  readonly are: "releases" | "keys";
  readonly period: string | null;
  readonly maxWindows: number | null;
}

/** Which rows of a unit count: their average, those of the latest or the first time, or each. */
export interface RowsOfUnit {
  readonly which: "mean" | "latest" | "first" | "all";
  /** The column of times; null for `mean` and `all`. */
  readonly time: AgreedColumn | null;
}

/** What parties agreed on, read and checked. */
export interface Agreement {
  readonly projection: Projection;
  readonly key: AgreedColumn | null;
  readonly index: readonly AgreedColumn[];
  readonly value: string | null;
  readonly unit: AgreedColumn | null;
  readonly neighbours: { readonly relation: string; readonly bound: Ratio; readonly unit: string; readonly maxKeys: number } | null;
  readonly missing: "refuse" | "drop" | "keep";
  readonly title: string;
  readonly clip: string | null;
  readonly counting: { readonly units: number; readonly slack: number } | null;
  /** As JSON has them: this package reads them, and does not compute them from rows. */
  readonly features: JsonObject | null;
  /** What each release spends, null where the agreement leaves it to them; decimals as they are written. */
  readonly terms: { readonly kind: "noise" | "signs"; readonly mechanism: string; readonly epsilon: string; readonly delta: string } | null;
  /** Which keys are published, null where each release says so. */
  readonly keys: PublishedKeys | null;
  readonly windows: AgreedWindows | null;
  /** Which sums of windows are published, null where each window is. */
  readonly schedule: Schedule | null;
  /** The spelling in which text is compared, null where text stays as it is. */
  readonly text: TextRule | null;
  /** What a unit of several rows contributes to features, null where `clip` alone says so. */
  readonly rowsOfUnit: RowsOfUnit | null;
  /** Hexadecimal; releases carry it. */
  readonly fingerprint: string;
  /** Canonical JSON. */
  readonly json: string;
}

function nameField(value: Json | undefined, what: string): string {
  const text = textField(value, what);
  need(isPrintable(text), `${what} is not 1 to 200 printable characters`);
  return text;
}

function columnOf(value: Json | undefined, what: string): AgreedColumn {
  const fields = objectOf(value, what, ["name", "type"]);
  const type = textField(fields.type, `the type of ${what}`);
  need(TYPE.test(type), `${what} is of an unknown type`);
  return { name: nameField(fields.name, `the name of ${what}`), type };
}

function boundOf(value: Json | undefined): Ratio {
  const text = textField(value, "a bound");
  need(/^\d{1,19}(?:\/\d{1,19})?$/.test(text), "a bound that is no ratio");
  const found = Ratio.parse(text);
  need(found.numerator > 0n && found.numerator < LARGE && found.denominator < LARGE && String(found) === text, "a bound out of range, or not in lowest terms");
  return found;
}

function neighboursOf(value: Json | undefined): Agreement["neighbours"] {
  if (value === null) return null;
  const fields = objectOf(value, "neighbours", ["relation", "bound", "unit", "max_keys"]);
  const relation = textField(fields.relation, "relation");
  need(Object.keys(CLIPS).includes(relation), "an unknown neighbour relation");
  const maxKeys = integerField(fields.max_keys, "max_keys");
  need(maxKeys >= 1 && maxKeys <= ANY_NUMBER, "max_keys out of range");
  return { relation, bound: boundOf(fields.bound), unit: nameField(fields.unit, "unit"), maxKeys };
}

function countingOf(value: Json | undefined, neighbours: Agreement["neighbours"], unit: AgreedColumn | null): Agreement["counting"] {
  if (value === undefined) return null;
  const fields = objectOf(value, "counting", ["units", "slack"]);
  const [units, slack] = [integerField(fields.units, "units"), integerField(fields.slack, "slack")];
  need(units >= 1 && units < 2 ** 31 && slack >= 0 && slack < 2 ** 31, "weights of counts out of range");
  need(neighbours !== null && unit !== null, "units are counted where they are known, and bounded");
  const inCells = neighbours.relation === "sketch-l2" && neighbours.maxKeys < ANY_NUMBER;
  need(neighbours.relation === "l1" || inCells, "counts under neighbours that do not bound them");
  need(!(inCells && slack > 0), "slack without a bound on totals");
  return { units, slack };
}

function decimalField(value: Json | undefined, what: string): string {
  const text = textField(value, what);
  need(/^(?:0|[1-9]\d*)(?:\.\d*[1-9])?$/.test(text), `${what} is no decimal in its shortest form`);
  need(text.replace(".", "").replace(/^0+/, "").replace(/0+$/, "").length <= 15, `${what} has more than 15 significant digits`);
  return text;
}

function budgetOf(fields: JsonObject): { epsilon: string; delta: string } {
  const epsilon = decimalField(fields.epsilon, "epsilon");
  need(Number(epsilon) >= 1e-6 && Number(epsilon) <= 1e6, "epsilon out of range");
  if (fields.delta === undefined) return { epsilon, delta: "0" };
  const delta = decimalField(fields.delta, "delta");
  need(Number(delta) > 0 && Number(delta) < 1, "delta out of range, or 0 and so left out");
  return { epsilon, delta };
}

function termsOf(value: Json | undefined): Agreement["terms"] {
  if (value === undefined) return null;
  const kind = isObject(value) && "signs" in value ? "signs" : "noise";
  const fields = objectOf(value, "release", [kind, "epsilon"], ["delta"]);
  const mechanism = nameField(fields[kind], "the mechanism");
  need(kind === "signs" || NOISES.includes(mechanism), "an unknown noise");
  return { kind, mechanism, ...budgetOf(fields) };
}

function keysOf(value: Json | undefined, type: string): PublishedKeys | null {
  if (value === undefined) return null;
  need(isObject(value) && Object.keys(value).length === 1, "keys are one of listed, public and selected");
  if (value.public === true) return { public: true };
  if (value.selected !== undefined) {
    const share = objectOf(value.selected, "selected", ["epsilon", "delta"]);
    return { selected: budgetOf(share) };
  }
  const { listed } = value;
  need(Array.isArray(listed) && listed.length > 0, "keys are one of listed, public and selected");
  const ofType = (one: Json): boolean => (type === "integer" ? typeof one === "bigint" : typeof one === "string");
  need(listed.every(ofType), "listed keys of another type than the key column");
  const ascends = (one: Json, next: Json): boolean => (typeof one === "bigint" ? one < (next as bigint) : compareText(one as string, next as string) < 0);
  need(listed.every((one, place) => place === 0 || ascends(listed[place - 1], one)), "listed keys that are not ascending, each once");
  return { listed: listed as (string | bigint)[] };
}

function windowsOf(value: Json | undefined): AgreedWindows | null {
  if (value === undefined) return null;
  const fields = objectOf(value, "windows", ["time", "every", "are"], ["zone", "first", "last", "period", "max_windows"]);
  const column = objectOf(fields.time, "the time of windows", ["name", "type"], ["format"]);
  const optional = (name: string): string | null => (fields[name] === undefined ? null : nameField(fields[name], name));
  const type = textField(column.type, "the type of times");
  need(type === "timestamp" || type === "date", "times that are neither instants nor dates");
  const format = column.format === undefined ? null : nameField(column.format, "the format of times");
  const every = nameField(fields.every, "the length of windows");
  const [zone, first, last, period] = ["zone", "first", "last", "period"].map(optional);
  need(LENGTH.test(every) || BY_CALENDAR.test(every), "a length of windows that is none");
  need(zone === null || BY_CALENDAR.test(every), "a time zone for windows that are not of the calendar");
  need(last === null || first !== null, "a last window without a first");
  const are = textField(fields.are, "what windows are");
  need(are === "releases" || are === "keys", "windows that are neither releases nor keys");
  need(period === null || (are === "releases" && LENGTH.test(period) && LENGTH.test(every) && zone === null), "a period of other windows than releases of one length");
  const maxWindows = fields.max_windows === undefined ? null : integerField(fields.max_windows, "max_windows");
  need(maxWindows === null || (period !== null && maxWindows >= 1 && maxWindows <= MOST_IN_PERIOD), "max_windows out of range, or without a period");
  return { time: { name: nameField(column.name, "the column of times"), type, format }, every, zone, first, last, are, period, maxWindows };
}

function rowsOfUnitOf(value: Json | undefined): RowsOfUnit | null {
  if (value === undefined) return null;
  const fields = objectOf(value, "the rows of a unit", ["which"], ["time"]);
  const which = textField(fields.which, "which rows of a unit");
  need(which === "mean" || which === "latest" || which === "first" || which === "all", "an unknown choice of a unit's rows");
  need((which === "latest" || which === "first") === (fields.time !== undefined), "a time that the choice of a unit's rows does not need, or lacks");
  const time = fields.time === undefined ? null : columnOf(fields.time, "the time of rows");
  need(time === null || ["timestamp", "date", "integer"].includes(time.type), "times of rows of a type that has no order in time");
  return { which, time };
}

/** Return windows in words: "day (Europe/Berlin) by at:timestamp, from 2026-11-22, each a key". */
export function windowsText(windows: AgreedWindows): string {
  const { time, every, zone, first, last, are, period, maxWindows } = windows;
  const parts = [
    every, zone === null ? "" : ` (${zone})`, ` by ${time.name}:${time.type}`,
    first === null ? "" : `, from ${first}`, last === null ? "" : ` to ${last}`,
    period === null ? "" : `, a unit in ${maxWindows ?? 1} of each ${period}`,
    are === "keys" ? ", each a key" : ", each a release",
  ];
  return parts.join("");
}

function scheduleField(value: Json | undefined): Schedule | null {
  if (value === undefined) return null;
  const kind = isObject(value) ? textField(value.kind, "the kind of a schedule") : "";
  need(Object.keys(SCHEDULES).includes(kind), "an unknown schedule");
  const fields = objectOf(value, "a schedule", ["kind", "horizon", "max_windows", "gap", ...SCHEDULES[kind]]);
  const within = (name: string, least: number, most: number): number => {
    const number = integerField(fields[name], name);
    need(number >= least && number <= most, `${name} of a schedule out of range`);
    return number;
  };
  const [horizon, gap] = [within("horizon", 1, MOST_WINDOWS), within("gap", 1, MOST_WINDOWS)];
  const schedule: Schedule = { kind, horizon, maxWindows: within("max_windows", 1, Math.ceil(horizon / gap)), gap };
  if (kind === "tree") schedule.depth = within("depth", 1, 64);
  if (kind !== "factorisation") return schedule;
  if (fields.band !== null) schedule.band = within("band", 1, horizon);
  return { ...schedule, blocks: within("blocks", 2, MOST_WINDOWS), bits: within("bits", 1, 12) };
}

/**
 * Return the agreement in JSON text.
 *
 * @throws WireFormatError if it is none: not JSON, a field that is missing, repeated or unknown, a value out of range
 */
export function readAgreement(data: string | Uint8Array, changes: Partial<Limits> = {}): Agreement {
  const text = typeof data === "string" ? data : textOf(data);
  const fields = objectOf(parseJson(text, limitsWith(changes).maxJsonBytes), "an agreement", NEEDED, LATER);
  need(fields.agreement === 1n, "an agreement of another version; this reader knows 1");
  for (const name of LATER) need(fields[name] !== null, `${name} is null, and so left out`);
  const projection = projectionOf(fields.projection);
  const key = fields.key === null ? null : columnOf(fields.key, "the key column");
  need(key === null || KEY_TYPES.includes(key.type), "keys of a type that keys do not have");
  const unit = fields.unit === null ? null : columnOf(fields.unit, "the unit column");
  need(Array.isArray(fields.index) && fields.index.length <= MOST_COLUMNS, `the index is a list of at most ${MOST_COLUMNS} columns`);
  const index = fields.index.map((one) => columnOf(one, "an index column"));
  need(new Set(index.map((one) => one.name)).size === index.length, "an index column that is there twice");
  const value = fields.value === null ? null : nameField(fields.value, "the name of the value column");
  const neighbours = neighboursOf(fields.neighbours);
  const missing = textField(fields.missing, "missing");
  need(missing === "refuse" || missing === "drop" || missing === "keep", "an unknown way to take missing values");
  const title = textField(fields.title, "title");
  need(title === "" || isPrintable(title), "a title that is not printable");
  const clip = fields.clip === undefined ? null : textField(fields.clip, "clip");
  need(clip === null || (neighbours !== null && CLIPS[neighbours.relation].includes(clip)), "a way to clip that the neighbours do not allow");
  const averages = clip === "average" && neighbours !== null && neighbours.maxKeys !== ANY_NUMBER && fields.features !== undefined;
  need(clip !== "average" || averages, "averages of other rows than features, or in any number of keys");
  const windows = windowsOf(fields.windows);
  const features = fields.features ?? null;
  need(features === null || isObject(features), "features are no object");
  if (features === null) {
    need(index.length > 0, "an index of no column");
    const isWhole = index.length === 1 && /^(?:integer|boolean|decimal)/.test(index[0].type);
    need(projection.dim === HASHED || isWhole, "a projection that takes one index column of integers");
  } else {
    need(index.length === 0 && value === null && projection.kind === "identity", "features beside an index, or under another projection than the identity");
    need(isObject(features.columns) || Array.isArray(features.columns), "features without columns");
  }
  const terms = termsOf(fields.release);
  const keys = keysOf(fields.keys, key?.type ?? "");
  need(keys === null || key !== null, "keys without a column of keys");
  need(terms === null || neighbours !== null, "a release without neighbours");
  need(terms === null || key === null || keys !== null, "a release that does not say which keys are published");
  need(keys === null || !("selected" in keys) || terms !== null, "a choice of keys without a budget");
  const areListed = windows?.are !== "keys" || windows.last !== null || (keys !== null && !("listed" in keys));
  need(terms === null || areListed, "windows that are keys, and nobody says which are published");
  const schedule = scheduleField(fields.schedule);
  const isScheduled = windows?.are === "releases" && windows.first !== null && windows.period === null && terms?.kind === "noise";
  need(schedule === null || isScheduled, "a schedule without a budget of noise, or of windows that are not releases from a first one on");
  need(schedule === null || keys === null || "listed" in keys, "a schedule of keys that are not listed");
  const rule = textRuleOf(fields.text);
  need(rule === null || features !== null || [key, unit, ...index].some((one) => one?.type === "text"), "a rule for text without a column of text");
  const rowsOfUnit = rowsOfUnitOf(fields.rows_of_unit);
  need(rowsOfUnit === null || (features !== null && unit !== null), "rows of a unit without features, or without a column of units");
  need(rowsOfUnit === null || (rowsOfUnit.which !== "all") === (clip === "average"), "rows of a unit that count as one, and are not averaged, or the reverse");
  const json = canonicalJson(fields);
  return {
    projection, key, index, value, unit, neighbours, missing, title, clip, features, terms, keys, windows, schedule, json,
    text: rule,
    rowsOfUnit,
    counting: countingOf(fields.counting, neighbours, unit),
    fingerprint: hex(blake2b(utf8(json), 16)),
  };
}

/**
 * Return items as an agreement spells them: what `hashItems` and the estimates of items take.
 *
 * @param items of an index of one column, a part each; of several, a tuple each
 */
export function spellItems(agreement: Agreement, items: Iterable<Item>): Item[] {
  const { index, unit, text } = agreement;
  const rules = index.map((column) => (column.type !== "text" ? null : column.name === unit?.name ? ruleOfUnits(text) : text));
  const spelt = (part: Part, place: number): Part => (typeof part === "string" ? spell(part, rules[place] ?? null) : part);
  return Array.from(items, (item) => (Array.isArray(item) ? (item as readonly Part[]).map(spelt) : spelt(item as Part, 0)));
}
