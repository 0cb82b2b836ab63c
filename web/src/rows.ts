/** Rows of a file under an agreement: what is dropped and why, and the release that they make. */
import { readAgreement, type Agreement } from "./agreement.ts";
import { ExactTable } from "./bounding.ts";
import { compareText, unhex } from "./bytes.ts";
import { cast, isInFiles, valueOf } from "./casts.ts";
import { readDelimited, rowNumber, type Dialect } from "./delimited.ts";
import { demand } from "./errors.ts";
import { abs, Ratio } from "./exact.ts";
import { hashItems, type Part } from "./hashing.ts";
import { idOfKey, newId, Publisher } from "./published.ts";
import type { Release } from "./release.ts";
import { findingsOf, type Finding, type Names } from "./row_check.ts";
import { systemBits, type SecretBits } from "./secret.ts";
import * as sentences from "./sentences.ts";
import { ruleOfUnits, spell, type TextRule } from "./spelling.ts";
import { Table } from "./table.ts";
import type { Guarantee } from "./types.ts";
import { UnitDraws, type Key } from "./unit_draws.ts";

const MOST_STEPS = (1n << 62n) - 1n; // of one value of a unit; larger ones are clipped to it
const LARGEST = (1n << 63n) - 1n;
const SECRET_BYTES = 32;
const SHOWN = 3;

/** Rows that are left out, for one reason. Numbers of rows begin with 1, the header. */
export interface Dropped {
  readonly reason: "missing" | "malformed" | "other key";
  readonly column: string;
  readonly count: number;
  /** The first few. */
  readonly rows: readonly number[];
}

/** A cell of a row that is kept. */
interface Event {
  readonly unit: string | bigint | null;
  readonly key: Key;
  readonly index: bigint;
  readonly steps: bigint;
}

/**
 * Return why this package cannot make releases under an agreement, in a sentence; null if it can.
 *
 * Windows, features, signs and the private choice of keys are for the Python library.
 */
export function notHere(agreement: Agreement): string | null {
  const { terms, windows, features, keys, neighbours, key, unit, index, missing } = agreement;
  const columns = [key, unit, ...index].filter((one) => one !== null);
  const where = "streamsketch release, in Python, does";
  if (terms === null || neighbours === null) return "the agreement states no ε: agree again with --epsilon and --delta";
  if (terms.kind === "signs") return `the agreement publishes signs, which ${where}`;
  if (windows !== null) return `the agreement has windows of time, which ${where}`;
  if (features !== null) return `the agreement is about features, which ${where}`;
  if (keys !== null && "selected" in keys) return `the agreement chooses keys privately, which ${where}`;
  if (neighbours.relation !== "l1" && neighbours.relation !== "sketch-l2") return `the agreement bounds ${neighbours.relation}, which ${where}`;
  if (missing === "keep") return `the agreement keeps missing values, as ${where}`;
  const other = columns.find((one) => !isInFiles(one.type));
  if (other !== undefined) return `the column ${other.name} holds ${other.type}, which ${where}`;
  const named = [key, unit].find((one) => one !== null && one.type !== "text" && one.type !== "integer");
  return named == null ? null : `the column ${named.name} holds ${named.type}, and keys and units here are text or integers; ${where} it`;
}

/** The rows of a file, cast by an agreement. They are private: only `release` makes something that may be published. */
export class AgreedRows {
  readonly agreement: Agreement;
  /** How many rows the file has. */
  readonly count: number;
  /** Which are left out, and why: for the operator alone. */
  readonly dropped: readonly Dropped[];
  /** What else is to be known of them, such as names in several spellings: for the operator alone. */
  readonly findings: readonly Finding[];
  readonly #events: readonly Event[];

  /**
   * @param data the bytes of a CSV file with a header line
   * @throws InvalidInputError if the file is not CSV, lacks a column, or the agreement is for Python (`notHere`)
   */
  constructor(agreement: Agreement | string | Uint8Array, data: Uint8Array, dialect: Dialect = {}) {
    this.agreement = typeof agreement === "string" || agreement instanceof Uint8Array ? readAgreement(agreement) : agreement;
    const refusal = notHere(this.agreement);
    demand(refusal === null, refusal ?? "");
    const { header, rows } = readDelimited(data, dialect);
    const reader = new RowReader(this.agreement, header, dialect.decimal ?? ".");
    this.count = rows.length;
    this.#events = rows.map((row, place) => reader.event(row, rowNumber(place))).filter((event) => event !== null);
    this.dropped = reader.dropped;
    this.findings = findingsOf(reader.names, this.agreement.unit?.name ?? null, reader.units, rows.length);
  }

  /** How many rows are sketched. */
  get kept(): number {
    return this.#events.length;
  }

