/** How often items occur, and what a dictionary misses. */
import { demand } from "./errors.ts";
import { clip, Estimate, missOf, quantile, type EstimateFields, type Interval, type LeastWidth, type Method } from "./estimate.ts";
import { checkComparable, dot, nameOf, squaredNormOfOthers, viewOf, type View } from "./estimators.ts";
import { commonStep, Ratio } from "./exact.ts";
import { hashItems, type Item } from "./hashing.ts";
import type { Limits } from "./limits.ts";
import { Matrix, type Column } from "./matrix.ts";
import { normalBelow } from "./normal.ts";
import { entriesOf, fewEntries } from "./projection.ts";
import type { Release } from "./release.ts";
import { reachOf } from "./sameness.ts";
import type { Projection } from "./types.ts";

export type Estimator = "auto" | "mean" | "median";

const MOST_SIZES = 4096, MOST_STEPS = 255;
const MOST_NOISES = 8; // in a mean; those of more are fine and nearly normal

/** How often an item occurs. */
export class FrequencyEstimate extends Estimate {
  /** By which estimator. */
  readonly chosen: "mean" | "median";
  readonly #law: MedianLaw | null;

  constructor(fields: EstimateFields, law: MedianLaw | null) {
    super(fields);
    this.chosen = law === null ? "mean" : "median";
    this.#law = law;
  }

  override intervalAmong(candidates: number, confidence = 0.95): Interval {
    return this.missing(missOf(confidence, candidates), "normal");
  }

