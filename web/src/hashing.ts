/** From a key to its index. */
import { blake2b } from "./blake2b.ts";
import { concat, integerOf, littleEndian, utf8 } from "./bytes.ts";
import { demand } from "./errors.ts";
import type { Projection } from "./types.ts";
import { element, product } from "./words64.ts";

/** A day without a time of day: days since 1970-01-01. */
export class Day {
  readonly days: number;

  constructor(days: number) {
    demand(Number.isInteger(days), "a day is an integer of days since 1970-01-01");
    this.days = days;
  }

  /** Return the day of text such as `2026-01-31`. */
  static parse(text: string): Day {
    const milliseconds = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00Z`) : NaN;
    demand(!Number.isNaN(milliseconds) && new Date(milliseconds).toISOString().startsWith(text), `${JSON.stringify(text)} is no day`);
    return new Day(milliseconds / 86_400_000);
  }
}

/** A time: nanoseconds since 1970-01-01T00:00Z. A `Date` is one of whole milliseconds. */
export class Nanoseconds {
  readonly count: bigint;

  constructor(count: bigint) {
    this.count = count;
  }
}

export type Part = string | Uint8Array | bigint | number | Day | Date | Nanoseconds;
/** What happened: one part, or a tuple of two or more. Integers alone are indices themselves. */
export type Item = Part | readonly Part[];

const HASHED = 1n << 60n;

/** Return the tag byte and canonical bytes of a key. */
export function canonicalBytes(key: Part): Uint8Array {
  if (typeof key === "string") {
    demand(!/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.test(key), "text with half of a pair of code units");
    return utf8(`s${key}`);
  }
  if (key instanceof Uint8Array) return concat(utf8("b"), key);
  if (key instanceof Day) return utf8(`d${key.days}`);
  if (key instanceof Nanoseconds) return utf8(`t${key.count}`);
  if (key instanceof Date) {
    demand(!Number.isNaN(key.getTime()), "a Date that is no time");
    return utf8(`t${BigInt(key.getTime()) * 1_000_000n}`);
  }
  return utf8(`i${integer(key)}`);
}

function integer(key: number | bigint): bigint {
  demand(typeof key === "bigint" || Number.isSafeInteger(key), `${String(key)} is no integer below 2^53; say it as a bigint`);
  return BigInt(key);
}

/** Return the 60-bit fingerprint of canonical bytes. */
export function fingerprint(canonical: Uint8Array, seed: bigint): bigint {
  const options = { key: littleEndian(seed, 8), person: utf8("streamsketch.key") };
  return integerOf(blake2b(canonical, 8, options)) % HASHED;
}

const FACTORS = new Map<string, bigint[]>();

function tupleFactors(seed: bigint, parts: number): bigint[] {
  const name = `${seed}/${parts}`;
  let found = FACTORS.get(name);
  if (found === undefined) {
    found = Array.from({ length: parts + 1 }, (_, i) => element(seed, `tuple/${parts}`, i));
    if (FACTORS.size > 64) FACTORS.clear();
    FACTORS.set(name, found);
  }
  return found;
}

/**
 * Return the indices of items under a projection: the coordinates that `frequency` asks about.
 *
 * @throws InvalidInputError for integers beyond dim, and for other items where dim is not 2^60
 */
export function hashItems(projection: Pick<Projection, "dim" | "seed">, items: Iterable<Item>): bigint[] {
  const { dim, seed } = projection;
  return Array.from(items, (item) => {
    const isTuple = Array.isArray(item);
    if (!isTuple && (typeof item === "bigint" || typeof item === "number")) {
      const index = integer(item);
      demand(index >= 0n && index < dim, `index ${index} is not in 0 … ${dim - 1n}`);
      return index;
    }
    demand(dim === HASHED, `dim is ${dim}, so items are integers; text and others need 2^60`);
    if (!isTuple) return fingerprint(canonicalBytes(item as Part), seed);
    const parts = item as readonly Part[];
    demand(parts.length >= 2, "a tuple has two parts or more");
    const [constant, ...factors] = tupleFactors(seed, parts.length);
    const sum = parts.reduce<bigint>((found, part, i) => found ^ product(factors[i], fingerprint(canonicalBytes(part), seed)), constant);
    return sum % HASHED;
  });
}
