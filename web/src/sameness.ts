/** Is ‖x - y‖ at most a tolerance? The p-value of WIRE.md, "Test of sameness". */
import { demand, InvalidInputError } from "./errors.ts";
import type { LeastWidth } from "./estimate.ts";
import { checkComparable, difference, viewOf, type View } from "./estimators.ts";
import { multiply, power, spectrumOf, valuesOf, type Spectrum } from "./fourier.ts";
import { commonStep, Ratio } from "./exact.ts";
import { singleNoise } from "./mechanisms.ts";
import { incompleteGamma } from "./normal.ts";
import { fewEntries } from "./projection.ts";
import type { Release } from "./release.ts";
import type { AddedNoise } from "./types.ts";
import { cumulantsOf } from "./words.ts";

const ITEMS = [1, 2, 3, 5, 8, 12];
const LEAST = 1e-15;
const FINE = 100, LESS_FINE = 40; // points of a grid in a standard deviation of a cell's square; of many cells
const COARSE = 60; // points of wide noise in a standard deviation
const NODES = 100; // of a normal variable
const DAMPED = 1e-12; // of what is a whole transform away
const MOST_FAR = 2 ** 14; // points of noise, for a bound
const MOST_KINDS = 8; // of noises, whose law is that of how far they reach
const MOST_VECTORS = 24, MOST_COARSE = 128; // longest differences within a tolerance, for the law of each; in few cells, with noise of few steps
const FEW_CELLS = 3, MOST_CELLS = 2 ** 20, COARSE_STEPS = 4; // in a standard deviation
const MOST_STEPS = 64; // of noise in whole steps: in its standard deviation, and in one of a part
const MOST_POINTS = 2 ** 20, MOST_DRAWS = 64, MOST_SUMS = 2 ** 29;

/** A law on the multiples of a step, in data units; `lattice` is the step in grid steps of the cells, where that is exact. */
export interface Noise {
  readonly step: number;
  readonly weights: Float64Array;
  readonly lattice: Ratio | null;
}

/** Noise as parts state it, and their largest multiplier in its steps. */
interface StatedNoise extends Noise {
  readonly largest: number;
}

/** Sizes that are added to a cell, and their probabilities. */
interface Signal {
  readonly sizes: readonly number[];
  readonly chances: readonly number[];
}

/**
 * Return the p-value that ‖x - y‖ is at most `tolerance`, in data units: 10^-15 where it is less.
 *
 * @throws InvalidInputError where the law of the noise is not known, or the sum is too far out to be computed
 */
export function sameness(x: Release, y: Release, tolerance = 0): number {
  demand(tolerance >= 0 && Number.isFinite(tolerance), "a tolerance is finite, and 0 or more");
  const [first, second] = [viewOf(x), viewOf(y)];
  checkComparable(first, second);
  const [gap, unit] = difference(first, second);
  const value = gap.reduce((sum, cell) => sum + cell * cell, 0) * unit;
  const { place } = x.noise;
  const resolution = x.projection.resolution.toNumber();
  const base = first.map.scale.times(x.projection.resolution).times(x.projection.resolution).toNumber();
  const grid = place === "" ? Math.sqrt(base) : place === "input" ? resolution : resolution / Math.sqrt(first.n);
  const noise = noiseOf([x, y], grid);
  if (value === 0) return 1; // T' is a square
  if (place !== "") {
    const before = first.map.before as { a: number; b: number; c: number };
    const freedom = 2 / (before.a + before.b + Math.max(before.c, 0));
    const without = tolerance > 0 ? stretched(noise, first.n, 0, freedom, value) : 0;
    return Math.max(stretched(noise, first.n, tolerance, freedom, value), without, LEAST);
  }
  return Math.max(leastFavourable(noise, first, tolerance, value), LEAST);
}