  protected override missing(miss: number, method: Method): Interval {
    if (this.#law === null || method === "chebyshev") return super.missing(miss, method);
    const width = this.#law.reach(miss, this.standardError);
    return { low: this.value - width, high: this.value + width };
  }
}

/** A release, or the difference of two, as the frequencies of items are estimated from it. */
interface Source {
  readonly view: View;
  readonly cells: Float64Array;
  /** w, which takes a product of a column and cells to data units. */
  readonly step: number;
  readonly unit: number;
  readonly k2: number;
  readonly k4: number;
  readonly squares: number;
  /** How far the noise moves an item's mean, null where its law is not known. */
  readonly grain: LeastWidth | null;
}

const SOURCES = new WeakMap<Release, Source>();

function sourceOf(x: Release, y: Release | null): Source {
  if (y === null) {
    let found = SOURCES.get(x);
    if (found === undefined) {
      const view = viewOf(x);
      SOURCES.set(x, (found = { view, cells: view.cells, step: stepOf(view, x.multiplier.toNumber()), unit: view.unit, k2: view.k2, k4: view.k4, squares: view.squares, grain: grainOf(view, [x]) }));
    }
    return found;
  }
  const [first, second] = [viewOf(x), viewOf(y)];
  checkComparable(first, second);
  const isAlike = x.multiplier.equals(y.multiplier);
  const common = isAlike ? x.multiplier : commonStep(x.multiplier, y.multiplier); // laws of medians take integers
  const [a, b] = [x, y].map((one) => one.multiplier.over(common).toNumber());
  const cells = isAlike ? x.cells.minus(y.cells) : first.cells.map((cell, i) => a * cell - b * second.cells[i]);
  return { view: first, cells, step: stepOf(first, common.toNumber()), unit: first.unit / a ** 2, k2: first.k2 + second.k2, k4: first.k4 + second.k4, squares: dot(cells, cells), grain: grainOf(first, [x, y]) };
}

function grainOf(view: View, releases: readonly Release[]): LeastWidth | null {
  const { map, release: { projection, noise } } = view;
  const isExact = map.law.a === 0 && map.law.b === 0;
  const s = entriesOf(projection);
  if (s > MOST_NOISES || !(isExact || (noise.place === "" && fewEntries(projection) > 0))) return null;
  const resolution = projection.resolution.toNumber();
  const unit = noise.place === "" ? map.scale.toNumber() : Math.sqrt(map.scale.toNumber());
  return reachOf(releases, Array.from({ length: s }, () => new Ratio(1n)), resolution * unit, isExact);
}

function stepOf(view: View, multiplier: number): number {
  return multiplier * view.map.scale.times(view.release.projection.resolution).toNumber();
}

const KEPT = 16;
const MATRICES = new Map<string, Matrix>();

function matrixOf(projection: Readonly<Projection>, limits: Partial<Limits>): Matrix {
  const name = `${nameOf(projection)} ${limits.maxEntries ?? ""}`;
  let found = MATRICES.get(name);
  if (found === undefined) {
    if (MATRICES.size >= KEPT) MATRICES.clear();
    MATRICES.set(name, (found = new Matrix(projection, limits)));
  }
  return found;
}

/**
 * Estimate how often an item occurs, in data units; of two releases how much more often in `x`.
 *
 * @param item what `hashItems` takes, or an index
 */
export function frequency(x: Release, item: Item, options: { readonly less?: Release; readonly estimator?: Estimator; readonly limits?: Partial<Limits> } = {}): FrequencyEstimate {
  return frequencies(x, [item], options)[0];
}

/** Estimate how often each of several items occurs; see `frequency`. */
export function frequencies(x: Release, items: Iterable<Item>, options: { readonly less?: Release; readonly estimator?: Estimator; readonly limits?: Partial<Limits> } = {}): FrequencyEstimate[] {
  const { less = null, estimator = "auto", limits = {} } = options;
  const source = sourceOf(x, less);
  const matrix = matrixOf(x.projection, limits);
  const law = lawFor(source, estimator);
  return hashItems(x.projection, items).map((index) => estimateOf(source, matrix.column(index), law));
}

/** Return the law of the median by which to estimate, or null for the mean. */
function lawFor(source: Source, estimator: Estimator): MedianLaw | null {
  if (estimator === "mean") return null;
  const law = medianLaw(source);
  demand(law !== null || estimator !== "median", "the median is not defined for this projection, or for noise before the map");
  if (law === null || estimator === "median" || law.draws <= 2) return law;
  return law.variance <= (source.squares * source.unit) / source.cells.length ? law : null;
}

function estimateOf(source: Source, column: Column, law: MedianLaw | null): FrequencyEstimate {
  if (law === null) return meanOf(source, column);
  const { rows, entries } = column;
  const signed = Float64Array.from(rows, (row, i) => entries[i] * source.cells[row]).sort();
  const s = signed.length;
  const value = s * source.step * ((signed[(s - 1) >> 1] + signed[s >> 1]) / 2);
  const noise = Math.min(law.variance, source.k2 * s * normalMedianVariance(s));
  return new FrequencyEstimate({ value, projectionVariance: law.variance - noise, noiseVariance: noise }, law);
}

function meanOf(source: Source, { rows, entries }: Column): FrequencyEstimate {
  const { view, k2, k4 } = source;
  const { law, before } = view.map;
  let sum = 0;
  for (let i = 0; i < rows.length; i++) sum += entries[i] * source.cells[rows[i]];
  const value = source.step * sum;
  const q = Math.max(source.squares * source.unit - view.n * k2, 0);
  const growth = law.b + law.c;
  const variance = Math.max(law.a * q + growth * Math.min(value * value, q), 0);
  const noise = before === null ? k2 : Math.max(before.a * view.n * k2 + (before.b + before.c + 1) * k2, 0);
  const total = variance + noise;
  const kurtosis = before === null && total > 0 ? k4 / (entriesOf(view.release.projection) * total * total) : 0;
  return new FrequencyEstimate({ value, projectionVariance: variance, noiseVariance: noise, slope: 2 * growth * value, curvature: growth, kurtosis, grain: source.grain }, null);
}

// --- medians ---------------------------------------------------------------------------------------------------

function medianLaw(source: Source): MedianLaw | null {
  const { projection, noise } = source.view.release;
  const k = projection.sketchDim;
  const s = fewEntries(projection);
  if (s === 0 || noise.place !== "" || source.view.map.law.a * k < 0.9) return null;
  const sorted = source.cells.map(Math.abs).sort();
  let sizes: number[] = [], counts: number[] = [];
  for (const size of sorted) {
    if (sizes.length > 0 && sizes[sizes.length - 1] === size) counts[counts.length - 1]++;
    else {
      sizes.push(size);
      counts.push(1);
    }
  }
  if (sizes.length > MOST_SIZES) {
    const half = MOST_SIZES / 2;
    const rest = sizes.length - half;
    const ends = Array.from({ length: half }, (_, i) => Math.floor(((i + 1) * rest) / half));
    for (let place = rest + 1; place <= sizes.length; place++) ends.push(place);
    counts = ends.map((end, i) => counts.slice(i > 0 ? ends[i - 1] : 0, end).reduce((sum, one) => sum + one, 0));
    sizes = ends.map((end) => sizes[end - 1]);
  }
  return new MedianLaw(sizes, counts.map((count) => count / k), s, Math.abs(source.step) * s);
}

/** The law of the median of s cells with random signs. */
export class MedianLaw {
  readonly #sizes: readonly number[];
  readonly #shares: readonly number[];
  /** H at each size: the share of what is larger. */
  readonly #beyond: readonly number[];
  readonly #numbers: Float64Array;
  readonly #below: Float64Array;
  readonly draws: number;
  readonly unit: number;
  /** S, in data units squared. */
  readonly variance: number;

