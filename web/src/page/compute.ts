/** The facts of a page from releases, computed in the browser as `streamsketch report` computes them. */
import { type Change, cosine, Estimate, hasDirection, type Interval, InvalidInputError, pairwise, type Release, squaredDistance, squaredNorm } from "../index.ts";
import { changesByStep } from "../changes.ts";
import { emptyNorm, viewOf } from "../estimators.ts";
import { type JointModel, jointPairs } from "../joint.ts";
import { normalBelow, upperQuantile } from "../normal.ts";
import { say } from "../say.ts";
import * as sentences from "../sentences.ts";
import { type Numbers, PairTable, type PageData } from "./data.ts";
import { cells, formatValue } from "./format.ts";
import type { Squares } from "./scaling.ts";
import { type Groups, groupsIn, median, orderOf, range, treeOf } from "./groups.ts";
import { keyAndWindow, windowTime } from "./windows.ts";

/** The share of streams that cosines must tell apart to be shown. */
const ENOUGH = 0.5;
const LEAST_NORM = 2; // standard errors of an empty stream's squared norm
const SCALES: readonly (readonly [number, string])[] = [[1e12, "trillions"], [1e9, "billions"], [1e6, "millions"], [1e3, "thousands"], [1e-3, "thousandths"], [1e-6, "millionths"]];
const MOST_JOINT = 4_000_000; // of streams squared times cells, for joint estimates
const NAMED = 6;
const MOST_PAIRS = 5;
const LEAST_TYPICAL = 6; // windows, for what is typical of a series
const LEVEL = 0.05; // the probability of any false alarm on a page
/** Windows that are tested, of which some take a second. */
export const MOST_TESTS = 100;

/** The first sentences of a page. */
export interface Answer {
  readonly short: string;
  readonly detail: string;
  /** Of each group, how many streams it has, and their names; without groups, pairs with their estimates. */
  readonly listed: readonly (readonly [string, string])[];
}

/** What a page shows, without the numbers in text. */
export interface Computed {
  readonly data: PageData;
  readonly pairs: PairTable;
  /** Squared distances for the map: n·n, with the parts of their variances. */
  readonly squares: Squares;
  /** How many pairs the intervals of the page hold for at once. */
  readonly among: number;
  readonly answer: Answer;
  readonly below: readonly string[];
  /** Those of `data.names`. */
  readonly releases: readonly Release[];
  /** Of windows: the windows of each key that has two or more; null for other streams. */
  readonly series: ReadonlyMap<string, ReadonlyMap<string, Release>> | null;
  /** How the estimates were made, if they are joint ones. */
  readonly joint: JointModel | null;
}

/** What tests of the windows of all keys found. */
export interface Changed {
  readonly keys: readonly (readonly [string, readonly Change[]])[];
  /** Whether changes are larger than is usual in their series, too. */
  readonly typical: boolean;
  /** How many windows were too many to be tested. */
  readonly untested: number;
}

/** How n streams compare, as arrays of n·n numbers. */
class Comparison {
  readonly estimates: (Estimate | null)[];
  /** `given` is how many streams these n were selected from. */
  constructor(readonly n: number, readonly by: "cosine" | "distance", readonly given: number, of: (i: number, j: number) => Estimate) {
    this.estimates = new Array<Estimate | null>(n * n).fill(null);
    for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) this.estimates[i * n + j] = this.estimates[j * n + i] = of(i, j);
  }

  at(i: number, j: number): Estimate {
    return this.estimates[i * this.n + j]!;
  }

  /** All pairs of all streams, whichever are drawn. */
  get among(): number {
    return Math.max((this.given * (this.given - 1)) / 2, 1);
  }

  /** Return the interval of a pair: those of all pairs of all streams hold at once, and the page has no others. */
  ends(i: number, j: number): Interval {
    return this.at(i, j).intervalAmong(this.among);
  }

  /** Return which streams' nearest and farthest others differ, with intervals that allow for their selection. */
  toldApart(): boolean[] {
    const { n } = this;
    const lows = new Float64Array(n).fill(-Infinity);
    const highs = new Float64Array(n).fill(Infinity);
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) {
        const { low, high } = this.at(i, j).intervalAmong(Math.max(this.given - 1, 1));
        for (const place of [i, j]) [lows[place], highs[place]] = [Math.max(lows[place], low), Math.min(highs[place], high)];
      }
    }
    return range(n).map((place) => lows[place] > highs[place]);
  }
}