function leastFavourable(noise: StatedNoise, view: View, tolerance: number, value: number): number {
  const { projection } = view.release;
  const k = projection.sketchDim;
  const nothing = () => (isFarOut(noise, [fixed(0)], [k], value, null) ? 0 : tailOfSteps(noise, [], k, value, MOST_SUMS));
  if (tolerance === 0) return nothing();
  const { a, b, c } = view.map.law;
  if (a + b === 0) {
    const longest = longestWithin(noise, k, tolerance);
    if (longest !== null) return Math.max(...longest.map((vector) => tailOfSteps(noise, vector, k, value, MOST_SUMS / longest.length)));
    const few = ITEMS.filter((items) => items < k);
    const entries = few.map((items) => tail(noise, [fixed(0), fixed(tolerance / Math.sqrt(items))], [k - items, items], value));
    return Math.max(nothing(), tail(noise, [fixed(tolerance / Math.sqrt(k))], [k], value), ...entries);
  }
  const excess = Math.max(k * (a + b) - 2, 0) / 3;
  const found = [nothing(), tail(noise, [normal(tolerance / Math.sqrt(k), excess)], [k], value)];
  const s = fewEntries(projection);
  const kurtosis = 3 + k * c;
  for (const items of ITEMS) {
    if (s > 0 && 2 * items * s <= k) {
      const signals = Array.from({ length: items + 1 }, (_, hits) => walk(hits, tolerance / Math.sqrt(items * s)));
      found.push(tail(noise, signals, [k], value, { items, blocks: s, cells: Math.floor(k / s) }));
    } else if (c > 0) {
      found.push(tail(noise, [scattered(items, tolerance * Math.sqrt(kurtosis / (k * items)), 1 / kurtosis)], [k], value));
    }
  }
  return Math.max(...found);
}

// --- noise -----------------------------------------------------------------------------------------------------

/** One draw of noise in each cell. */
export interface Term {
  readonly multiplier: Ratio;
  readonly noise: AddedNoise;
  readonly variance: number;
}

/** Return the noises in each cell of all releases together. */
export function termsOf(releases: readonly Release[]): Term[] {
  const terms: Term[] = [];
  for (const release of releases) {
    const parts = release.parts.length > 0 ? release.parts : [{ noise: release.noise, guarantee: release.guarantee, multiplier: release.multiplier, count: 1 }];
    for (const part of parts) {
      const noise = singleNoise(part.guarantee.steps);
      if (noise === null || (noise.schedule !== undefined && part.noise.k2 !== cumulantsOf(noise).k2)) throw new InvalidInputError("the law of the noise is not known: its mechanism is no single noise");
      const each = cumulantsOf({ kind: noise.kind, amount: noise.amount, layers: 0, place: "" }).k2;
      const draws = (cumulantsOf(noise).k2 / each) * part.count;
      const isKnown = Math.abs(draws - Math.round(draws)) < 1e-9 && Math.abs(cumulantsOf(noise).k2 - part.noise.k2) <= 1e-6 * part.noise.k2;
      demand(isKnown, "the law of the noise is not known: it is not that of its mechanism");
      demand(terms.length + draws <= MOST_DRAWS, `more than ${MOST_DRAWS} draws of noise in a cell`);
      for (let i = 0; i < Math.round(draws); i++) terms.push({ multiplier: part.multiplier.magnitude(), noise, variance: each });
    }
  }
  return terms;
}

/** Return how far noises reach, each times some factors and a grid; null where their law is not known. */
export function reachOf(releases: readonly Release[], factors: readonly Ratio[], grid: number, alone: boolean): LeastWidth | null {
  let noise: Noise;
  try {
    const terms = termsOf(releases).flatMap((term) => factors.map((factor) => ({ ...term, multiplier: term.multiplier.times(factor.magnitude()) })));
    const kinds = new Set(terms.map(({ noise: one, multiplier }) => `${one.kind} ${one.amount} ${multiplier}`));
    if (terms.length === 0 || terms.length > MOST_DRAWS || kinds.size > MOST_KINDS) return null;
    noise = lawOfTerms(terms, grid);
  } catch (error) {
    if (error instanceof InvalidInputError) return null;
    throw error;
  }
  return new NoiseReach(noise, alone);
}

class NoiseReach implements LeastWidth {
  readonly alone: boolean;
  readonly #noise: Noise;

  constructor(noise: Noise, alone: boolean) {
    this.#noise = noise;
    this.alone = alone;
  }

