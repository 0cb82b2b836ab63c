/** Rows of numbers, categories and embeddings as vectors of about length 1: WIRE.md, "Features". */
import { blake2b } from "./blake2b.ts";
import { integerOf, utf8 } from "./bytes.ts";
import { demand, need } from "./errors.ts";
import { integerRoot, Ratio } from "./exact.ts";
import { canonicalBytes, fingerprint } from "./hashing.ts";
import { integerField, isObject, numberField, parseJson, textField, type Json, type JsonObject } from "./json.ts";
import { LIMITS } from "./limits.ts";
import { Matrix, roundToEven } from "./matrix.ts";

const ONE = 2 ** 15, TURN = 2 ** 13, MOST_CELLS = 2 ** 24;
const PI = Ratio.parse("3.14159265358979323846264338327950288419716939937510582097494");
/** A number in text, with white space around it: U+0009, U+000A, U+000C, U+000D and U+0020. */
const NUMBER = /^[ \t\n\r\f]*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,5})?[ \t\n\r\f]*$/;

/** What a row has of a column; null where it is missing. Text is read as a number, a category or a list. */
export type Entry = number | string | boolean | null | readonly (number | null)[];

interface Column {
  readonly kind: "number" | "category" | "embedding";
  readonly name: string;
  readonly weight: bigint;
  readonly low: number;
  readonly high: number;
  readonly moments: number;
  readonly values: readonly string[] | null;
  readonly hashed: number;
  readonly size: number;
  readonly waves: number;
  readonly width: number;
}

/** A public map from rows to features, in steps of 2^-15. */
export class Features {
  readonly columns: readonly string[];
  readonly #columns: readonly Column[];
  readonly #seed: bigint;
  readonly #joint: number;
  readonly #jointWeight: bigint;
  readonly #multiplier: bigint;
  readonly #waves = new Map<string, Float64Array[]>();

