/** The items of a dictionary that separate two streams, with intervals that hold for all of them at once. */
import { demand } from "./errors.ts";
import { frequencies, type Estimator } from "./frequency.ts";
import { hashItems, type Item } from "./hashing.ts";
import type { Limits } from "./limits.ts";
import type { Release } from "./release.ts";

/** By how much more an item occurs in the first of two streams, in data units; ends may be infinite. */
export interface Difference {
  readonly item: Item;
  readonly estimate: number;
  readonly error: number;
  readonly low: number;
  readonly high: number;
}

export interface Differences {
  /** The largest absolute estimate first. */
  readonly rows: readonly Difference[];
  /** How many different items the dictionary has; all of their intervals hold at once. */
  readonly candidates: number;
  /** How many of them have an interval that leaves out 0. */
  readonly separated: number;
}

export interface DifferenceOptions {
  /** How many rows to return, 10 by default. */
  readonly n?: number;
  /** With which all intervals hold, 0.95 by default. */
  readonly confidence?: number;
  readonly estimator?: Estimator;
  readonly limits?: Partial<Limits>;
}

const ROUNDING = 1e-9; // of an estimate: an end of an interval that is 0 but for rounding is 0

/**
 * Find the items of a public dictionary that separate two streams most: as `streamsketch.top_differences` of sums.
 *
 * @param dictionary items as `hashItems` takes them; those that occur again count once
 */
export function topDifferences(x: Release, y: Release, dictionary: Iterable<Item>, options: DifferenceOptions = {}): Differences {
  const { n = 10, confidence = 0.95, estimator = "auto", limits = {} } = options;
  demand(Number.isInteger(n) && n >= 1, "n is an integer of at least 1");
  demand(confidence > 0 && confidence < 1, `a confidence of ${confidence}; it lies between 0 and 1`);
  const given = Array.from(dictionary);
  const items = new Map<bigint, Item>();
  hashItems(x.projection, given).forEach((index, place) => {
    if (!items.has(index)) items.set(index, given[place]);
  });
  const candidates = items.size;
  demand(candidates > 0, "the dictionary has no items: name those that may occur");
  const names = [...items.values()];
  const widths = new Map<number, number>(); // of medians, by their error: they have one law
  let separated = 0;
  const rows = frequencies(x, items.keys(), { less: y, estimator, limits }).map((found, place): Difference => {
    const { value, standardError } = found;
    let ends: { readonly low: number; readonly high: number };
    if (found.chosen === "median") {
      const width = widths.get(standardError) ?? found.intervalAmong(candidates, confidence).high - value;
      widths.set(standardError, width);
      ends = { low: value - width, high: value + width };
    } else ends = found.intervalAmong(candidates, confidence);
    const [low, high] = [ends.low, ends.high].map((end) => (Math.abs(end) <= ROUNDING * Math.abs(value) ? 0 : end));
    if (low > 0 || high < 0) separated++;
    return { item: names[place], estimate: value, error: standardError, low, high };
  });
  rows.sort((a, b) => Math.abs(b.estimate) - Math.abs(a.estimate));
  return { rows: rows.slice(0, n), candidates, separated };
}