  /** Return the least whole number of steps that the noise is beyond with this probability at most; at least half a step. */
  leastWidth(miss: number): number {
    const { weights, step } = this.#noise;
    let place = (weights.length - 1) / 2;
    for (let beyond = 0, i = 0; place > 0; place--, i++) {
      beyond += 2 * weights[i];
      if (beyond > miss * (1 + 1e-9)) break;
    }
    return Math.max(place, 0.5) * step * (1 + 2 ** -40);
  }

  scaled(factor: number): LeastWidth {
    return new NoiseReach({ ...this.#noise, step: this.#noise.step * factor }, this.alone);
  }
}

/** Return the law of all noises in a cell of the difference. */
export function noiseOf(releases: readonly Release[], grid: number): StatedNoise {
  return lawOfTerms(termsOf(releases), grid);
}

function lawOfTerms(terms: readonly Term[], grid: number): StatedNoise {
  const common = terms.map((term) => term.multiplier).reduce((p, q) => commonStep(p, q));
  const factors = terms.map((term) => term.multiplier.over(common).toNumber());
  const deviation = Math.sqrt(terms.reduce((sum, term, i) => sum + factors[i] ** 2 * term.variance, 0));
  const jump = deviation > 4 * COARSE ? Math.max(1, Math.floor(deviation / COARSE)) : 1;
  let total: Float64Array = Float64Array.of(1);
  terms.forEach((term, i) => (total = convolved(total, lawOf(term.noise, factors[i], jump))));
  return { step: common.toNumber() * grid * jump, weights: trimmed(total), lattice: jump === 1 ? common : null, largest: Math.max(...factors) };
}

/** Return the law of a factor times a noise, on a lattice of `jump` steps. */
function lawOf(noise: AddedNoise, factor: number, jump: number): Float64Array {
  const amount = noise.amount.toNumber();
  const isLaplace = noise.kind === "laplace";
  const reach = Math.ceil((isLaplace ? 40 : 9.5 / Math.sqrt(amount)) * amount) + 3;
  const weight = (n: number) => Math.exp(isLaplace ? -n / amount : (-n * n) / (2 * amount));
  let law: Float64Array;
  if (jump === 1) {
    demand(reach * factor <= MOST_POINTS, "noise that is too wide beside another");
    law = new Float64Array(2 * reach * factor + 1);
    for (let n = -reach; n <= reach; n++) law[(n + reach) * factor] = weight(Math.abs(n));
  } else {
    const half = Math.ceil((reach * factor) / jump);
    demand(half <= MOST_POINTS, "noise that is too wide beside another");
    law = Float64Array.from({ length: 2 * half + 1 }, (_, i) => weight((Math.abs(i - half) * jump) / factor));
  }
  const sum = law.reduce((found, one) => found + one, 0);
  return law.map((one) => one / sum);
}

function convolved(x: Float64Array, y: Float64Array): Float64Array {
  const size = x.length + y.length - 1;
  demand(size <= 4 * MOST_POINTS, "noise that is too wide beside another");
  if (Math.min(x.length, y.length) === 1) return x.length === 1 ? y.map((one) => one * x[0]) : x.map((one) => one * y[0]);
  const out = new Float64Array(size);
  if (x.length * y.length > 2 ** 26) {
    const n = 2 ** Math.ceil(Math.log2(size));
    return valuesOf(multiply(spectrumOf(x, n), spectrumOf(y, n)), n).slice(0, size).map((one) => Math.max(one, 0));
  }
  for (let i = 0; i < x.length; i++) if (x[i] > 0) for (let j = 0; j < y.length; j++) out[i + j] += x[i] * y[j];
  return out;
}

function trimmed(law: Float64Array): Float64Array {
  const half = (law.length - 1) / 2;
  let [beyond, sum] = [0, law[0]];
  while (beyond < half && sum < 1e-19) sum += law[++beyond];
  return law.slice(beyond, law.length - beyond);
}

// --- differences of whole steps --------------------------------------------------------------------------------

/**
 * Return the vectors of whole steps within a tolerance of which no entry can be longer, without zeros; null if that is not defined.
 * Where there are too many of them, and noise is a few steps wide or does not fall, return in few cells those of more steps each, which are longer than all;
 * in more cells those whose entries are alike.
 */
function longestWithin(noise: StatedNoise, k: number, tolerance: number): number[][] | null {
  const { weights, step, lattice, largest } = noise;
  const half = (weights.length - 1) / 2;
  const variance = weights.reduce((sum, weight, i) => sum + weight * (i - half) ** 2, 0);
  if (lattice === null || largest > MOST_STEPS || variance > MOST_STEPS ** 2) return null;
  const length = tolerance / step;
  const squares = Math.floor((1 + 1e-9) * length ** 2);
  const isCoarse = variance <= COARSE_STEPS ** 2 || !falls(weights);
  if (k > FEW_CELLS || !isCoarse) {
    const longest = longestVectors(squares, k, MOST_VECTORS);
    return longest ?? (isCoarse ? [...ITEMS.filter((items) => items < k), k].map((items) => vectorOfAlike(squares, items, k)) : null);
  }
  let vectors = longestVectors(squares, k, MOST_COARSE);
  let apart = 1;
  while (vectors === null) {
    apart *= 2;
    vectors = longestVectors(Math.floor((1 + 1e-9) * (length / apart + Math.sqrt(k)) ** 2), k, MOST_COARSE);
  }
  return vectors.map((vector) => vector.map((entry) => apart * entry));
}

/** Return descending vectors with Σv² ≤ squares of which no entry can be longer, without zeros; null if there are more than `limit`. */
function longestVectors(squares: number, k: number, limit: number): number[][] | null {
  const vectors: number[][] = [];
  const isAll = (chosen: readonly number[], left: number): boolean => {
    const most = Math.min(wholeRoot(left), chosen.at(-1) ?? Infinity);
    if (chosen.length === k || most === 0) {
      const least = chosen.length === k ? chosen[k - 1] : 0;
      if (left < 2 * least + 1) vectors.push([...chosen]);
      return vectors.length <= limit;
    }
    for (let entry = most; entry > 0; entry--) {
      if ((k - chosen.length) * entry ** 2 + 2 * entry + 1 <= left) break; // a smaller entry leaves room for a longer one
      if (!isAll([...chosen, entry], left - entry ** 2)) return false;
    }
    return true;
  };
  return isAll([], squares) ? vectors : null;
}

/** Return a vector with Σv² ≤ squares of so many entries that are alike, or one longer; the others as long as is left. */
function vectorOfAlike(squares: number, items: number, k: number): number[] {
  const entry = wholeRoot(Math.floor(squares / items));
  const longer = Math.min(Math.floor((squares - items * entry ** 2) / (2 * entry + 1)), items);
  const vector = Array.from({ length: items }, (_, i) => (i < longer ? entry + 1 : entry));
  let left = squares - vector.reduce((sum, each) => sum + each ** 2, 0);
  while (vector.length < k && left > 0) {
    const next = Math.min(wholeRoot(left), vector[vector.length - 1]);
    if (next === 0) break;
    vector.push(next);
    left -= next ** 2;
  }
  return vector.filter((each) => each > 0);
}

function wholeRoot(square: number): number {
  let root = Math.floor(Math.sqrt(square));
  while (root ** 2 > square) root--;
  while ((root + 1) ** 2 <= square) root++;
  return root;
}

/** Return P(Σe_i² ≥ value) for e_i of the laws of so many steps in the first cells and of 0 in the others: exactly where that is quick. */
function tailOfSteps(noise: Noise, vector: readonly number[], k: number, value: number, most: number): number {
  const steps = Math.round(value / noise.step ** 2);
  if (noise.lattice !== null && Math.abs(value / noise.step ** 2 - steps) < 1e-6 * Math.max(steps, 1)) {
    const laws = lawsOfSizes(noise.weights, [0, ...vector]);
    const cells = (k <= MOST_CELLS ? [...vector, ...Array.from({ length: k - vector.length }, () => 0)] : []).map((entry) => laws.get(entry) as SizeLaw);
    if (cells.length > 0 && k <= FEW_CELLS) return tailOfFew(cells, steps);
    let [spread, cost] = [0, 0];
    for (const { chances, first } of cells) {
      spread = Math.min(spread + (chances.length - 1) ** 2 - first ** 2 + 1, steps);
      cost += spread * (chances.length - first);
    }
    if (cells.length > 0 && steps < MOST_POINTS && cost < most) return tailOnLattice(cells, steps);
  }
  demand(vector.length === 0 || falls(noise.weights), "noise in several steps, in cells that are too many or differ too much for the p-value to be computed");
  const sizes = [...new Set([0, ...vector])];
  const counts = sizes.map((size) => (size > 0 ? vector.filter((each) => each === size).length : k - vector.length));
  const kept = sizes.map((size, i) => [fixed(size * noise.step), counts[i]] as const).filter(([, count]) => count > 0);
  return tail(noise, kept.map(([signal]) => signal), kept.map(([, count]) => count), value);
}

/** A law of 0, 1, … steps; the first that is likely. */
interface SizeLaw {
  readonly chances: Float64Array;
  readonly first: number;
}

/** Whether a symmetric law falls on both sides. */
function falls(weights: Float64Array): boolean {
  for (let i = (weights.length - 1) / 2; i + 1 < weights.length; i++) if (weights[i + 1] > weights[i] * (1 + 1e-9)) return false;
  return true;
}

/**
 * Return for each entry v a law of sizes: P(e ≥ r) is the largest P(|n + z| ≥ r) over whole z with |z| ≤ v, for each r.
 * That is the law of |n + v| where the law of n falls on both sides.
 */
function lawsOfSizes(weights: Float64Array, entries: readonly number[]): Map<number, SizeLaw> {
  const half = (weights.length - 1) / 2;
  const laws = new Map<number, SizeLaw>();
  const add = (entry: number, chances: Float64Array) => laws.set(entry, { chances, first: Math.max(chances.findIndex((chance) => chance > 0), 0) });
  const distinct = [...new Set(entries)].sort((p, q) => p - q);
  if (falls(weights)) {
    for (const entry of distinct) {
      const chances = new Float64Array(half + entry + 1);
      weights.forEach((weight, i) => (chances[Math.abs(i - half + entry)] += weight));
      add(entry, chances);
    }
    return laws;
  }
  const upper = upperSums(weights); // P(n ≥ -half), …, P(n ≥ half), 0
  const above = (n: number) => upper[Math.min(Math.max(n + half, 0), weights.length)];
  const largest = new Float64Array(half + 1); // P(e ≥ r) for r ≤ half; farther out, the larger z the more
  let z = 0;
  for (const entry of distinct) {
    for (; z <= Math.min(entry, 2 * half); z++) for (let r = 1; r <= half; r++) largest[r] = Math.max(largest[r], Math.min(above(r - z) + above(r + z), 1));
    const tailAt = (r: number) => (r === 0 ? 1 : r <= half ? largest[r] : above(r - entry) + above(r + entry));
    add(entry, Float64Array.from({ length: half + entry + 1 }, (_, r) => tailAt(r) - tailAt(r + 1)));
  }
  return laws;
}

/** Return the sums of all weights from each on, and 0. */
function upperSums(weights: Float64Array): Float64Array {
  const upper = new Float64Array(weights.length + 1);
  for (let i = weights.length - 1; i >= 0; i--) upper[i] = upper[i + 1] + weights[i];
  return upper;
}

/** Return P(Σe_i² ≥ steps) over a few cells: a sum over all sizes in all cells but the last one. */
function tailOfFew(cells: readonly SizeLaw[], steps: number): number {
  const last = cells.length - 1;
  const upper = upperSums(cells[last].chances);
  const beyond = (cell: number, left: number): number => {
    if (left <= 0) return 1;
    if (cell === last) {
      const root = wholeRoot(left);
      return upper[Math.min(root ** 2 < left ? root + 1 : root, upper.length - 1)];
    }
    const { chances, first } = cells[cell];
    let sum = 0;
    for (let size = first; size < chances.length; size++) if (chances[size] > 0) sum += chances[size] * beyond(cell + 1, left - size ** 2);
    return sum;
  };
  return Math.min(beyond(0, steps), 1);
}

// --- signals ---------------------------------------------------------------------------------------------------

function fixed(size: number): Signal {
  return { sizes: [size], chances: [1] };
}

/** Return a normal variable; with an excess, of one of two variances. */
function normal(deviation: number, excess: number): Signal {
  const nodes = Array.from({ length: NODES }, (_, i) => (8 * (i + 0.5)) / NODES);
  const weights = nodes.map((node) => Math.exp((-node * node) / 2));
  const sum = weights.reduce((found, weight) => found + weight, 0);
  const chances = weights.map((weight) => weight / sum);
  if (excess < 1e-9) return { sizes: nodes.map((node) => deviation * node), chances };
  const root = Math.sqrt(excess);
  const mixed = excess < 1 ? [[1 - root, 0.5], [1 + root, 0.5]] : [[0, excess / (1 + excess)], [1 + excess, 1 / (1 + excess)]];
  return {
    sizes: mixed.flatMap(([factor]) => nodes.map((node) => deviation * Math.sqrt(factor) * node)),
    chances: mixed.flatMap(([, chance]) => chances.map((each) => chance * each)),
  };
}

function choose(n: number, k: number): number {
  let found = 1;
  for (let i = 1; i <= k; i++) found = (found * (n - k + i)) / i;
  return found;
}

/** Return the sum of so many random signs, times a size. */
function walk(hits: number, size: number): Signal {
  const ups = Array.from({ length: hits + 1 }, (_, up) => up);
  return { sizes: ups.map((up) => size * (2 * up - hits)), chances: ups.map((up) => choose(hits, up) / 2 ** hits) };
}

/** Return the sum of items that are in a cell with this chance each. */
function scattered(items: number, size: number, chance: number): Signal {
  const walks = Array.from({ length: items + 1 }, (_, hits) => walk(hits, size));
  const hit = walks.map((_, hits) => choose(items, hits) * chance ** hits * (1 - chance) ** (items - hits));
  return { sizes: walks.flatMap((each) => each.sizes), chances: walks.flatMap((each, hits) => each.chances.map((p) => p * hit[hits])) };
}

// --- sums of squares -------------------------------------------------------------------------------------------

/** Return P(Σe_i² ≥ steps), by adding up positive numbers alone: valid far out. */
function tailOnLattice(cells: readonly SizeLaw[], steps: number): number {
  if (steps === 0) return 1;
  let law = new Float64Array(steps);
  law[0] = 1;
  let [least, filled, beyond] = [0, 1, 0]; // sums that are likely are from the least up to those filled
  for (const { chances, first } of cells) {
    const upper = upperSums(chances);
    const next = new Float64Array(steps);
    let last = 0;
    for (let sum = least; sum < filled; sum++) {
      const chance = law[sum];
      if (chance < 1e-300) continue;
      let n = first;
      for (; n < chances.length && sum + n * n < steps; n++) next[sum + n * n] += chance * chances[n];
      if (n < chances.length) beyond += chance * upper[n];
      if (n > first) last = Math.max(last, sum + (n - 1) ** 2 + 1);
    }
    [law, least, filled] = [next, least + first ** 2, Math.min(last, steps)];
  }
  return beyond;
}

/** Return the law of (η + s)², on a grid; what is beyond it is left out. */
function squares(noise: Noise, signal: Signal, step: number, size: number): Float64Array {
  demand(noise.weights.length * signal.sizes.length <= MOST_SUMS, "noise that is too wide beside another");
  const out = new Float64Array(size);
  const half = (noise.weights.length - 1) / 2;
  for (let i = 0; i < noise.weights.length; i++) {
    const eta = noise.step * (i - half);
    for (let j = 0; j < signal.sizes.length; j++) {
      const point = (eta + signal.sizes[j]) ** 2 / step;
      if (point >= size - 1) continue;
      const below = Math.floor(point);
      const weight = noise.weights[i] * signal.chances[j];
      out[below] += weight * (1 - (point - below));
      out[below + 1] += weight * (point - below);
    }
  }
  return out;
}

function momentsOf(noise: Noise, signal: Signal): { mean: number; deviation: number } {
  const half = (noise.weights.length - 1) / 2;
  let [mean, second] = [0, 0];
  for (let i = 0; i < noise.weights.length; i++) {
    for (let j = 0; j < signal.sizes.length; j++) {
      const square = (noise.step * (i - half) + signal.sizes[j]) ** 2;
      const weight = noise.weights[i] * signal.chances[j];
      mean += weight * square;
      second += weight * square * square;
    }
  }
  return { mean, deviation: Math.sqrt(Math.max(second - mean * mean, 0)) };
}

interface Hits {
  readonly items: number;
  readonly blocks: number;
  readonly cells: number;
}

/** Return the law of T' on a grid, up to its size. */
function lawBelow(noise: Noise, signals: readonly Signal[], counts: readonly number[], step: number, size: number, hits: Hits | null): Float64Array {
  demand(size * signals.length <= MOST_POINTS, "the two have too many cells, or differ too much, for the p-value to be computed");
  const whole = 2 ** Math.ceil(Math.log2(4 * size));
  const damping = Math.log(DAMPED) / whole;
  const transforms = signals.map((signal) => spectrumOf(squares(noise, signal, step, size).map((weight, i) => weight * Math.exp(damping * i)), whole));
  let found: Spectrum;
  if (hits === null) {
    found = transforms.map((transform, i) => power(transform, counts[i])).reduce(multiply);
  } else {
    const { items, blocks, cells } = hits;
    found = multiply(power(block(transforms, items, cells), blocks), power(transforms[0], counts[0] - blocks * cells));
  }
  return valuesOf(found, whole).slice(0, size).map((weight, i) => weight / Math.exp(damping * i));
}

/** Return the mean of the product over the cells of a block, among which items fall at random. */
function block(transforms: readonly Spectrum[], items: number, cells: number): Spectrum {
  const size = transforms[0].re.length;
  const nothing = (): Spectrum => ({ re: new Float64Array(size), im: new Float64Array(size) });
  const factorials = [1];
  for (let i = 1; i <= items; i++) factorials.push(factorials[i - 1] * i);
  let series: Spectrum[] = transforms.map((transform, hits) => ({ re: transform.re.map((each) => each / factorials[hits]), im: transform.im.map((each) => each / factorials[hits]) }));
  while (series.length <= items) series.push(nothing());
  let found: Spectrum[] = [{ re: new Float64Array(size).fill(1), im: new Float64Array(size) }, ...Array.from({ length: items }, nothing)];
  const times = (a: readonly Spectrum[], b: readonly Spectrum[]) => a.map((_, n) => {
    const sum = nothing();
    for (let i = 0; i <= n; i++) {
      for (let at = 0; at < size; at++) {
        sum.re[at] += a[i].re[at] * b[n - i].re[at] - a[i].im[at] * b[n - i].im[at];
        sum.im[at] += a[i].re[at] * b[n - i].im[at] + a[i].im[at] * b[n - i].re[at];
      }
    }
    return sum;
  });
  for (let left = cells; left > 0; left = Math.floor(left / 2)) {
    if (left % 2 === 1) found = times(found, series);
    if (left > 1) series = times(series, series);
  }
  const scale = factorials[items] / cells ** items;
  return { re: found[items].re.map((each) => each * scale), im: found[items].im.map((each) => each * scale) };
}

/** Return P(T' ≥ value). */
function tail(noise: Noise, signals: readonly Signal[], counts: readonly number[], value: number, hits: Hits | null = null): number {
  if (hits === null && counts.reduce((sum, count) => sum + count, 0) === 1) return tailOfOne(noise, signals[counts.indexOf(1)], Math.sqrt(value));
  if (isFarOut(noise, signals, counts, value, hits)) return 0;
  const deviations = signals.map((signal) => momentsOf(noise, signal).deviation);
  const widest = Math.max(deviations[0], Math.max(...deviations) / 10);
  const isMany = (value / widest) * FINE * signals.length > MOST_POINTS;
  const step = widest / (isMany ? LESS_FINE : FINE);
  if (step === 0) return value <= signals.reduce((sum, signal, i) => sum + (counts[i] ?? 0) * signal.sizes[0] ** 2, 0) * (1 + 1e-12) ? 1 : 0;
  const size = Math.ceil(value / step) + 2;
  const law = lawBelow(noise, signals, counts, step, size, hits);
  const place = Math.min(value / step + 0.5, (2 * value) / step); // from the lower half-step of each point; no square is less than 0
  let below = 0;
  for (let i = 0; i < size; i++) below += law[i] * Math.min(Math.max(place - i, 0), 1);
  return 1 - below;
}

/** Return P(|η + s| ≥ size) of one cell: a grid of squares is too coarse near 0. A point of wide noise stands for half a step on both sides. */
function tailOfOne({ step, weights, lattice }: Noise, { sizes, chances }: Signal, size: number): number {
  demand(weights.length * sizes.length <= MOST_SUMS, "noise that is too wide beside another");
  const half = (weights.length - 1) / 2;
  const share = (end: number) => (lattice === null ? Math.min(Math.max((end - size) / step + 0.5, 0), 1) : end >= size * (1 - 1e-9) ? 1 : 0);
  const tailAt = (eta: number) => sizes.reduce((sum, signal, j) => sum + chances[j] * Math.min(share(eta + signal) + share(-eta - signal), 1), 0);
  return Math.min(weights.reduce((sum, weight, i) => sum + weight * tailAt(step * (i - half)), 0), 1);
}

/** Whether the tail is below 10^-15 for certain, by Chernoff's bound on the law without what was trimmed of the noise. */
function isFarOut(noise: Noise, signals: readonly Signal[], counts: readonly number[], value: number, hits: Hits | null): boolean {
  const cells = counts.reduce((sum, count) => sum + count, 0);
  if (!(value > 0) || noise.weights.length > MOST_FAR || cells * 2e-19 > LEAST / 8) return false;
  const half = (noise.weights.length - 1) / 2;
  const most = hits === null ? 0 : Math.min(hits.items * hits.blocks, cells); // cells with hits
  for (let bend = 32 / value; bend < 2 ** 18 / value; bend *= 2) {
    const logs = signals.map((signal) => {
      let sum = 0;
      for (let i = 0; i < noise.weights.length; i++) {
        for (let j = 0; j < signal.sizes.length; j++) sum += noise.weights[i] * signal.chances[j] * Math.exp(bend * (noise.step * (i - half) + signal.sizes[j]) ** 2);
      }
      return Math.log(sum);
    });
    const all = hits === null ? logs.reduce((sum, log, i) => sum + counts[i] * log, 0) : (cells - most) * logs[0] + most * Math.max(...logs);
    if (!(all < Infinity)) return false;
    if (all - bend * value < Math.log(LEAST / 8)) return true;
  }
  return false;
}

/** Return P(L·G ≥ value), L = Σ(η_j + t/√n)² and G of a Gamma law of mean 1. */
function stretched(noise: Noise, n: number, tolerance: number, freedom: number, value: number): number {
  const signal = fixed(tolerance / Math.sqrt(n));
  const { mean, deviation } = momentsOf(noise, signal);
  const beyond = (length: number) => incompleteGamma(freedom / 2, ((freedom / 2) * value) / length)[1];
  if (n > 65536) {
    // L has the Gamma law of its mean and variance
    const shape = (n * mean) ** 2 / (n * deviation ** 2);
    let total = 0;
    for (let i = 0; i < 400; i++) {
      const length = n * mean * (1 + ((i + 0.5) / 200 - 1) * 8 / Math.sqrt(shape));
      if (length <= 0) continue;
      const width = (n * mean * 8) / (200 * Math.sqrt(shape));
      const place = shape * (length / (n * mean));
      const density = Math.exp((shape - 1) * Math.log(place / shape) - (place - shape)) * Math.sqrt(shape / (2 * Math.PI)) / (n * mean);
      total += density * width * beyond(length);
    }
    return total;
  }
  if (deviation === 0) return beyond(n * mean);
  const step = deviation / FINE;
  const size = Math.ceil((n * mean + 40 * Math.sqrt(n) * deviation) / step);
  const law = lawBelow(noise, [signal], [n], step, size, null);
  let total = 0;
  law.forEach((chance, i) => {
    if (i > 0 && chance > 1e-14) total += chance * beyond(step * i);
  });
  return total;
}
