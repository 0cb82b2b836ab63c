/** A model of all cells of n streams at once: WIRE.md, "All pairs together". */
import { axesOf, composed } from "./eigen.ts";

export type Target = "common" | "lag";

/** By how many cells shapes are drawn to a target, in the order in which this is tried. */
const STRENGTHS: Readonly<Record<Target, readonly number[]>> = { common: [300, 100, 30, 0], lag: [300, 100, 30] };
/** Cell i is in fold i mod 2. */
export const FOLDS = 2;
const [FIRST_STEPS, NEXT_STEPS] = [24, 12];
const BEYOND = 1.8;
const SCALES = 16;
const LEAST_SCALE = 3e-3;
const LEAST_START = 2e-3;
const LEAST_EIGENVALUE = 1e-6;
const LEAST_CHANCE = 1e-300;
const FEW = 4;

/** k cells of n streams, in standard deviations of their noise: entry i·n + a is cell i of stream a. */
export interface Cells {
  readonly count: number;
  readonly n: number;
  readonly rows: Float64Array;
}

interface Fit {
  readonly shape: Float64Array;
  readonly scales: Float64Array;
  readonly chances: Float64Array;
}

/** The target and the strength that make held-out cells likeliest, with the cosines of all cells and of each fold. */
export interface Chosen {
  readonly target: Target;
  readonly strength: number;
  readonly whole: Float64Array;
  readonly halves: readonly [Float64Array, Float64Array];
}

/** Fit the model to both folds for each target and strength, and to all cells for the best. */
export function choose(cells: Cells, inTime: boolean): Chosen {
  const folds = [0, 1].map((fold) => foldOf(cells, fold));
  let best: { score: number; target: Target; strength: number; fits: Fit[] } | null = null;
  for (const target of ["common", "lag"] as const) {
    if (target === "lag" && !(inTime && cells.n >= FEW)) continue;
    const strengths = STRENGTHS[target];
    const [first, second] = folds.map((fold) => fitsOf(fold, target, strengths.map((strength) => strength / FOLDS)));
    strengths.forEach((strength, i) => {
      const score = logLikelihood(folds[1], first[i]) + logLikelihood(folds[0], second[i]);
      if (best === null || score > best.score) best = { score, target, strength, fits: [first[i], second[i]] };
    });
  }
  const { target, strength, fits } = best!;
  const strengths = STRENGTHS[target];
  const whole = fitsOf(cells, target, strengths.slice(0, strengths.indexOf(strength) + 1)).at(-1)!;
  const [of, first, second] = [whole, ...fits].map(({ shape }) => cosinesOf(shape, cells.n));
  return { target, strength, whole: of, halves: [first, second] };
}

function foldOf({ count, n, rows }: Cells, fold: number): Cells {
  const held: number[] = [];
  for (let i = fold; i < count; i += FOLDS) for (let a = 0; a < n; a++) held.push(rows[i * n + a]);
  return { count: held.length / n, n, rows: Float64Array.from(held) };
}

/** Return a fit for each strength, each but the first from the one before it. */
function fitsOf(cells: Cells, target: Target, strengths: readonly number[]): Fit[] {
  const fits: Fit[] = [];
  strengths.forEach((strength, i) => fits.push(i === 0 ? fitted(cells, startOf(cells), target, strength, FIRST_STEPS) : fitted(cells, fits[i - 1], target, strength, NEXT_STEPS)));
  return fits;
}

