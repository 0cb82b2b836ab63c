/** Which windows of a series differ from the one before, as `streamsketch.changes` finds them. */
import { demand } from "./errors.ts";
import type { Estimate } from "./estimate.ts";
import { squaredDistance } from "./estimators.ts";
import type { Release } from "./release.ts";
import { sameness } from "./sameness.ts";
import { say } from "./say.ts";
import * as sentences from "./sentences.ts";

const LEAST_TYPICAL = 5; // distances, for a median that one change does not decide
const USUAL = 3; // robust standard deviations, within which distances are usual
const TO_DEVIATION = 1.4826; // of a median absolute deviation, if errors are normal
const TINY = 1e-300;

/** A window and the one before. */
export interface Change {
  readonly window: string;
  readonly before: string;
  /** Their squared distance. */
  readonly distance: Estimate;
  readonly pValue: number;
  readonly alarm: boolean;
}

export interface Changes {
  readonly rows: readonly Change[];
  /** The distance, not squared, up to which windows count as the same. */
  readonly tolerance: number;
}

export interface ChangesOptions {
  /** In data units, or `typical`: the usual distance between the windows of the series, of six or more; 0 by default. */
  readonly tolerance?: number | "typical";
  /** The probability of any false alarm in the series, 0.05 by default. */
  readonly level?: number;
}

/**
 * Find the windows that differ from the one before: with probability 1 - `level` there is no false alarm (Holm 1979).
 *
 * @param windows releases in time order, by their names
 */
export function changes(windows: ReadonlyMap<string, Release>, options: ChangesOptions = {}): Changes {
  const steps = changesByStep(windows, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** As `changes`, and yields after each test, of which some take a second. */
export function* changesByStep(windows: ReadonlyMap<string, Release>, { tolerance = 0, level = 0.05 }: ChangesOptions = {}): Generator<undefined, Changes, undefined> {
  const series = [...windows];
  demand(series.length >= 2, say(sentences.FEW_WINDOWS, { windows: series.length }));
  demand(level > 0 && level < 1, "a level lies between 0 and 1");
  const distances = series.slice(1).map(([, release], at) => squaredDistance(release, series[at][1]));
  const allowed = tolerance === "typical" ? typical(distances) : tolerance;
  const chances: number[] = [];
  for (let at = 1; at < series.length; at++) {
    chances.push(sameness(series[at][1], series[at - 1][1], allowed));
    yield;
  }
  const largest = holm(chances, level);
  const rows = distances.map((distance, at): Change => ({ window: series[at + 1][0], before: series[at][0], distance, pValue: chances[at], alarm: chances[at] <= largest }));
  return { rows, tolerance: allowed };
}

/** Return the largest p-value at which there is an alarm: up to the first, in rising order, that is too large; -1 if there is none. */
export function holm(chances: readonly number[], level: number): number {
  const sorted = chances.slice().sort((a, b) => a - b);
  const first = sorted.findIndex((chance, rank) => chance > level / (sorted.length - rank));
  const alarms = first < 0 ? sorted.length : first;
  return alarms > 0 ? sorted[alarms - 1] : -1;
}

/** Return the distance that the windows of a series usually have, by robust statistics of its estimates. */
function typical(found: readonly Estimate[]): number {
  demand(found.length >= LEAST_TYPICAL, `a typical tolerance needs at least ${LEAST_TYPICAL} distances, got ${found.length}`);
  const sizes = found.map((one) => Math.sqrt(Math.max(one.value, 0)));
  const usual = median(sizes);
  const deviation = TO_DEVIATION * median(sizes.map((size) => Math.abs(size - usual)));
  const stated = median(found.map((one, at) => one.standardError / (2 * Math.max(sizes[at], Math.sqrt(one.standardError)) + TINY)));
  const unexplained = Math.sqrt(Math.max(deviation ** 2 - stated ** 2, 0));
  return Math.sqrt(Math.max(median(found.map((one) => one.value)), 0)) + USUAL * unexplained;
}

function median(values: readonly number[]): number {
  const sorted = values.slice().sort((a, b) => a - b);
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}