/** Return whether the page makes joint estimates of releases: not of noise before the map, few cells, or so much that the page stands still. */
export function canBeJoint(releases: readonly Release[]): boolean {
  const { map, cells } = viewOf(releases[0]);
  return map.before === null && cells.length >= 4 && releases.length ** 2 * cells.length <= MOST_JOINT;
}

/** Return the facts of a page of 2 or more releases by their names, with each pair's own estimates or with joint ones. */
export function compute(named: ReadonlyMap<string, Release>, title: string, made: string, guarantee: string, together = false): Computed {
  const entries = inTimeOrder([...named]);
  const lost = entries.map(([, release]) => !standsOut(release, entries.length));
  const ranked = lost.filter((one) => !one).length >= 2;
  const kept = entries.filter((_, place) => !ranked || !lost[place]);
  const [names, releases] = [kept.map(([name]) => name), kept.map(([, release]) => release)];
  const n = names.length;
  const alone = (ranked && cosinesOf(releases, entries.length)) || new Comparison(n, "distance", entries.length, (i, j) => squaredDistance(releases[i], releases[j]));
  const joint = together ? jointPairs(releases, { by: alone.by === "cosine" ? "cosine" : "squaredDistance", order: isOneSeries(entries) ? "time" : null }) : null;
  const shown = joint === null ? alone : new Comparison(n, alone.by, entries.length, (i, j) => joint.at(i, j));
  const pairs = tableOf(shown);
  const all = squaresOf(shown);
  const squares = all.value;
  const tree = treeOf(squares, n);
  const found = groupsIn(tree, reachOf(shown), shown.toldApart());
  const by = shown.by;
  const factor = by === "distance" ? unitOf(median(Array.from(pairs.value, Math.abs))) : ([1, ""] as const);
  const data: PageData = {
    version: 1,
    title, made, guarantee, by, names, ranked,
    quantity: `${joint === null ? "" : "joint "}${by === "cosine" ? "cosine" : "squared distance"}`,
    largest: by === "cosine",
    factor: factor[0],
    unit: factor[1],
    together: true,
    similar: orderOf(tree, squares, n),
    tree,
    groups: found.groups,
    sizes: releases.map((release) => sizeOf(squaredNorm(release))),
    windows: windowsOf(names),
    scale: scaleOf(pairs, by),
    pairs: { bytes: 8, base64: "" },
  };
  return { data, pairs, squares: all, among: shown.among, series: seriesIn(entries), joint: joint?.model ?? null, answer: answerOf(data, pairs, shown, found, ranked), below: entries.filter((_, place) => lost[place]).map(([name]) => name), releases };
}

/** Return by what to divide numbers of a size, and the word for that. */
function unitOf(size: number): readonly [number, string] {
  if (size === 0 || (size >= 0.01 && size < 1000)) return [1, ""];
  return SCALES.find(([least]) => size >= least) ?? SCALES[SCALES.length - 1];
}

/** Return the cosines of releases if they tell enough streams apart. */
function cosinesOf(releases: readonly Release[], given: number): Comparison | null {
  if (!releases.every(hasDirection)) return null;
  const n = releases.length;
  const isHistogram = releases[0].projection.kind === "identity"; // whose coarse noise is not in all pairs' numbers
  const { value, projectionVariance, noiseVariance } = isHistogram ? pairwise([], "cosine") : pairwise(releases, "cosine");
  const found = new Comparison(n, "cosine", given, (i, j) => {
    if (isHistogram) return cosine(releases[i], releases[j]);
    const at = i * n + j;
    return new Estimate({ value: value[at], projectionVariance: projectionVariance[at], noiseVariance: noiseVariance[at], lowest: -1, highest: 1 });
  });
  return found.toldApart().filter(Boolean).length >= ENOUGH * n ? found : null;
}

