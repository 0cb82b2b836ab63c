/**
 * What warehouses call: sketches in, numbers out. BigQuery passes BYTES as base64, Snowflake BINARY as Uint8Array.
 *
 * There is no `release`: WIRE.md and docs/how-to/warehouses.md say why.
 */
import { hex, unbase64, base64 } from "./bytes.ts";
import { combine as combined, type Populations } from "./combine.ts";
import { InvalidInputError } from "./errors.ts";
import type { Estimate } from "./estimate.ts";
import * as estimators from "./estimators.ts";
import { frequency as frequencyOf } from "./frequency.ts";
import { Day, type Item } from "./hashing.ts";
import { readRelease, type Release } from "./release.ts";
import { checkNoise, guaranteeText, warnings as warningsOf } from "./words.ts";

type Bytes = string | Uint8Array | null | undefined;

/** Numbers of an estimate, as DuckDB's functions name them. */
export interface Numbers {
  readonly value: number;
  readonly standard_error: number;
  readonly low_95: number | null;
  readonly high_95: number | null;
}

const KEPT = 1024;
const RELEASES = new Map<string, Release>();

function releaseOf(data: string | Uint8Array): Release {
  const name = typeof data === "string" ? data : hex(data);
  let found = RELEASES.get(name);
  if (found === undefined) {
    found = readRelease(typeof data === "string" ? unbase64(data) : data);
    if (RELEASES.size >= KEPT) RELEASES.clear();
    RELEASES.set(name, found);
  }
  return found;
}

function numbersOf(estimate: Estimate): Numbers {
  const { low, high } = estimate.interval(0.95);
  const finite = (end: number) => (Number.isFinite(end) ? end : null);
  return { value: estimate.value, standard_error: estimate.standardError, low_95: finite(low), high_95: finite(high) };
}

function ofOne(estimator: (x: Release) => Estimate, isOptional = false): (x: Bytes) => Numbers | null {
  return (x) => (x == null ? null : orNull(isOptional, () => numbersOf(estimator(releaseOf(x)))));
}

function ofTwo(estimator: (x: Release, y: Release) => Estimate, isOptional = false): (x: Bytes, y: Bytes) => Numbers | null {
  return (x, y) => (x == null || y == null ? null : orNull(isOptional, () => numbersOf(estimator(releaseOf(x), releaseOf(y)))));
}

/** Return null where an estimate is not defined; another error aborts the query. */
function orNull(isOptional: boolean, body: () => Numbers): Numbers | null {
  try {
    return body();
  } catch (error) {
    if (isOptional && error instanceof InvalidInputError && error.message.includes("undefined")) return null;
    throw error;
  }
}

export const squared_norm = ofOne(estimators.squaredNorm);
export const mean_norm = ofOne(estimators.meanNorm, true);
export const units = ofOne(estimators.units);
export const total = ofOne(estimators.total);
export const squared_distance = ofTwo(estimators.squaredDistance);
export const inner_product = ofTwo(estimators.innerProduct);
export const cosine = ofTwo(estimators.cosine, true);
export const profile_distance = ofTwo(estimators.profileDistance, true);
export const mean_distance = ofTwo(estimators.meanDistance, true);
export const mean_product = ofTwo(estimators.meanProduct, true);

/** How often an item occurs: `type` is text, integer, date (ISO 8601) or bytes (base64), as the agreement says. */
export function frequency(x: Bytes, item: string | null | undefined, type: string | null | undefined): Numbers | null {
  if (x == null || item == null) return null;
  const items: Record<string, () => Item> = {
    text: () => item,
    integer: () => integerOf(item),
    date: () => Day.parse(item),
    bytes: () => unbase64(item),
  };
  const read = items[type ?? "text"];
  if (read === undefined) throw new InvalidInputError(`an item is text, integer, date or bytes, and not ${type}`);
  return numbersOf(frequencyOf(releaseOf(x), read()));
}

function integerOf(text: string): bigint {
  if (!/^-?\d+$/.test(text)) throw new InvalidInputError(`${JSON.stringify(text)} is no integer`);
  return BigInt(text);
}

/** The release of both streams together, as base64; populations are disjoint or overlapping. */
export function combine(x: Bytes, y: Bytes, populations: string | null | undefined): string | null {
  if (x == null || y == null) return null;
  return base64(combined(releaseOf(x), releaseOf(y), populations as Populations).toBytes());
}

/** The same as bytes. */
export function combine_bytes(x: Bytes, y: Bytes, populations: string | null | undefined): Uint8Array | null {
  if (x == null || y == null) return null;
  return combined(releaseOf(x), releaseOf(y), populations as Populations).toBytes();
}

/** The guarantee as a sentence. */
export function guarantee(x: Bytes): string | null {
  return x == null ? null : guaranteeText(releaseOf(x).guarantee);
}

/** What to be warned of, one sentence a line; empty if there is nothing. */
export function warnings(x: Bytes): string | null {
  return x == null ? null : warningsOf(releaseOf(x)).join("\n");
}

/** `enough`, `too little` or `not checked`: whether the noise stated is enough for the guarantee. */
export function noise_check(x: Bytes): string | null {
  return x == null ? null : checkNoise(releaseOf(x)).verdict;
}
