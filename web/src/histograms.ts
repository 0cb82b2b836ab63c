/** Sums over the entries of a histogram with Laplace noise, without the noise's bias: Hillebrand, Imola, Pagh and Sejer 2026. */
import { demand } from "./errors.ts";
import { Estimate } from "./estimate.ts";
import { total, viewOf } from "./estimators.ts";
import { termsOf, noiseOf } from "./sameness.ts";
import type { Release } from "./release.ts";
import * as sentences from "./sentences.ts";

const MOST_LAYERS = 4; // of Laplace noise, whose sum is nearly normal
const FEW = 30; // entries expected at 0
const LEAST_WIDTH = 2, SPIKE = 0.2, MOST_SPIKE = 16; // of noise, in steps
const LEAST_TOTAL = 2; // standard errors

export interface HistogramOptions {
  /** Whether it is public that no entry is negative, as for counts without returns: errors are then smaller. */
  readonly nonnegative?: boolean;
}

type Entry = (value: number) => number;

/** What makes f(v) of a noisy entry v an estimate of f(x): f(v) + Σ weight·(f(v + step) - f(v)). */
interface TakenOut {
  readonly steps: readonly number[];
  readonly weights: readonly number[];
  /** Up to which size noisy entries, if they are few, have variances that are found from the noise's law. */
  readonly spike: number;
  /** The probabilities of 0, 1, … steps of the noise. */
  readonly law: readonly number[];
}

interface Histogram {
  readonly cells: Float64Array;
  /** One grid step, in data units. */
  readonly unit: number;
}

function histogramOf(release: Release): Histogram {
  const { cells } = viewOf(release);
  demand(release.projection.kind === "identity", `sums over entries need a histogram, of the map identity, and this is ${release.projection.kind}`);
  const unit = release.multiplier.times(release.projection.resolution).toNumber();
  return { cells: unit > 0 ? cells : cells.map((cell) => -cell), unit: Math.abs(unit) };
}

/** Return the weights that take a release's noise out: Laplace noise has the inverse 1 - q(z - 2 + 1/z). */
function takenOut(release: Release, unit: number): TakenOut {
  const { resolution } = release.projection;
  const terms = termsOf([release]);
  let found = new Map([[0, 1]]);
  let variance = 0;
  demand(terms.length <= MOST_LAYERS && terms.every(({ noise }) => noise.kind === "laplace"), `there is no estimate without bias under this noise (${release.guarantee.mechanism}), only under at most ${MOST_LAYERS} Laplace noises`);
  for (const term of terms) {
    const step = term.multiplier.over(release.multiplier.magnitude()).toNumber();
    demand(Number.isInteger(step), "there is no estimate without bias under noise that is coarser than the entries");
    const next = new Map<number, number>();
    const q = term.variance / 2;
    for (const [at, weight] of found) {
      for (const [place, factor] of [[at - step, -q], [at, 1 + 2 * q], [at + step, -q]]) next.set(place, (next.get(place) ?? 0) + weight * factor);
    }
    found = next;
    variance += step ** 2 * term.variance;
  }
  const steps = [...found.keys()].filter((step) => step !== 0);
  const width = Math.sqrt(variance);
  const spike = width < LEAST_WIDTH ? -1 : Math.min(Math.ceil(width * SPIKE), MOST_SPIKE);
  return { steps, weights: steps.map((step) => found.get(step)!), spike, law: spike < 0 ? [1] : lawIn(release, resolution.toNumber(), unit) };
}

/** Return the probabilities of 0, 1, … grid steps; those of a coarser lattice have those of several steps. */
function lawIn(release: Release, grid: number, unit: number): number[] {
  const { step, weights } = noiseOf([release], grid);
  const half = (weights.length - 1) / 2;
  const ratio = unit / step;
  return Array.from({ length: Math.ceil(half / ratio) + 1 }, (_, place) => {
    const along = Math.min(place * ratio, half);
    const left = Math.min(Math.floor(along), Math.max(half - 1, 0));
    const [from, to] = [weights[half + left], weights[half + Math.min(left + 1, half)]];
    return (from + (to - from) * (along - left)) * ratio;
  });
}