function startOf({ count, n, rows }: Cells): Fit {
  const moments = productsOf(rows, count, n);
  let most = 0;
  for (let i = 0; i < count; i++) {
    let energy = 0;
    for (let a = 0; a < n; a++) energy += rows[i * n + a] ** 2;
    most = Math.max(most, energy / n);
  }
  for (let at = 0; at < n * n; at++) moments[at] = moments[at] / count - (at % (n + 1) === 0 ? 1 : 0);
  const { values, vectors } = axesOf(moments, n);
  const least = LEAST_START * Math.max(values.reduce((a, b) => Math.max(a, b)), 0.01);
  const shape = composed(values.map((value) => Math.max(value, least)), vectors, n);
  const ratio = Math.max(1.5 * most, 1) / LEAST_SCALE;
  const scales = Float64Array.from({ length: SCALES + 1 }, (_, j) => (j === 0 ? 0 : LEAST_SCALE * ratio ** ((j - 1) / (SCALES - 1))));
  return { shape: toTrace(shape, n), scales, chances: scales.map(() => 1 / scales.length) };
}

/** Return the model after so many steps of expectation and maximisation, each lengthened. */
function fitted(cells: Cells, fit: Fit, target: Target, strength: number, steps: number): Fit {
  const { count, n } = cells;
  const { scales } = fit;
  let { shape, chances } = fit;
  const kinds = scales.length;
  for (let step = 0; step < steps; step++) {
    const { values, vectors, turned, spreads, logarithms } = inAxes(cells, shape, scales);
    const numbers = new Float64Array(kinds);
    const shares = new Float64Array(kinds);
    const before = chances.map((chance) => Math.log(chance + LEAST_CHANCE));
    const squares = new Float64Array(kinds * n); // of what is kept of a cell, times the scale
    for (let j = 1; j < kinds; j++) for (let a = 0; a < n; a++) squares[j * n + a] = scales[j] * (values[a] / spreads[j * n + a]) ** 2;
    for (let i = 0; i < count; i++) {
      let [highest, sum] = [-Infinity, 0];
      for (let j = 0; j < kinds; j++) highest = Math.max(highest, (shares[j] = logarithms[i * kinds + j] + before[j]));
      for (let j = 0; j < kinds; j++) sum += shares[j] = Math.exp(shares[j] - highest);
      for (let j = 0; j < kinds; j++) numbers[j] += shares[j] /= sum;
      for (let a = 0; a < n; a++) {
        let weight = 0;
        for (let j = 1; j < kinds; j++) weight += shares[j] * squares[j * n + a];
        turned[i * n + a] *= Math.sqrt(weight);
      }
    }
    const moments = productsOf(turned, count, n);
    let weight = 0;
    for (let j = 1; j < kinds; j++) {
      weight += numbers[j];
      for (let a = 0; a < n; a++) moments[a * (n + 1)] += (numbers[j] * values[a]) / spreads[j * n + a];
    }
    chances = numbers.map((number) => number / count);
    let next = turnedBack(moments.map((one) => one / Math.max(weight, LEAST_CHANCE)), vectors, n);
    if (strength > 0) {
      const wanted = targetOf(cosinesOf(next, n), n, target);
      const lengths = Float64Array.from({ length: n }, (_, a) => Math.sqrt(next[a * (n + 1)]));
      next = next.map((one, at) => (weight * one + strength * wanted[at] * lengths[Math.floor(at / n)] * lengths[at % n]) / (weight + strength));
    }
    next = toTrace(next, n);
    const old = composed(values, vectors, n);
    shape = symmetric(old.map((one, at) => one + BEYOND * (next[at] - one)), n);
  }
  return { shape, scales, chances };
}

function logLikelihood(cells: Cells, { shape, scales, chances }: Fit): number {
  const { logarithms } = inAxes(cells, shape, scales);
  const kinds = scales.length;
  let total = 0;
  for (let i = 0; i < cells.count; i++) {
    const each = logarithms.subarray(i * kinds, (i + 1) * kinds).map((one, j) => one + Math.log(chances[j] + LEAST_CHANCE));
    const highest = each.reduce((a, b) => Math.max(a, b));
    total += highest + Math.log(each.reduce((sum, one) => sum + Math.exp(one - highest), 0));
  }
  return total;
}