  /** How many units they are of; null where nothing names them. */
  get units(): number | null {
    return this.agreement.unit === null ? null : new Set(this.#events.map((event) => event.unit)).size;
  }

  /** Whether the agreement wants rows that lack a value, or do not fit their types, corrected before anything is released. */
  get areRefused(): boolean {
    return this.dropped.some(({ reason }) => reason === "malformed" || (reason === "missing" && this.agreement.missing === "refuse"));
  }

  /** What a release would guarantee. */
  get guarantee(): Readonly<Guarantee> {
    return publisherOf(this.agreement).guarantee;
  }

  /**
   * Return a release: each unit clipped to the agreed bound, summed, and published with fresh noise. Each call spends the
   * agreed ε again.
   *
   * @param options.leaveOut whether rows that the agreement refuses are left out
   * @param options.bits secret bits; other ones than the operating system's are for tests alone
   */
  release({ leaveOut = false, bits = systemBits }: { readonly leaveOut?: boolean; readonly bits?: SecretBits } = {}): Release | Table<Release> {
    const { agreement } = this;
    demand(leaveOut || !this.areRefused, "some rows lack a value or do not fit their types: correct them, or leave them out");
    const publisher = publisherOf(agreement);
    const secret = new Uint8Array(SECRET_BYTES);
    bits(secret);
    const table = this.#table(new UnitDraws(secret));
    const id = newId(bits);
    const numbers = (key: Key): bigint[] => this.#numbers(table, key);
    if (agreement.key === null) return publisher.draw(numbers(""), id, bits);
    const keys = listedKeys(agreement) ?? [...table.sums.keys()].sort(compareKeys);
    demand(keys.length > 0, "there is no key to release");
    const releases = keys.map((key) => publisher.draw(numbers(key), idOfKey(id, key), bits));
    return new Table("PrivateTable", typeof keys[0] === "bigint" ? "integer" : "text", keys, releases);
  }

  #table(draws: UnitDraws): ExactTable {
    const { agreement } = this;
    const table = new ExactTable(agreement.projection);
    const units = new Map<string | bigint | null, Map<Key, Map<bigint, bigint>>>();
    for (const { unit, key, index, steps } of this.#events) {
      const rows = entryOf(entryOf(units, unit, () => new Map<Key, Map<bigint, bigint>>()), key, () => new Map<bigint, bigint>());
      rows.set(index, BigInt.asIntN(64, (rows.get(index) ?? 0n) + steps));
    }
    const relation = agreement.neighbours!;
    for (const [unit, rows] of units) {
      if (unit === null) table.addRows(rows);
      else table.addUnit(rows, draws.digest(unit), relation, agreement.clip ?? "scale", draws);
    }
    return table;
  }

  /** Return the exact numbers of a key: its cells, and its weighted counts. */
  #numbers(table: ExactTable, key: Key): bigint[] {
    const { cells, units, total } = table.of(key);
    const { counting, neighbours, projection } = this.agreement;
    if (counting === null) return cells;
    const beside = [BigInt(counting.units) * units];
    if (counting.slack > 0) beside.push(BigInt(counting.slack) * (neighbours!.bound.over(projection.resolution).floor() * units - total));
    return [...cells, ...beside];
  }
}

function publisherOf(agreement: Agreement): Publisher {
  const { terms, neighbours, key, keys, unit, clip, counting, projection, fingerprint } = agreement;
  const { relation, bound, unit: name, maxKeys } = neighbours!;
  const arePublic = key !== null && keys !== null && "public" in keys;
  const isClipped = relation === "sketch-l2" && unit !== null;
  return new Publisher(projection, {
    epsilon: Number(terms!.epsilon),
    delta: Number(terms!.delta),
    mechanism: terms!.mechanism,
    neighbours: { kind: relation, bound, unit: name, maxKeys: maxKeys === 1 ? 0 : maxKeys },
    counting,
    conditions: arePublic ? [sentences.PUBLIC_KEYS] : [],
    basis: unit === null ? "asserted" : "enforced",
    agreement: unhex(fingerprint),
    ...(isClipped ? { clip: clip ?? "scale" } : {}),
  });
}

function listedKeys({ key, keys, text }: Agreement): Key[] | null {
  if (keys === null || !("listed" in keys)) return null;
  const spelt = keys.listed.map((one) => (typeof one === "string" && key?.type === "text" ? spell(one, text) : one));
  return [...new Set(spelt)].sort(compareKeys);
}

function compareKeys(a: Key, b: Key): number {
  if (typeof a === "string" && typeof b === "string") return compareText(a, b);
  return a < b ? -1 : a > b ? 1 : 0;
}

function entryOf<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let found = map.get(key);
  if (found === undefined) map.set(key, (found = make()));
  return found;
}

interface ReadColumn {
  readonly name: string;
  readonly place: number;
  readonly type: string;
  readonly rule: TextRule | null;
}

/** Casts rows, and notes what is left out. */
class RowReader {
  readonly #agreement: Agreement;
  readonly #columns = new Map<string, ReadColumn>();
  readonly #value: number | null;
  readonly #decimal: string;
  readonly #listed: ReadonlySet<Key> | null;
  readonly #indices = new Map<string, bigint | null>();
  readonly #names = new Map<string, Map<string, number>>();
  readonly #units = new Map<string | bigint, number>();
  readonly #dropped = new Map<string, { reason: Dropped["reason"]; column: string; count: number; rows: number[] }>();