/** Whether a stream's squared norm is above the noise floor of so many streams; see Python's `below_noise_floor`. */
function standsOut(release: Release, among: number): boolean {
  const { value, variance } = emptyNorm(release);
  return value > floorErrors(release, among) * Math.sqrt(variance);
}

/** Return how many standard errors of an empty stream's squared norm make the noise floor of many streams. */
function floorErrors(release: Release, among: number): number {
  const { k2, k4, n } = viewOf(release);
  const spread = 2 * k2 * k2;
  const skewness = Math.sqrt(8 / n) * (spread > 0 ? (k4 + spread) / spread : 1);
  const z = upperQuantile((1 - normalBelow(LEAST_NORM)) / Math.max(among, 1));
  return z + ((z ** 2 - LEAST_NORM ** 2) * skewness) / 6;
}

/** Return squared distances: of streams scaled to length 1, where cosines are compared. */
function squaresOf(shown: Comparison): Squares {
  const factor = shown.by === "cosine" ? 4 : 1;
  const of = (number: (one: Estimate) => number): Float64Array =>
    Float64Array.from(shown.estimates, (one) => (one === null ? 0 : number(one)));
  return {
    value: of((one) => (shown.by === "cosine" ? 2 - 2 * one.value : one.value)),
    ofMap: of((one) => factor * one.projectionVariance),
    ofNoise: of((one) => factor * one.noiseVariance),
  };
}

function tableOf(shown: Comparison): PairTable {
  const { n } = shown;
  const count = (n * (n - 1)) / 2;
  const [value, error, low, high] = [0, 1, 2, 3].map(() => new Float64Array(count));
  let at = 0;
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++, at++) {
      const one = shown.at(i, j);
      const ends = shown.ends(i, j);
      [value[at], error[at], low[at], high[at]] = [one.value, one.standardError, ends.low, ends.high];
    }
  }
  return new PairTable(n, value, error, low, high);
}

/** Return how near and how far each pair may be, for all pairs at once. */
function reachOf(shown: Comparison): { near: Float64Array; far: Float64Array } {
  const { n } = shown;
  const [near, far] = [new Float64Array(n * n), new Float64Array(n * n)];
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++) {
      const { low, high } = shown.ends(i, j);
      const ends = shown.by === "cosine" ? [-high, -low] : [low, high];
      for (const at of [i * n + j, j * n + i]) [near[at], far[at]] = ends;
    }
  }
  return { near, far };
}

export function scaleOf(pairs: PairTable, by: string): PageData["scale"] {
  const sorted = Array.from(pairs.value).sort((a, b) => a - b);
  const largest = sorted[sorted.length - 1];
  if (by === "cosine") {
    const nearest = Math.min(1, largest);
    const along = 0.01 * (2 * sorted.length - 1); // of the values on both sides of the diagonal
    const [below, above] = [sorted[Math.floor(along) >> 1], sorted[Math.min(Math.ceil(along) >> 1, sorted.length - 1)]];
    const least = below + (above - below) * (along - Math.floor(along));
    return { nearest, farthest: Math.min(Math.max(-1, least), nearest - 0.1), logarithmic: false };
  }
  const low = Math.max(Array.from(pairs.error).reduce((least, one) => Math.min(least, one), Infinity), largest / 1e6, 1e-12);
  return { nearest: low, farthest: Math.max(largest, 10 * low), logarithmic: true };
}

function sizeOf(size: Estimate): [number, string] {
  const { low, high } = size.interval(0.95);
  const [value, error, ends] = cells({ value: size.value, error: size.standardError, low, high });
  return [size.value, `${value} ± ${error}, 95\u00a0% interval ${ends}`];
}

function inTimeOrder<T>(entries: [string, T][]): [string, T][] {
  const split = entries.map(([name]) => keyAndWindow(name));
  if (split.some((one) => one === null)) return entries;
  const keys = [...new Set(split.map((one) => one![0]))];
  const place = new Map(entries.map((entry, at) => [entry, [keys.indexOf(split[at]![0]), windowTime(split[at]![1])!]]));
  return entries.slice().sort((a, b) => place.get(a)![0] - place.get(b)![0] || place.get(a)![1] - place.get(b)![1]);
}