/** Return what shapes of these cosines are drawn to. */
function targetOf(cosines: Float64Array, n: number, target: Target): Float64Array {
  const sums = new Float64Array(n);
  for (let a = 0; a < n; a++) for (let b = 0; b < a; b++) sums[a - b] += cosines[a * n + b];
  const all = sums.reduce((a, b) => a + b, 0) / ((n * (n - 1)) / 2);
  return cosines.map((_, at) => {
    const lag = Math.abs(Math.floor(at / n) - (at % n));
    if (lag === 0) return 1;
    return target === "common" ? all : sums[lag] / (n - lag);
  });
}

/** Return the cosines of a matrix of products whose diagonal is above 0. */
export function cosinesOf(products: Float64Array, n: number): Float64Array {
  const lengths = Float64Array.from({ length: n }, (_, a) => Math.sqrt(Math.max(products[a * (n + 1)], LEAST_EIGENVALUE)));
  return products.map((one, at) => (at % (n + 1) === 0 ? 1 : Math.min(Math.max(one / (lengths[Math.floor(at / n)] * lengths[at % n]), -1), 1)));
}

function inAxes({ count, n, rows }: Cells, shape: Float64Array, scales: Float64Array) {
  const axes = axesOf(shape, n);
  const { vectors } = axes;
  const values = axes.values.map((value) => Math.max(value, LEAST_EIGENVALUE));
  const kinds = scales.length;
  const turned = new Float64Array(count * n);
  const [spreads, constants] = [new Float64Array(kinds * n), new Float64Array(kinds)];
  for (let j = 0; j < kinds; j++) {
    for (let a = 0; a < n; a++) constants[j] += Math.log((spreads[j * n + a] = scales[j] * values[a] + 1));
  }
  const logarithms = new Float64Array(count * kinds);
  for (let i = 0; i < count; i++) {
    for (let b = 0; b < n; b++) {
      const cell = rows[i * n + b];
      for (let a = 0; a < n; a++) turned[i * n + a] += cell * vectors[b * n + a];
    }
    for (let j = 0; j < kinds; j++) {
      let sum = constants[j];
      for (let a = 0; a < n; a++) sum += turned[i * n + a] ** 2 / spreads[j * n + a];
      logarithms[i * kinds + j] = -sum / 2;
    }
  }
  return { values, vectors, turned, spreads, logarithms };
}

/** Return Σ_i of the products of row i's entries. */
function productsOf(rows: Float64Array, count: number, n: number): Float64Array {
  const out = new Float64Array(n * n);
  for (let i = 0; i < count; i++) {
    for (let a = 0; a < n; a++) {
      const own = rows[i * n + a];
      for (let b = 0; b <= a; b++) out[a * n + b] += own * rows[i * n + b];
    }
  }
  for (let a = 0; a < n; a++) for (let b = 0; b < a; b++) out[b * n + a] = out[a * n + b];
  return out;
}

/** Return V M Vᵀ. */
function turnedBack(matrix: Float64Array, vectors: Float64Array, n: number): Float64Array {
  const [half, out] = [new Float64Array(n * n), new Float64Array(n * n)];
  for (let i = 0; i < n; i++) for (let a = 0; a < n; a++) for (let b = 0; b < n; b++) half[i * n + b] += vectors[i * n + a] * matrix[a * n + b];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      let sum = 0;
      for (let b = 0; b < n; b++) sum += half[i * n + b] * vectors[j * n + b];
      out[i * n + j] = sum;
    }
  }
  return symmetric(out, n);
}

function toTrace(matrix: Float64Array, n: number): Float64Array {
  let trace = 0;
  for (let a = 0; a < n; a++) trace += matrix[a * (n + 1)];
  return matrix.map((one) => one * (n / trace));
}

function symmetric(matrix: Float64Array, n: number): Float64Array {
  return matrix.map((one, at) => (one + matrix[(at % n) * n + Math.floor(at / n)]) / 2);
}