  constructor(agreement: Agreement, header: readonly string[], decimal: string) {
    this.#agreement = agreement;
    this.#decimal = decimal;
    const place = (name: string): number => {
      demand(header.includes(name), `the file has no column ${name}: its first line must name all columns of the agreement${similar(name, header)}`);
      demand(header.indexOf(name) === header.lastIndexOf(name), `the file has the column ${name} more than once`);
      return header.indexOf(name);
    };
    const { key, unit, index, text, value } = agreement;
    for (const column of [key, ...index, unit]) {
      if (column === null) continue;
      const rule = column.type !== "text" ? null : column.name === unit?.name ? ruleOfUnits(text) : text;
      this.#columns.set(column.name, { ...column, place: place(column.name), rule });
    }
    this.#value = value === null ? null : place(value);
    const listed = listedKeys(agreement);
    this.#listed = listed === null ? null : new Set(listed);
  }

  get dropped(): Dropped[] {
    return [...this.#dropped.values()];
  }

  /** How many rows each unit has, those of keys that are not listed included. */
  get units(): number[] {
    return [...this.#units.values()];
  }

  /** The texts of columns of text, as the file has them. */
  get names(): Names[] {
    return [...this.#names].map(([column, rows]) => ({ column, rule: this.#columns.get(column)?.rule ?? null, rows }));
  }

  /** Return what a row says; null if it is left out, which is noted. */
  event(row: readonly string[], number: number): Event | null {
    const { key, unit, index, value, projection } = this.#agreement;
    const cells = new Map<string, string>();
    for (const { name, place, rule, type } of this.#columns.values()) {
      cells.set(name, spell(row[place], rule));
      if (type !== "text") continue;
      const names = entryOf(this.#names, name, () => new Map<string, number>());
      names.set(row[place], (names.get(row[place]) ?? 0) + 1);
    }
    const worth = this.#value === null ? null : row[this.#value];
    const blank = [...cells].find(([, cell]) => cell === "")?.[0] ?? (worth === "" ? value : null);
    if (blank !== null) return this.#leave("missing", blank, number);
    const parts = new Map<string, Part>();
    for (const { name, type } of this.#columns.values()) {
      const part = cast(this.#plain(cells.get(name) as string, type), type);
      if (part === undefined) return this.#leave("malformed", name, number);
      parts.set(name, part);
    }
    const amount = worth === null ? ONE : valueOf(this.#plain(worth, "decimal(12)"));
    if (amount === undefined) return this.#leave("malformed", value as string, number);
    const place = this.#index(index.map(({ name }) => parts.get(name) as Part));
    if (place === null) return this.#leave("malformed", index[0].name, number);
    const named: Key = key === null ? "" : (parts.get(key.name) as Key);
    const owner = unit === null ? null : (parts.get(unit.name) as string | bigint);
    if (owner !== null) this.#units.set(owner, (this.#units.get(owner) ?? 0) + 1);
    if (this.#listed !== null && !this.#listed.has(named)) return this.#leave("other key", key!.name, number);
    const { numerator, denominator } = amount.over(projection.resolution);
    const steps = numerator / denominator;
    if (unit === null && abs(steps) > LARGEST) return this.#leave("malformed", value as string, number);
    const most = unit === null ? LARGEST : MOST_STEPS;
    const within = steps > most ? most : steps < -most ? -most : steps;
    return { unit: owner, key: named, index: place, steps: within };
  }

  /** Return a number with a decimal point; a point under a decimal comma is no part of a number. */
  #plain(cell: string, type: string): string {
    return this.#decimal === "," && (type === "integer" || type.startsWith("decimal")) ? cell.replaceAll(".", ";").replaceAll(",", ".") : cell;
  }

  #index(parts: readonly Part[]): bigint | null {
    const { projection } = this.#agreement;
    // as JSON, which no text of one column can make look like another pair
    const name = JSON.stringify(parts.map((part) => (typeof part === "bigint" ? String(part) : part)));
    let found = this.#indices.get(name);
    if (found === undefined) {
      const [first] = parts;
      const isOut = parts.length === 1 && typeof first === "bigint" && (first < 0n || first >= projection.dim);
      found = isOut ? null : hashItems(projection, [parts.length === 1 ? first : parts])[0];
      this.#indices.set(name, found);
    }
    return found;
  }

  #leave(reason: Dropped["reason"], column: string, number: number): null {
    const noted = entryOf(this.#dropped, `${reason} ${column}`, () => ({ reason, column, count: 0, rows: [] as number[] }));
    noted.count++;
    if (noted.rows.length < SHOWN) noted.rows.push(number);
    return null;
  }
}

const ONE = new Ratio(1n);

function similar(name: string, header: readonly string[]): string {
  const near = header.find((one) => one.trim().toLowerCase() === name.trim().toLowerCase());
  return near === undefined ? "" : `; it has ${JSON.stringify(near)}`;
}