/** Return whether all streams are windows of one key, in the order of time. */
function isOneSeries(entries: readonly (readonly [string, Release])[]): boolean {
  return windowsOf(entries.map(([name]) => name))?.keys.length === 1;
}

function seriesIn(entries: readonly (readonly [string, Release])[]): Computed["series"] {
  const split = entries.map(([name]) => keyAndWindow(name));
  if (split.some((one) => one === null)) return null;
  const series = new Map<string, Map<string, Release>>();
  entries.forEach(([, release], at) => {
    const [key, window] = split[at]!;
    series.set(key, (series.get(key) ?? new Map<string, Release>()).set(window, release));
  });
  const found = [...series].filter(([, windows]) => windows.size > 1);
  return found.length > 0 ? new Map(found) : null;
}

/**
 * Test the windows of each key against the one before, and yield after each test how many were made.
 *
 * The level of false alarms is that of all keys together (Bonferroni), as the first sentence counts the alarms of all.
 */
export function* changesIn(series: NonNullable<Computed["series"]>): Generator<number, Changed, undefined> {
  let [left, made, untested, isTypical] = [MOST_TESTS, 0, 0, false];
  const keys: [string, readonly Change[]][] = [];
  for (const [key, windows] of series) {
    const tests = windows.size - 1;
    left -= tests;
    try {
      if (left < 0) throw new InvalidInputError("too many windows to be tested here");
      const steps = changesByStep(windows, { tolerance: windows.size >= LEAST_TYPICAL ? "typical" : 0, level: LEVEL / series.size });
      let step = steps.next();
      for (; !step.done; step = steps.next()) yield ++made;
      keys.push([key, step.value.rows]);
      isTypical ||= step.value.tolerance > 0;
    } catch (error) {
      if (!(error instanceof InvalidInputError)) throw error; // else of a noise whose law is not known
      untested += tests;
    }
  }
  return { keys, typical: isTypical, untested };
}

/** Return the answer that begins with the windows that changed. */
export function withChanges(compared: Answer, { keys }: Changed): Answer {
  if (keys.length === 0) return compared;
  const alarms = keys.flatMap(([key, rows]) => rows.filter((one) => one.alarm).map((one) => `${key} ${one.window}`.trim()));
  if (alarms.length === 0) return { ...compared, short: say(sentences.NO_CHANGE, { compared: compared.short }) };
  const single = alarms.length === 1;
  return {
    ...compared,
    short: single ? say(sentences.ONE_CHANGE, { window: alarms[0] }) : say(sentences.CHANGES, { count: alarms.length }),
    detail: `${single ? "" : `${say(sentences.CHANGES_IN, { windows: listed(alarms) })} `}${compared.short} ${compared.detail}`,
  };
}

function windowsOf(names: readonly string[]): PageData["windows"] {
  const split = names.map(keyAndWindow);
  if (split.some((one) => one === null)) return null;
  const keys = [...new Set(split.map((one) => one![0]))];
  const windows = [...new Set(split.map((one) => one![1]))].sort((a, b) => windowTime(a)! - windowTime(b)!);
  return { keys, names: windows, of: split.map((one) => [keys.indexOf(one![0]), windows.indexOf(one![1])]) };
}

function streams(count: number): string {
  return count === 1 ? sentences.ONE_STREAM : say(sentences.STREAMS, { count });
}

/** Return names as a list, of many the first ones. */
export function listed(names: readonly string[]): string {
  const shown = names.slice(0, NAMED).join(", ");
  return names.length > NAMED ? say(sentences.MORE_NAMES, { names: shown, count: names.length - NAMED }) : shown;
}