  /** Take the features of an agreement, or of JSON text. */
  constructor(given: JsonObject | string) {
    const fields = typeof given === "string" ? parseJson(given, LIMITS.maxJsonBytes) : given;
    need(isObject(fields) && Array.isArray(fields.columns), "features have columns");
    const { seed } = fields;
    need(typeof seed === "bigint" && seed >= 0n && seed < 1n << 64n, "seed out of range");
    this.#columns = fields.columns.map(columnOf);
    this.columns = this.#columns.map((one) => one.name);
    this.#seed = seed;
    this.#joint = integerField(fields.joint, "joint");
    need(this.#joint >= 0 && this.#joint < MOST_CELLS, "joint out of range");
    this.#jointWeight = this.#joint > 0 ? weightOf(fields.joint_weight) : 0n;
    this.#multiplier = this.#joint > 0 ? nearest(new Ratio(1n << 20n).over(turnsOf(numberField(fields.width, "width")))) : 0n;
  }

  /** Return the features of a row, whose entries are in the order of the columns: integers, in steps of 2^-15. */
  transform(row: readonly Entry[]): Int32Array {
    demand(row.length === this.#columns.length, `a row has ${this.#columns.length} entries, and not ${row.length}`);
    const weights = this.#columns.map((one) => (one.kind === "number" && one.moments === 0 ? 0n : one.weight));
    if (this.#joint > 0) weights.push(this.#jointWeight);
    const all = weights.reduce((sum, weight) => sum + weight, 0n);
    const lengths = weights.map((weight) => Math.min(Number(integerRoot((1n << 30n) * weight / all)), ONE - 1));
    const cells: number[] = [];
    const together: number[] = [];
    let left = 0;
    this.#columns.forEach((column, i) => {
      if (column.kind === "number") {
        const [own, place] = numberCells(column, row[i], lengths[i]);
        together.push(place);
        left += lengths[i] ** 2 - own.reduce((sum, cell) => sum + cell * cell, 0);
        cells.push(...own);
      } else {
        cells.push(...(column.kind === "category" ? categoryCells(column, row[i], lengths[i], this.#seed) : this.#embedding(column, row[i], lengths[i])));
      }
    });
    if (this.#joint > 0) {
      const amplitude = Number(integerRoot(BigInt(lengths[lengths.length - 1] ** 2) / BigInt(this.#joint)));
      for (const wave of this.#frequencies("(joint)", together.length, this.#joint)) {
        const phase = BigInt(together.reduce((sum, place, i) => sum + place * wave[i], 0));
        cells.push(...pair(Number(((phase * this.#multiplier) >> 31n) % BigInt(TURN)), amplitude));
      }
    }
    if (this.#columns.some((one) => one.kind === "number" && one.moments > 0)) cells.push(Math.floor(Math.sqrt(Math.max(left, 0))));
    return Int32Array.from(cells);
  }

  #embedding(column: Column, entry: Entry, length: number): number[] {
    const values = listOf(entry);
    const isKnown = values !== null && values.length === column.size && values.every((one) => one !== null && Number.isFinite(one)) && values.some((one) => one !== 0);
    if (!isKnown) return [...new Array<number>(2 * column.waves).fill(0), length];
    const numbers = values as readonly number[];
    const largest = numbers.reduce((most, one) => Math.max(most, Math.abs(one)), 0);
    const levels = numbers.map((one) => roundToEven((one / largest) * 1024));
    const norm = Math.sqrt(levels.reduce((sum, level) => sum + level * level, 0));
    const factor = new Ratio(32n).over(turnsOf(column.width)).toNumber();
    const amplitude = Number(integerRoot(BigInt(length ** 2) / BigInt(column.waves)));
    const cells: number[] = [];
    for (const wave of this.#frequencies(column.name, column.size, column.waves)) {
      const phase = levels.reduce((sum, level, i) => sum + level * wave[i], 0);
      cells.push(...pair(Math.floor((phase / norm) * factor), amplitude));
    }
    return [...cells, 0];
  }

  /** Return frequencies in multiples of 2^-8, wave by wave. */
  #frequencies(name: string, size: number, waves: number): Float64Array[] {
    let found = this.#waves.get(name);
    if (found === undefined) {
      const seed = integerOf(blake2b(utf8(`${this.#seed}/${name}`), 8));
      const matrix = new Matrix({ kind: "gaussian", dim: BigInt(size), sketchDim: waves, seed, resolution: new Ratio(1n), independence: 8, fractionBits: 8 });
      found = Array.from({ length: waves }, () => new Float64Array(size));
      for (let i = 0; i < size; i++) {
        const { rows, entries } = matrix.column(BigInt(i));
        rows.forEach((row, at) => ((found as Float64Array[])[row][i] = entries[at]));
      }
      this.#waves.set(name, found);
    }
    return found;
  }
}

function weightOf(value: Json | undefined): bigint {
  need(typeof value === "bigint" && value > 0n && value < 1n << 31n, "a weight out of range");
  return value;
}

function columnOf(value: Json): Column {
  need(isObject(value), "a column of features is an object");
  const kind = textField(value.kind, "kind");
  need(kind === "number" || kind === "category" || kind === "embedding", "an unknown kind of column");
  const whole = (name: string, least: number) => {
    const found = integerField(value[name], name);
    need(found >= least && found <= MOST_CELLS, `${name} out of range`);
    return found;
  };
  const column: Column = {
    kind, name: textField(value.name, "name"), weight: weightOf(value.weight),
    low: 0, high: 1, moments: 0, values: null, hashed: 0, size: 0, waves: 0, width: 1,
  };
  if (kind === "number") {
    const [low, high] = [numberField(value.low, "low"), numberField(value.high, "high")];
    need(low < high, "low is not below high");
    return { ...column, low, high, moments: whole("moments", 0) };
  }
  if (kind === "embedding") {
    const width = numberField(value.width, "width");
    need(width > 0, "a width of 0 or less");
    return { ...column, size: whole("size", 1), waves: whole("waves", 1), width };
  }
  need((value.values === null) !== (value.hashed === null), "a category has values, or is hashed");
  if (value.values === null) return { ...column, hashed: whole("hashed", 1) };
  need(Array.isArray(value.values), "values are a list");
  return { ...column, values: value.values.map((one) => textField(one, "a value")) };
}

/** Return 2π·h. */
function turnsOf(width: number): Ratio {
  need(width > 0 && Number.isFinite(width), "a width of 0 or less");
  return PI.times(new Ratio(2n)).times(Ratio.of(width));
}

/** Return the nearest integer of a ratio that is not halfway. */
function nearest(value: Ratio): bigint {
  return value.add(new Ratio(1n, 2n)).floor();
}

function numberOf(entry: Entry): number {
  if (typeof entry === "boolean") return entry ? 1 : 0;
  if (typeof entry === "number") return entry;
  if (typeof entry !== "string") return NaN;
  if (NUMBER.test(entry)) return Number(entry);
  const word = /^[ \t\n\r\f]*([a-zA-Z]+)[ \t\n\r\f]*$/.exec(entry)?.[1].toLowerCase();
  return word === "true" ? 1 : word === "false" ? 0 : NaN;
}

/** Return the cells of a number, and its place on the range. */
function numberCells({ low, high, moments }: Column, entry: Entry, length: number): readonly [number[], number] {
  const value = numberOf(entry);
  if (Number.isNaN(value)) return [moments > 0 ? [...new Array<number>(moments).fill(0), length] : [], 0];
  const u = roundToEven(((Math.min(Math.max(value, low), high) - low) / (high - low)) * 2 ** 16) - ONE;
  if (moments === 0) return [[], u];
  const amplitude = Number(integerRoot(BigInt(length ** 2) / BigInt(moments)));
  const chebyshev = [ONE, u];
  while (chebyshev.length <= moments) {
    const [before, last] = chebyshev.slice(-2);
    chebyshev.push(Math.floor((2 * u * last + ONE / 2) / ONE) - before);
  }
  return [[...chebyshev.slice(1, moments + 1).map((one) => Math.floor((one * amplitude + ONE / 2) / ONE)), 0], u];
}

function categoryCells({ values, hashed }: Column, entry: Entry, length: number, seed: bigint): number[] {
  demand(entry === null || typeof entry === "string" || typeof entry === "boolean" || Number.isSafeInteger(entry), "a category is text, an integer, a boolean or null");
  const text = entry === null ? "" : String(entry);
  const cells = new Array<number>(values === null ? hashed + 1 : values.length + 2).fill(0);
  if (text === "") {
    cells[cells.length - 1] = length;
  } else if (values !== null) {
    const place = values.indexOf(text);
    cells[place < 0 ? values.length : place] = length;
  } else {
    const word = fingerprint(canonicalBytes(text), seed);
    cells[Number(((word >> 28n) * BigInt(hashed)) >> 32n)] = word & 1n ? length : -length;
  }
  return cells;
}

/** Return the numbers of a list or of its text; null where it is none. */
function listOf(entry: Entry): readonly (number | null)[] | null {
  if (Array.isArray(entry)) return entry;
  if (typeof entry !== "string") return null;
  const inner = /^[ \t\n\r\f]*\[([^[\]]*)\][ \t\n\r\f]*$/.exec(entry)?.[1];
  if (inner === undefined) return null;
  const texts = inner.split(",");
  const isNull = (text: string) => /^[ \t\n\r\f]*null[ \t\n\r\f]*$/.test(text);
  return texts.every((text) => isNull(text) || NUMBER.test(text)) ? texts.map((text) => (isNull(text) ? null : Number(text))) : null;
}

/** Return cosine and sine of a step of a turn, times an amplitude, rounded. */
function pair(step: number, amplitude: number): number[] {
  return [step, step - TURN / 4].map((one) => {
    const within = ((one % TURN) + TURN) % TURN;
    return Math.floor(amplitude * Math.cos((2 * Math.PI * within) / TURN) + 0.5);
  });
}
