/**
 * What warehouses call: sketches in, numbers out. BigQuery passes BYTES as base64, Snowflake BINARY as Uint8Array.
 *
 * There is no `release`: WIRE.md and docs/how-to/warehouses.md say why.
 */
import { hex, unbase64, base64 } from "./bytes.ts";
import { combine as combined } from "./combine.ts";
import { DependentNoiseError, InvalidInputError } from "./errors.ts";
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

type Estimator = (...releases: Release[]) => Estimate;
const OF_ONE = { squared_norm: estimators.squaredNorm, mean_norm: estimators.meanNorm, units: estimators.units, total: estimators.total };
const OF_TWO = {
  squared_distance: estimators.squaredDistance, inner_product: estimators.innerProduct, cosine: estimators.cosine,
  profile_distance: estimators.profileDistance, mean_distance: estimators.meanDistance, mean_product: estimators.meanProduct,
};

/** Return a result, or why sound releases have none: they share noise, or do not say what it takes. Another error ends the query. */
function stated<T>(body: () => T): T | string {
  try {
    return body();
  } catch (error) {
    if (error instanceof InvalidInputError || error instanceof DependentNoiseError) return error.message;
    throw error;
  }
}

function orNull<T>(found: T | string): T | null {
  return typeof found === "string" ? null : found;
}

function numbersFrom(estimator: Estimator, ...sketches: Bytes[]): Numbers | null {
  const given = sketches.filter((sketch) => sketch != null).map(releaseOf);
  return given.length < sketches.length ? null : orNull(stated(() => numbersOf(estimator(...given))));
}

export const squared_norm = (x: Bytes): Numbers | null => numbersFrom(OF_ONE.squared_norm, x);
export const mean_norm = (x: Bytes): Numbers | null => numbersFrom(OF_ONE.mean_norm, x);
export const units = (x: Bytes): Numbers | null => numbersFrom(OF_ONE.units, x);
export const total = (x: Bytes): Numbers | null => numbersFrom(OF_ONE.total, x);
export const squared_distance = (x: Bytes, y: Bytes): Numbers | null => numbersFrom(OF_TWO.squared_distance, x, y);
export const inner_product = (x: Bytes, y: Bytes): Numbers | null => numbersFrom(OF_TWO.inner_product, x, y);
export const cosine = (x: Bytes, y: Bytes): Numbers | null => numbersFrom(OF_TWO.cosine, x, y);
export const profile_distance = (x: Bytes, y: Bytes): Numbers | null => numbersFrom(OF_TWO.profile_distance, x, y);
export const mean_distance = (x: Bytes, y: Bytes): Numbers | null => numbersFrom(OF_TWO.mean_distance, x, y);
export const mean_product = (x: Bytes, y: Bytes): Numbers | null => numbersFrom(OF_TWO.mean_product, x, y);

/** Why the function of this name is NULL for one sketch, or for two; NULL where it is not. */
export function why_null(x: Bytes, y: Bytes, name: string | null | undefined): string | null {
  if (name == null) return null;
  const isOfTwo = Object.keys(OF_TWO).includes(name);
  if (!isOfTwo && !Object.keys(OF_ONE).includes(name)) throw new InvalidInputError(`there is a reason for ${[...Object.keys(OF_ONE), ...Object.keys(OF_TWO)].join(", ")}, and not for ${JSON.stringify(name)}`);
  const [estimator, sketches] = isOfTwo ? [OF_TWO[name as keyof typeof OF_TWO], [x, y]] : [OF_ONE[name as keyof typeof OF_ONE], [x]];
  if (sketches.some((sketch) => sketch == null)) return "a sketch is NULL";
  const given = sketches.map((sketch) => releaseOf(sketch as string | Uint8Array));
  const found = stated(() => numbersOf((estimator as Estimator)(...given)));
  return typeof found === "string" ? found : null;
}

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
  const [release, key] = [releaseOf(x), read()];
  if (release.history?.row) return null; // no estimate is made of a row of a schedule
  return numbersOf(frequencyOf(release, key));
}

function integerOf(text: string): bigint {
  if (!/^-?\d+$/.test(text)) throw new InvalidInputError(`${JSON.stringify(text)} is no integer`);
  return BigInt(text);
}

/** The release of both streams together, as base64; populations are disjoint or overlapping. NULL where they share noise. */
export function combine(x: Bytes, y: Bytes, populations: string | null | undefined): string | null {
  const found = combine_bytes(x, y, populations);
  return found === null ? null : base64(found);
}

/** The same as bytes. */
export function combine_bytes(x: Bytes, y: Bytes, populations: string | null | undefined): Uint8Array | null {
  if (x == null || y == null) return null;
  if (populations !== "disjoint" && populations !== "overlapping") throw new InvalidInputError("populations are disjoint or overlapping");
  const [first, second] = [releaseOf(x), releaseOf(y)];
  return orNull(stated(() => combined(first, second, populations).toBytes()));
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