function answerOf(data: PageData, pairs: PairTable, shown: Comparison, found: Groups, ranked: boolean): Answer {
  const { names, quantity } = data;
  if (!ranked) {
    return { short: sentences.NOTHING_STANDS_OUT, detail: say(sentences.NOT_RANKED, { streams: `The ${streams(names.length)}` }), listed: [] };
  }
  if (names.length === 2) {
    const [value, error, ends] = cells(pairs.at(0, 1));
    const unclear = pairs.unclear(0, 1) ? sentences.SO_UNCLEAR : "";
    return {
      short: say(sentences.PAIR, { first: names[0], second: names[1], quantity, value, error }),
      detail: say(sentences.PAIR_INTERVAL, { interval: ends, unclear }),
      listed: [],
    };
  }
  if (found.groups.length > 0) {
    const [count, hidden] = [found.groups.length, found.hidden.length];
    const nearer = data.by === "distance" ? sentences.NEARER : sentences.MORE_ALIKE;
    return {
      short: count === 1 ? sentences.ONE_GROUP : say(sentences.GROUPS, { count }),
      detail: say(sentences.OF_GROUPS, { nearer }) +
        (hidden > 0 ? ` ${hidden === 1 ? sentences.NOISE_HIDES_ONE : say(sentences.NOISE_HIDES, { count: hidden })}` : ""),
      listed: found.groups.map((group) => [streams(group.length), listed(group.map((stream) => names[stream]))]),
    };
  }
  if (found.alike) {
    let [low, high] = [Infinity, -Infinity];
    for (let i = 0; i < shown.n; i++) {
      for (let j = i + 1; j < shown.n; j++) {
        const ends = shown.ends(i, j);
        [low, high] = [Math.min(low, ends.low), Math.max(high, ends.high)];
      }
    }
    const error = median(Array.from(pairs.error));
    return {
      short: sentences.NO_DIFFERENCE,
      detail: say(sentences.ALL_WITHIN, { title: data.by === "cosine" ? "cosine" : "squared distance", least: formatValue(low, error), most: formatValue(high, error) }),
      listed: [],
    };
  }
  return ofPairs(data, shown);
}

/** Return what is shown of pairs where no group stands out: the intervals of all pairs hold at once. */
function ofPairs({ names, quantity, by }: PageData, shown: Comparison): Answer {
  const { n } = shown;
  const every = (n * (n - 1)) / 2;
  const alike = by === "cosine";
  const found: { i: number; j: number; one: Numbers; shown: boolean; surest: number }[] = [];
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++) {
      const estimate = shown.at(i, j);
      const { low, high } = shown.ends(i, j);
      found.push({ i, j, one: { value: estimate.value, error: estimate.standardError, low, high }, shown: low > 0, surest: alike ? -low : estimate.value });
    }
  }
  const count = found.filter((one) => one.shown).length;
  const nearest = found.reduce((least, one) => (one.one.value < least.one.value ? one : least));
  const isNearest = !alike && every > 1 && nearest.shown && found.every((one) => one === nearest || nearest.one.high < one.one.low);
  const first = found.filter((one) => one.shown).sort((a, b) => a.surest - b.surest).slice(0, MOST_PAIRS);
  const listed = first.map(({ i, j, one }): [string, string] => {
    const [value, error, interval] = cells(one);
    return [`${names[i]} and ${names[j]}`, `${quantity} ${value} ± ${error}, in ${interval}`];
  });
  if (count === 0) return { short: alike ? sentences.NO_PAIR_IN_COMMON : sentences.NO_PAIR_DIFFERS, detail: sentences.NO_GROUP, listed };
  const number = (one: number): string => one.toLocaleString("en");
  const some = count === every ? say(sentences.ALL_PAIRS, { count: number(every) }) : say(sentences.SOME_PAIRS, { count: number(count), pairs: number(every) });
  const single = count === 1 && every > 1;
  const [pair] = listed[0];
  const each = say(sentences.EACH_PAIR, { title: alike ? "cosine" : "squared distance", where: "above 0" });
  return {
    short: alike
      ? say(single ? sentences.HAS_IN_COMMON : sentences.HAVE_IN_COMMON, { pairs: some, pair })
      : say(single ? sentences.DIFFERS : sentences.DIFFER, { pairs: some, nearest: isNearest ? say(sentences.NEAREST_ARE, { pair }) : "" }),
    detail: `${each} ${sentences.NO_GROUP}`,
    listed,
  };
}