/** Return Σ f(x) of functions of the entries, and the variances and covariances of these sums in the order 00, 01, 11. */
function sums(out: TakenOut, cells: Float64Array, functions: readonly Entry[]): { values: number[]; spreads: number[] } {
  const pairs = functions.length === 1 ? [[0, 0]] : [[0, 0], [0, 1], [1, 1]];
  const values = functions.map(() => 0);
  const [spreads, spiked] = [pairs.map(() => 0), pairs.map(() => 0)];
  const { steps, weights, spike, law } = out;
  const add = (entry: number, to: number[] | null, spread: number[], near: number[] | null): void => {
    const gaps = functions.map((one) => steps.map((step) => one(entry + step) - one(entry)));
    const shifts = gaps.map((own) => own.reduce((sum, gap, i) => sum + weights[i] * gap, 0));
    if (to !== null) functions.forEach((one, i) => (to[i] += one(entry) + shifts[i]));
    pairs.forEach(([i, j], pair) => {
      const found = shifts[i] * shifts[j] - gaps[i].reduce((sum, gap, at) => sum + weights[at] * gap * gaps[j][at], 0);
      spread[pair] += found;
      if (near !== null) near[pair] += found;
    });
  };
  let atZero = 0;
  let squares = 0;
  law.forEach((one, place) => (squares += one * one * (place === 0 ? 1 : 2)));
  for (const cell of cells) {
    add(cell, values, spreads, Math.abs(cell) <= spike ? spiked : null);
    atZero += law[Math.min(Math.abs(cell), law.length - 1)];
  }
  atZero *= law[0] / squares;
  if (spike >= 0 && atZero < FEW) {
    const each = pairs.map(() => 0);
    for (let place = -spike; place <= spike; place++) add(place, null, each, null);
    each.forEach((one, pair) => (spreads[pair] += atZero * one - spiked[pair]));
  }
  return { values, spreads };
}

/** Estimate Σ|x_j|, in data units, of a release of an `identity` map. */
export function l1Norm(release: Release, { nonnegative = false }: HistogramOptions = {}): Estimate {
  const { cells, unit } = histogramOf(release);
  if (nonnegative) {
    const sum = cells.reduce((found, cell) => found + cell, 0);
    return new Estimate({ value: sum * unit, projectionVariance: 0, noiseVariance: cells.length * viewOf(release).k2, lowest: 0 });
  }
  const { values, spreads } = sums(takenOut(release, unit), cells, [Math.abs]);
  return new Estimate({ value: values[0] * unit, projectionVariance: 0, noiseVariance: spreads[0] * unit ** 2, lowest: 0 });
}

/** Estimate how many entries are not 0: how many different items occur. */
export function distinct(release: Release, { nonnegative = false }: HistogramOptions = {}): Estimate {
  const { cells, unit } = histogramOf(release);
  const { values, spreads } = sums(takenOut(release, unit), cells, [(v) => ((nonnegative ? v > 0 : v !== 0) ? 1 : 0)]);
  return new Estimate({ value: values[0], projectionVariance: 0, noiseVariance: spreads[0], lowest: 0, highest: cells.length });
}

/** Estimate the entropy of the shares |x_j|/‖x‖₁, in nats. */
export function entropy(release: Release, { nonnegative = false }: HistogramOptions = {}): Estimate {
  const { cells, unit } = histogramOf(release);
  const log = (v: number): number => (v > 1 ? v * Math.log(v) : 0);
  const parts: Entry[] = nonnegative ? [(v) => v, log] : [Math.abs, (v) => log(Math.abs(v))];
  const { values: [all, sizes], spreads: [spread, mixed, sizeSpread] } = sums(takenOut(release, unit), cells, parts);
  const candidates: (readonly [number, number, number])[] = [[all, spread, mixed]];
  if (nonnegative && release.counting !== null && release.counting.slack > 0) {
    const published = total(release);
    candidates.push([published.value / unit, published.standardError ** 2 / unit ** 2, 0]);
  }
  const known = candidates.filter(([n, variance]) => n > LEAST_TOTAL * Math.sqrt(variance));
  demand(known.length > 0, sentences.NO_ENTROPY);
  const [value, variance] = known.map((one) => entropyOf(one, sizes, sizeSpread)).reduce((best, one) => (one[1] < best[1] ? one : best));
  return new Estimate({ value, projectionVariance: 0, noiseVariance: variance, lowest: 0, highest: Math.log(cells.length) });
}

/** Return ln N - S/N and its variance, without the bias of second order. */
function entropyOf([all, spread, mixed]: readonly [number, number, number], sizes: number, sizeSpread: number): readonly [number, number] {
  const value = Math.log(all) - sizes / all + spread / (2 * all ** 2) + (sizes * spread) / all ** 3 - mixed / all ** 2;
  const slope = (1 + sizes / all) / all;
  return [value, Math.max(slope ** 2 * spread - (2 * slope * mixed) / all + sizeSpread / all ** 2, 0)];
}