  constructor(sizes: readonly number[], shares: readonly number[], draws: number, unit: number) {
    this.#sizes = sizes;
    this.#shares = shares;
    this.draws = draws;
    this.unit = unit;
    const beyond = new Array<number>(sizes.length).fill(0);
    for (let i = sizes.length - 2; i >= 0; i--) beyond[i] = beyond[i + 1] + shares[i + 1];
    this.#beyond = beyond;
    const n = sizes.length;
    this.#numbers = Float64Array.from({ length: 2 * n }, (_, i) => (i < n ? -sizes[n - 1 - i] : sizes[i - n]));
    this.#below = new Float64Array(2 * n + 1);
    for (let i = 0; i < 2 * n; i++) this.#below[i + 1] = this.#below[i] + shares[i < n ? n - 1 - i : i - n] / 2;
    this.variance = this.#variance();
  }

  /** Return the first place of the sizes, or the numbers, that is above `value`, or at least as large. */
  static #place(items: ArrayLike<number>, value: number, isAbove: boolean): number {
    let [low, high] = [0, items.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle] < value || (isAbove && items[middle] === value)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Return F(y). */
  #share(y: number): number {
    return (this.#below[MedianLaw.#place(this.#numbers, y, false)] + this.#below[MedianLaw.#place(this.#numbers, y, true)]) / 2;
  }

  /** Return P(|median| > t), t in cells. */
  tail(t: number): number {
    const h = this.draws >> 1;
    if (this.draws % 2 === 1) {
      const place = MedianLaw.#place(this.#sizes, t, true);
      const p = place === 0 ? 1 : this.#beyond[place - 1];
      return 2 * atLeast(h + 1, this.draws, p / 2);
    }
    let total = 0;
    const last = MedianLaw.#place(this.#numbers, -t, false);
    for (let i = 0; i < last; i++) {
      const x = this.#numbers[i];
      const [own, other] = [this.#share(x), this.#share(-2 * t - x)];
      const weight = this.#below[i + 1] - this.#below[i];
      total += weight * own ** (h - 1) * ((1 - own) ** h - (1 - other) ** h);
    }
    return Math.min(2 * h * binomial(this.draws, h) * total, 1);
  }

  #variance(): number {
    const sizes = this.#sizes;
    let total = 0;
    if (this.draws <= 2) {
      for (let i = 0; i < sizes.length; i++) total += this.#shares[i] * sizes[i] ** 2;
      return (this.unit ** 2 * total) / this.draws;
    }
    let ends = [0, ...sizes];
    if (this.draws % 2 === 0 && sizes.length > MOST_STEPS) {
      ends = Array.from({ length: MOST_STEPS + 1 }, (_, i) => ends[Math.floor((i * sizes.length) / MOST_STEPS)]);
    }
    for (let i = 1; i < ends.length; i++) {
      const [a, b] = [ends[i - 1], ends[i]];
      if (b > a) total += this.tail((a + b) / 2) * (b - a) * (b + a);
    }
    return this.unit ** 2 * total;
  }

  /** Return v(1 - miss), in data units. */
  reach(miss: number, standardError: number): number {
    const [found, isKnown] = this.draws % 2 === 1 ? this.#odd(miss) : this.#even(miss);
    if (isKnown) return this.unit * found;
    const n = this.#sizes.length;
    const outside = this.#sizes[n - 1] + (n > 1 ? this.#sizes[n - 2] : 0);
    return Math.max(this.unit * outside, standardError * quantile(miss, "normal"));
  }

  #odd(miss: number): readonly [number, boolean] {
    let [low, high] = [0, 0.5];
    for (let i = 0; i < 60; i++) {
      const p = (low + high) / 2;
      if (2 * atLeast((this.draws >> 1) + 1, this.draws, p) > miss) high = p;
      else low = p;
    }
    let place = 0;
    let below = this.#shares[0];
    while (place + 1 < this.#sizes.length && below < 1 - 2 * low - 1e-12) below += this.#shares[++place];
    return [this.#sizes[place], 2 * low >= this.#shares[this.#shares.length - 1]];
  }

  #even(miss: number): readonly [number, boolean] {
    const n = this.#sizes.length;
    let [low, high] = [0, 2 * this.#sizes[n - 1]]; // T changes at halves of integers alone
    while (low < high) {
      const middle = Math.floor(low / 2 + high / 2);
      if (this.tail(middle / 2 + 0.125) > miss) low = middle + 1 > middle ? middle + 1 : high;
      else high = middle;
    }
    return [low / 2, n > 1 && this.tail(this.#sizes[n - 2]) <= miss];
  }
}

function binomial(n: number, k: number): number {
  let found = 1;
  for (let i = 1; i <= k; i++) found = (found * (n - k + i)) / i;
  return found;
}

/** Return P(Bin(draws, p) ≥ least). */
function atLeast(least: number, draws: number, p: number): number {
  if (p <= 0) return 0;
  let total = 0;
  const [log, other] = [Math.log(p), Math.log1p(-p)];
  let choose = 0; // ln C(draws, i)
  for (let i = 0; i <= draws; i++) {
    if (i > 0) choose += Math.log((draws - i + 1) / i);
    if (i >= least) total += Math.exp(choose + i * log + (draws - i) * other);
  }
  return total;
}

const MEDIAN_VARIANCES = new Map<number, number>();

/** Return ν_s, the variance of the median of s standard normal variables. */
function normalMedianVariance(draws: number): number {
  if (draws <= 2) return 1 / draws;
  let found = MEDIAN_VARIANCES.get(draws);
  if (found === undefined) MEDIAN_VARIANCES.set(draws, (found = integratedMedianVariance(draws)));
  return found;
}

function integratedMedianVariance(draws: number): number {
  if (draws > 64) return Math.PI / (2 * draws + Math.PI - 2); // to a part in 1,000
  const h = draws >> 1;
  const step = 1 / 16;
  const grid = Array.from({ length: 192 }, (_, i) => step * (i - 96 + 0.5));
  const below = grid.map(normalBelow);
  const density = grid.map((x) => (step * Math.exp((-x * x) / 2)) / Math.sqrt(2 * Math.PI));
  let total = 0;
  if (draws % 2 === 1) {
    grid.forEach((x, i) => (total += x * x * (below[i] * (1 - below[i])) ** h * density[i]));
    return draws * binomial(draws - 1, h) * total;
  }
  const lower = below.map((f, i) => f ** (h - 1) * density[i]);
  const upper = [...lower].reverse();
  grid.forEach((x, i) => {
    let inner = 0;
    for (let j = i + 1; j < grid.length; j++) inner += (x + grid[j]) ** 2 * upper[j];
    total += lower[i] * (inner + 2 * x * x * upper[i]); // half of the diagonal
  });
  return (draws * (draws - 1) * binomial(draws - 2, h - 1) * total) / 4;
}

// --- what a dictionary misses ----------------------------------------------------------------------------------

/** Estimate the squared norm of what items outside a dictionary add, in data units squared. */
export function missedBy(x: Release, dictionary: Iterable<Item>, limits: Partial<Limits> = {}): Estimate {
  const source = sourceOf(x, null);
  const { view, k2, k4 } = source;
  demand(view.map.before === null, "what a dictionary misses is estimated for noise on the cells");
  const indices = [...new Set(hashItems(x.projection, dictionary))];
  if (x.projection.kind === "identity") return squaredNormOfOthers(view, new Set(indices.map(Number)));
  const matrix = matrixOf(x.projection, limits);
  const { law } = view.map;
  const [m, k] = [indices.length, view.n];
  let squares = 0;
  for (const index of indices) squares += meanOf(source, matrix.column(index)).value ** 2;
  const norm = source.squares * source.unit - k * k2;
  const q = Math.max(norm, 0);
  const known = (squares - m * (law.a * norm + k2)) / (1 + law.b + law.c);
  const value = norm - known;
  const [inside, outside] = [clip(known, 0, q), clip(value, 0, q)];
  let noise = 4 * k2 * outside;
  let variance = 0;
  if (law.a === 0) {
    noise += Math.max(k - m, 1) * (k4 + 2 * k2 * k2);
  } else {
    let fourths = 0;
    for (const cell of source.cells) fourths += cell ** 4;
    const tails = source.squares > 0 ? (k * fourths) / source.squares ** 2 : 3;
    const s = entriesOf(x.projection);
    const factor = (m * (2 * (s - 1) + tails - 1)) / s;
    const length = law.a * q;
    variance = (law.a + law.b) * (inside ** 2 + outside ** 2) + factor * length ** 2;
    noise += k * (k4 + 2 * k2 * k2) + factor * k2 * (2 * length + k2);
  }
  noise += (2 ** -50 * q) ** 2; // a small difference of two large sums
  return new Estimate({ value, projectionVariance: variance, noiseVariance: noise, lowest: 0 });
}
