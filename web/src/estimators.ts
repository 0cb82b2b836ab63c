/** Estimates from releases: norms, distances, inner products, cosines, averages, units and totals. */
import { demand, DependentNoiseError, IncompatibleError, InvalidInputError } from "./errors.ts";
import { clip, Estimate, Grain } from "./estimate.ts";
import { hex } from "./bytes.ts";
import { equalUnitsOf, type EqualUnits, partOfNorm, partOfProduct } from "./equal_units.ts";
import { floorDivide, Ratio } from "./exact.ts";
import { fewEntries, lawBehind, padded, scaleSquared, varianceLaw } from "./projection.ts";
import { encode } from "./protobuf.ts";
import type { Release } from "./release.ts";
import { reachOf } from "./sameness.ts";
import type { Projection } from "./types.ts";

const TWO_ERRORS = 1.96;

interface Law {
  readonly a: number;
  readonly b: number;
  readonly c: number;
}

/** What follows from a projection alone. */
interface Laws {
  readonly name: string;
  readonly scale: Ratio;
  readonly law: Law;
  readonly before: Law | null;
  /** s, of a hashed map whose cells show how few items there are; else 0. */
  readonly hashed: number;
}

/** What estimators need of a release. */
export interface View {
  readonly release: Release;
  readonly map: Laws;
  readonly cells: Float64Array;
  /** Square of a cell's unit: cells times its root are in data units. */
  readonly unit: number;
  /** In data units. */
  readonly k2: number;
  readonly k4: number;
  /** How many noises there are. */
  readonly n: number;
  /** The distance of two values of the noise, in data units. */
  readonly step: number;
  /** Σ cells². */
  readonly squares: number;
  /** What is stated of units of one length. */
  readonly equal: EqualUnits;
}

const MAPS = new Map<string, Laws>();
const VIEWS = new WeakMap<Release, View>();

/** Return a name that equal projections share. */
export function nameOf(projection: Projection): string {
  return hex(encode("Projection", projection));
}

function mapOf(projection: Projection, place: string): Laws {
  const name = `${nameOf(projection)} ${place}`;
  let found = MAPS.get(name);
  if (found === undefined) {
    const [law, behind] = [varianceLaw(projection), place === "" ? null : lawBehind(projection, place)];
    const numbers = ({ a, b, c }: typeof law): Law => ({ a: a.toNumber(), b: b.toNumber(), c: c.toNumber() });
    const map = { name, scale: scaleSquared(projection), law: numbers(law), before: behind && numbers(behind) };
    found = { ...map, hashed: place === "" ? hashedOf(projection, map.law) : 0 };
    if (MAPS.size > 64) MAPS.clear();
    MAPS.set(name, found);
  }
  return found;
}

function hashedOf(projection: Projection, law: Law): number {
  const s = fewEntries(projection);
  return s > 0 && law.c < 0 && 12 * s * law.a <= 1 ? s : 0;
}

/** Return what estimators need of a release; each release is looked at once. */
export function viewOf(release: Release): View {
  let found = VIEWS.get(release);
  if (found === undefined) VIEWS.set(release, (found = makeView(release)));
  return found;
}

function makeView(release: Release): View {
  if (release.history?.row) throw new InvalidInputError("a row of a schedule is not a sum of windows: no estimate is made of it");
  const { projection, noise, multiplier } = release;
  const map = mapOf(projection, noise.place);
  const squared = multiplier.times(multiplier).times(projection.resolution).times(projection.resolution);
  const size = padded(projection.dim);
  const [step, n] =
    noise.place === "" ? [map.scale, projection.sketchDim]
    : noise.place === "input" ? [new Ratio(1n), Number(projection.dim)]
    : [new Ratio(1n, size), Number(size)];
  const factor = squared.times(step).toNumber();
  const cells = release.cells.toDoubles();
  const multipliers = release.parts.length > 0 ? release.parts.map((part) => part.multiplier.magnitude()) : [multiplier.magnitude()];
  const largest = Math.max(...multipliers.map((one) => one.toNumber()));
  return {
    release, map, cells, n,
    unit: squared.times(map.scale).toNumber(),
    k2: factor * noise.k2,
    k4: factor * factor * noise.k4,
    squares: dot(cells, cells),
    equal: equalUnitsOf(release, map.scale),
    step: largest * projection.resolution.toNumber() * Math.sqrt(step.toNumber()),
  };
}

function grainOfNorm({ law }: Laws, q: number, k2: number, k4: number, step: number): Grain | null {
  const squared = q + k2;
  if (law.a !== 0 || law.b !== 0 || !(squared > 0)) return null;
  return new Grain(2 * Math.sqrt(squared * k2), k2 > 0 ? k4 / k2 ** 2 : 0, 2 * Math.sqrt(squared) * step, 1 / (4 * squared));
}

interface Noisy {
  readonly k2: number;
  readonly k4: number;
  readonly step: number;
}

function grainOfProduct({ law }: Laws, [p, q]: readonly [number, number], x: Noisy, y: Noisy): Grain | null {
  const [a, b] = [p + x.k2, q + y.k2];
  if (law.a !== 0 || law.b !== 0 || !(Math.max(a, b) > 0)) return null;
  const linear = a * y.k2 + b * x.k2;
  const kurtosis = linear > 0 ? (a * a * y.k4 + b * b * x.k4) / linear ** 2 : 0;
  return new Grain(Math.sqrt(linear), kurtosis, Math.max(Math.sqrt(a) * y.step, Math.sqrt(b) * x.step), 1 / Math.max(a, b));
}

/** Return what cells show of a sum of fourth powers, as far as it may count. */
function surePart(map: Laws, n: number, clean: number, squaredNoise: number, whole: number): number {
  const found = (clean - 2 * Math.sqrt(96 * n) * squaredNoise) / (1 / map.hashed - 3 * map.law.a);
  return clip((2 / 3) * found, 0, whole / 2);
}

/** Refuse releases that are not comparable. */
export function checkComparable(x: View, y: View): void {
  if (x.map.name !== y.map.name) throw new IncompatibleError("releases of different projections, or with noise at different places, are not comparable");
  if (x.release.agreement !== y.release.agreement) throw new IncompatibleError(`one release follows the agreement ${x.release.agreement ?? "(none)"}, the other ${y.release.agreement ?? "(none)"}: where one states none and its data followed the other's, assert it by release.withAgreement(fingerprint)`);
  const ids = new Set(x.release.releaseIds);
  if (y.release.releaseIds.some((id) => ids.has(id))) throw new DependentNoiseError("the two share a release, and so noise");
}

/** Return Σ x·y. */
export function dot(x: Float64Array, y: Float64Array): number {
  let [a, b, c, d] = [0, 0, 0, 0];
  const whole = x.length & ~3;
  for (let i = 0; i < whole; i += 4) {
    a += x[i] * y[i];
    b += x[i + 1] * y[i + 1];
    c += x[i + 2] * y[i + 2];
    d += x[i + 3] * y[i + 3];
  }
  for (let i = whole; i < x.length; i++) a += x[i] * y[i];
  return a + b + (c + d);
}

/** Return Σ x²·y². */
function dotOfSquares(x: Float64Array, y: Float64Array): number {
  let total = 0;
  for (let i = 0; i < x.length; i++) total += x[i] * x[i] * (y[i] * y[i]);
  return total;
}

/** Return x - y in cells, and the square of their unit. */
export function difference(x: View, y: View): readonly [Float64Array, number] {
  if (x.release.multiplier.equals(y.release.multiplier)) return [x.release.cells.minus(y.release.cells), x.unit];
  const [first, second] = [x.release.multiplier.toNumber(), y.release.multiplier.toNumber()];
  return [x.cells.map((cell, i) => first * cell - second * y.cells[i]), x.unit / first ** 2];
}

// --- squared norms, distances and inner products ---------------------------------------------------------------

/** Sums of a vector z in data units, with noise of these cumulants. */
interface Sums {
  readonly squares: number;
  readonly fourths: number;
  readonly k2: number;
  readonly k4: number;
  readonly step: number;
  readonly equal?: EqualUnits;
}

function squared(map: Laws, n: number, { squares, fourths, k2, k4, step, equal }: Sums): Estimate {
  const { law, before } = map;
  const value = squares - n * k2;
  const q = Math.max(value, 0);
  let variance = (law.a + law.b) * q * q;
  variance += law.c * fourthsOf(map, n, q, fourths, k2, k4);
  let noise = 4 * k2 * q + n * (k4 + 2 * k2 * k2);
  let grows = 4;
  if (before !== null) {
    const longer = 2 * n * k2 * q + (n * k2) ** 2 + noise;
    noise += (before.a + before.b) * longer + before.c * (6 * k2 * q + n * (k4 + 3 * k2 * k2));
    grows += (before.a + before.b) * (2 * n + 4) + 6 * before.c;
  }
  const part = partOfNorm(law, variance, q, Math.max(noise, 0), equal);
  return new Estimate({
    value,
    projectionVariance: part.variance,
    noiseVariance: Math.max(noise, 0),
    lowest: 0,
    slope: part.slope + grows * k2,
    curvature: part.curvature,
    grain: grainOfNorm(map, q, k2, k4, step),
  });
}

/** Return ‖z‖₄⁴, as far as it counts. */
function fourthsOf(map: Laws, n: number, q: number, fourths: number, k2: number, k4: number): number {
  if (map.law.c > 0) return clip(fourthPower(map, n, q, fourths, k2, k4), 0, q * q);
  if (map.hashed === 0) return 0;
  const clean = fourths - 6 * k2 * q - n * (k4 + 3 * k2 * k2) - 3 * map.law.a * q * q;
  return surePart(map, n, clean, k2 * k2, q * q);
}

function hasFourths({ law, hashed }: Laws): boolean {
  return law.c > 0 || hashed > 0;
}

/** Estimate ‖z‖₄⁴. */
function fourthPower(map: Laws, n: number, q: number, fourths: number, k2: number, k4: number): number {
  const { law, before } = map;
  const added = 6 * k2 * q + n * (k4 + 3 * k2 * k2);
  if (before === null) return (fourths - added - 3 * law.a * q * q) / law.c;
  const longer = q * q + 2 * n * k2 * q + (n * k2) ** 2 + 4 * k2 * q + n * (k4 + 2 * k2 * k2);
  return (fourths - 3 * law.a * longer) / law.c - added;
}

/** Estimate ‖x‖², in data units squared. */
export function squaredNorm(x: Release): Estimate {
  const view = viewOf(x);
  const fourths = hasFourths(view.map) ? dotOfSquares(view.cells, view.cells) * view.unit ** 2 : 0;
  return squared(view.map, view.n, { squares: view.squares * view.unit, fourths, k2: view.k2, k4: view.k4, step: view.step, equal: view.equal });
}

/** Return the estimated squared norm, and the variance that it has of an empty stream. */
export function emptyNorm(x: Release): { readonly value: number; readonly variance: number } {
  const { squares, unit, n, k2, k4, map } = viewOf(x);
  const { noiseVariance: variance } = squared(map, n, { squares: n * k2, fourths: 0, k2, k4, step: 0 });
  return { value: squares * unit - n * k2, variance };
}

/** Estimate the squared norm of a histogram without some of its cells. */
export function squaredNormOfOthers({ map, cells, unit, k2, k4, step }: View, without: ReadonlySet<number>): Estimate {
  const others = cells.filter((_, place) => !without.has(place));
  if (others.length === 0) return new Estimate({ value: 0, projectionVariance: 0, noiseVariance: k4 + 2 * k2 * k2, lowest: 0 });
  return squared(map, others.length, { squares: dot(others, others) * unit, fourths: 0, k2, k4, step });
}

/** Estimate ‖x - y‖², in data units squared. */
export function squaredDistance(x: Release, y: Release): Estimate {
  const [first, second] = [viewOf(x), viewOf(y)];
  checkComparable(first, second);
  const [gap, unit] = difference(first, second);
  const fourths = hasFourths(first.map) ? dotOfSquares(gap, gap) * unit ** 2 : 0;
  const sums = { squares: dot(gap, gap) * unit, fourths, k2: first.k2 + second.k2, k4: first.k4 + second.k4, step: Math.max(first.step, second.step) };
  return squared(first.map, first.n, sums);
}

/** Estimate ⟨x, y⟩, in data units squared. */
export function innerProduct(x: Release, y: Release): Estimate {
  const [first, second] = [viewOf(x), viewOf(y)];
  checkComparable(first, second);
  const unit = crossUnit(first, second);
  const squares = hasFourths(first.map) ? dotOfSquares(first.cells, second.cells) * unit * unit : 0;
  return productOf(first, second, unit * dot(first.cells, second.cells), squares);
}

const CROSS = new Map<string, number>();

/** Return what a product of two cells is in data units, rounded once. */
export function crossUnit(x: View, y: View): number {
  if (x.release.multiplier.equals(y.release.multiplier)) return x.unit;
  const name = `${x.map.name} ${x.release.multiplier} ${y.release.multiplier}`;
  let found = CROSS.get(name);
  if (found === undefined) {
    const { resolution } = x.release.projection;
    found = x.release.multiplier.times(y.release.multiplier).times(resolution).times(resolution).times(x.map.scale).toNumber();
    if (CROSS.size > 256) CROSS.clear();
    CROSS.set(name, found);
  }
  return found;
}

function productOf(x: View, y: View, value: number, squares: number): Estimate {
  const { law, before } = x.map;
  const n = x.n;
  const [qx, qy] = [x, y].map((one) => Math.max(one.squares * one.unit - n * one.k2, 0));
  const spread = y.k2 * qx + x.k2 * qy + n * x.k2 * y.k2;
  let variance = law.a * qx * qy + law.b * value * value;
  if (law.c > 0) {
    const found = before === null
      ? (squares - spread - law.a * (qx * qy + 2 * value * value)) / law.c
      : (squares - law.a * ((qx + n * x.k2) * (qy + n * y.k2) + 2 * (value * value + spread))) / law.c - spread;
    variance += law.c * clip(found, 0, qx * qy);
  } else if (x.map.hashed > 0) {
    variance += law.c * surePart(x.map, n, squares - spread - law.a * (qx * qy + 2 * value * value), x.k2 * y.k2, qx * qy);
  }
  const part = partOfProduct(law, variance, [qx, qy], value, n, spread, [x, y]);
  let noise = spread;
  if (before !== null) {
    const longer = n * y.k2 * qx + n * x.k2 * qy + n * n * x.k2 * y.k2;
    noise = before.a * longer + (before.b + before.c + 1) * spread;
  }
  return new Estimate({
    value,
    projectionVariance: part.variance,
    noiseVariance: Math.max(noise, 0),
    slope: part.slope,
    curvature: part.curvature,
    grain: grainOfProduct(x.map, [qx, qy], x, y),
  });
}

// --- cosines ---------------------------------------------------------------------------------------------------

/** Estimate ⟨x, y⟩ / (‖x‖‖y‖). Undefined, and an error, where a norm is not above its noise. */
export function cosine(x: Release, y: Release): Estimate {
  const [first, second] = [viewOf(x), viewOf(y)];
  checkComparable(first, second);
  return cosineOf(first, second, crossUnit(first, second) * dot(first.cells, second.cells));
}

/** Return whether a cosine with this release is defined. */
export function hasDirection(release: Release): boolean {
  const view = viewOf(release);
  const norm = view.squares * view.unit - view.n * view.k2;
  return view.map.before === null && norm > 0 && norm ** 2 > 4 * view.n * (view.k4 + 2 * view.k2 ** 2);
}

function cosineOf(x: View, y: View, product: number): Estimate {
  demand(x.map.before === null, "cosines are estimated where noise is on the cells");
  const { law } = x.map;
  const k = x.n;
  const norms = [x, y].map((one) => one.squares * one.unit - k * one.k2);
  const parts = [x, y].map((one, i) => {
    demand(hasDirection(one.release), "the cosine is undefined: a norm is not above the noise");
    return { share: one.k2 / norms[i], spread: (4 * one.k2 * norms[i] + k * (one.k4 + 2 * one.k2 ** 2)) / norms[i] ** 2 };
  });
  const value = product / (Math.sqrt(norms[0]) * Math.sqrt(norms[1]));
  const w = Math.min(Math.abs(value), 1);
  const [sx, sy] = [parts[0].share, parts[1].share];
  const level = sx + sy + k * sx * sy;
  const growth = (parts[0].spread + parts[1].spread) / 4 - 2 * (sx + sy);
  const e = farthest(w, level, growth);
  const alpha = law.a + Math.max(law.c, 0) / 2;
  let noise = Math.max(level + e * e * growth, 0);
  let projection = cosineVariance(w, alpha);
  const f = Math.max(w - TWO_ERRORS * Math.sqrt(projection + noise), 0);
  projection = Math.max(projection, alpha * (1 - f * f) ** 2);
  if (growth < 0) noise = Math.max(level + f * f * growth, 0);
  let grain = grainOfProduct(x.map, [norms[0], norms[1]], x, y);
  if (grain !== null) {
    const [across, length] = [Math.max(1 - f * f, 1e-6), Math.sqrt(norms[0] * norms[1])];
    const share = Math.sqrt(across) / length;
    grain = new Grain(grain.deviation * share, grain.kurtosis, grain.step * share, (grain.bend * length) / across);
  }
  return new Estimate({ value, projectionVariance: projection, noiseVariance: noise, lowest: -1, highest: 1, grain });
}

function farthest(v: number, level: number, growth: number): number {
  if (growth <= 0) return v;
  const rest = 1 - TWO_ERRORS ** 2 * growth;
  return rest > 0 ? Math.min(1, (v + TWO_ERRORS * Math.sqrt(level * rest + growth * v * v)) / rest) : 1;
}

function cosineVariance(v: number, a: number): number {
  if (a > 1 / 8) return ((1 + v) / 1.9) ** 2;
  const r = TWO_ERRORS * Math.sqrt(a);
  const least = (2 * (v - r)) / (1 + Math.sqrt(Math.max(1 - 4 * r * (v - r), 0)));
  return Math.max(((v - least) / TWO_ERRORS) ** 2, a * (1 - v * v) ** 2);
}

function stretched(estimate: Estimate, factor: number): Estimate {
  return new Estimate({
    value: estimate.value * factor,
    projectionVariance: estimate.projectionVariance * factor ** 2,
    noiseVariance: estimate.noiseVariance * factor ** 2,
    lowest: -factor,
    highest: factor,
    grain: estimate.grain?.scaled(factor) ?? null,
  });
}

/** Estimate ⟨x, y⟩ where both norms are public. */
export function normalisedInnerProduct(x: Release, y: Release, normX: number, normY: number): Estimate {
  demand(normX > 0 && normY > 0 && Number.isFinite(normX * normY), "norms are positive");
  return stretched(cosine(x, y), normX * normY);
}

/** Estimate 2 - 2·cosine, the squared distance of both vectors at length 1. */
export function profileDistance(x: Release, y: Release): Estimate {
  const { value, projectionVariance, noiseVariance, grain } = cosine(x, y);
  const parts = { projectionVariance: 4 * projectionVariance, noiseVariance: 4 * noiseVariance, grain: grain?.scaled(2) ?? null };
  return new Estimate({ value: 2 - 2 * value, ...parts, lowest: 0, highest: 4 });
}

// --- averages --------------------------------------------------------------------------------------------------

interface Average {
  readonly view: View;
  /** Of a cell over the number of units, squared. */
  readonly unit: number;
  readonly root: number;
  readonly k2: number;
  readonly k4: number;
  /** M, not clipped. */
  readonly norm: number;
  readonly excess: number;
  readonly t: number;
  /** Of the noise, over the number of units. */
  readonly step: number;
  readonly equal: EqualUnits;
}

function averageOf(release: Release): Average {
  const { counts, counting } = release;
  demand(counts !== null && counting !== null, "the release does not count units, so averages are not known");
  const view = viewOf(release);
  const size = release.multiplier.toNumber() / counting.units;
  const number = size * Number(counts.at(0));
  const variance = size ** 2 * release.noise.k2;
  demand(number > 0 && number ** 2 > 4 * variance, "averages are undefined: the number of units is not above the noise");
  const t = variance / number ** 2;
  const r = number / (number ** 2 + variance);
  const g = (t * (1 - t)) / (1 + 3 * t);
  const [k2, k4] = [r ** 2 * view.k2, r ** 4 * view.k4];
  const plain = view.squares * view.unit * r ** 2 - view.n * k2;
  return { view, unit: view.unit * r ** 2, root: r, k2, k4, norm: (1 - g) * plain, excess: g * plain, t, step: r * view.step, equal: { ...view.equal, most: r ** 2 * view.equal.most } };
}

/** Estimate ‖x/n‖², n the number of units. */
export function meanNorm(x: Release): Estimate {
  const { view, unit, k2, k4, norm, t, step, equal } = averageOf(x);
  const { law } = view.map;
  const q = Math.max(norm, 0);
  let variance = (law.a + law.b) * q * q;
  if (hasFourths(view.map)) variance += law.c * fourthsOf(view.map, view.n, q, dotOfSquares(view.cells, view.cells) * unit ** 2, k2, k4);
  const part = partOfNorm(law, variance, q, Math.max(4 * k2 * q + view.n * (k4 + 2 * k2 * k2), 0), equal);
  const noise = Math.max(4 * (1 + t) * k2 * q + view.n * (k4 + 2 * k2 * k2), 0) + (4 * t + 2 * t * t) * q * q;
  const slope = part.slope + 4 * k2 + 6 * t * q;
  return new Estimate({ value: norm, projectionVariance: part.variance, noiseVariance: noise, lowest: 0, slope, curvature: part.curvature + (7 / 4) * t, grain: grainOfNorm(view.map, q, k2, k4, step) });
}

/** Estimate ⟨x/n, y/m⟩, n and m the numbers of units. */
export function meanProduct(x: Release, y: Release): Estimate {
  const [first, second] = [averageOf(x), averageOf(y)];
  checkComparable(first.view, second.view);
  const { law } = first.view.map;
  const k = first.view.n;
  const unit = crossUnit(first.view, second.view) * first.root * second.root;
  const value = unit * dot(first.view.cells, second.view.cells);
  const [q, p] = [Math.max(first.norm, 0), Math.max(second.norm, 0)];
  const both = first.t + second.t + first.t * second.t;
  let variance = law.a * q * p + law.b * value * value;
  if (law.c > 0) {
    const sums = dotOfSquares(first.view.cells, second.view.cells) * unit ** 2;
    const spread = second.k2 * q + first.k2 * p + k * first.k2 * second.k2;
    variance += law.c * clip((sums - spread - law.a * (q * p + 2 * value * value)) / law.c, 0, q * p);
  } else if (first.view.map.hashed > 0) {
    const sums = dotOfSquares(first.view.cells, second.view.cells) * unit ** 2;
    const spread = second.k2 * q + first.k2 * p + k * first.k2 * second.k2;
    variance += law.c * surePart(first.view.map, k, sums - spread - law.a * (q * p + 2 * value * value), first.k2 * second.k2, q * p);
  }
  const plain = second.k2 * q + first.k2 * p + k * first.k2 * second.k2;
  const part = partOfProduct(law, variance, [q, p], value, k, plain, [first, second]);
  const noise = (1 + first.t) * second.k2 * q + (1 + second.t) * first.k2 * p + k * first.k2 * second.k2;
  return new Estimate({
    value,
    projectionVariance: part.variance,
    noiseVariance: Math.max(noise, 0) + both * value * value,
    slope: part.slope + 2 * both * value,
    curvature: part.curvature + both,
    grain: grainOfProduct(first.view.map, [q, p], first, second),
  });
}

/** Estimate ‖x/n - y/m‖², n and m the numbers of units. */
export function meanDistance(x: Release, y: Release): Estimate {
  const [first, second] = [averageOf(x), averageOf(y)];
  checkComparable(first.view, second.view);
  const { map } = first.view;
  const { law } = map;
  const k = first.view.n;
  const base = first.view.unit / x.multiplier.toNumber() ** 2;
  const [one, other] = [first.root * x.multiplier.toNumber(), second.root * y.multiplier.toNumber()];
  const gap = first.view.cells.map((cell, i) => one * cell - other * second.view.cells[i]);
  const [k2, k4] = [first.k2 + second.k2, first.k4 + second.k4];
  const value = dot(gap, gap) * base - k * k2 - first.excess - second.excess;
  const p = Math.max(value, 0);
  const [q, r] = [Math.max(first.norm, 0), Math.max(second.norm, 0)];
  const product = Math.min((first.norm + second.norm - value) ** 2 / 4, q * r);
  const longer = p + first.t * q + second.t * r;
  let variance = (law.a + law.b) * longer * longer;
  if (hasFourths(map)) variance += law.c * fourthsOf(map, k, p, dotOfSquares(gap, gap) * base ** 2, k2, k4);
  let noise = Math.max(4 * k2 * longer + k * (k4 + 2 * k2 * k2), 0) + 4 * first.t * second.t * product;
  let slope = 2 * (law.a + law.b) * longer + 4 * k2;
  for (const [a, b] of [[first, second], [second, first]]) {
    const length = Math.max(a.norm, 0);
    const along = (value + a.norm - b.norm) / 2;
    const clean = along * along - a.t * length ** 2 - b.t * product - k2 * length;
    noise += 2 * a.t ** 2 * length ** 2 + 4 * a.t * clip(clean, 0, p * length);
    slope += 4 * a.t * along;
  }
  return new Estimate({
    value,
    projectionVariance: variance,
    noiseVariance: noise,
    lowest: 0,
    slope,
    curvature: law.a + law.b + first.t + second.t,
    grain: grainOfNorm(map, p, k2, k4, Math.max(first.step, second.step)),
  });
}

// --- units and totals ------------------------------------------------------------------------------------------

/** Estimate how many units there are. */
export function units(x: Release): Estimate {
  const { counting } = x;
  demand(counting !== null, "the release does not count units");
  return counted(x, [x.multiplier.over(new Ratio(BigInt(counting.units)))]);
}

/** Estimate the total of what is left of all units, in data units. */
export function total(x: Release): Estimate {
  const { counting } = x;
  demand(counting !== null && counting.slack > 0, "the release has no slack, from which totals follow");
  const { resolution } = x.projection;
  const { numerator, denominator } = x.guarantee.neighbours.bound.over(resolution);
  const bound = new Ratio(floorDivide(numerator, denominator));
  const unit = x.multiplier.times(resolution);
  return counted(x, [unit.times(bound).over(new Ratio(BigInt(counting.units))), unit.over(new Ratio(-BigInt(counting.slack)))]);
}

function counted(x: Release, factors: readonly Ratio[]): Estimate {
  viewOf(x); // refuses rows of a schedule
  let value = 0;
  let [second, fourth] = [0, 0];
  factors.forEach((factor, i) => {
    const size = factor.toNumber();
    value += size * Number(x.counts?.at(i));
    second += size ** 2;
    fourth += size ** 4;
  });
  const { k2, k4 } = x.noise;
  const kurtosis = k2 > 0 ? (k4 * fourth) / (k2 * second) ** 2 : 0;
  const parts = factors.map((factor) => factor.over(x.multiplier.magnitude()));
  const grain = x.multiplier.numerator === 0n ? null : reachOf([x], parts, 1, true);
  return new Estimate({ value, projectionVariance: 0, noiseVariance: second * k2, lowest: 0, kurtosis, grain });
}

// --- all pairs -------------------------------------------------------------------------------------------------

export type Measure = "squaredDistance" | "innerProduct" | "cosine";

/** Estimates of all pairs among n releases: entry i·n + j is that of the i-th and the j-th. */
export interface Pairs {
  readonly size: number;
  readonly value: Float64Array;
  readonly projectionVariance: Float64Array;
  readonly noiseVariance: Float64Array;
}

/**
 * Estimate all pairs among releases of one projection. The diagonal is 0 for distances, 1 for cosines, and the squared
 * norm for inner products, with variances of 0. Where a cosine is not defined, all three numbers are NaN.
 */
export function pairwise(releases: readonly Release[], by: Measure = "squaredDistance"): Pairs {
  const views = releases.map(viewOf);
  const n = views.length;
  const seen = new Set<string>();
  for (const view of views) {
    if (view.map.name !== views[0].map.name) checkComparable(views[0], view);
    if (view.release.agreement !== views[0].release.agreement) checkComparable(views[0], view);
    for (const id of view.release.releaseIds) {
      if (seen.has(id)) throw new DependentNoiseError("two releases share a release, and so noise");
      seen.add(id);
    }
  }
  const out: Pairs = { size: n, value: new Float64Array(n * n), projectionVariance: new Float64Array(n * n), noiseVariance: new Float64Array(n * n) };
  const isDefined = by === "cosine" ? views.map((view) => hasDirection(view.release)) : [];
  const isPlain = n > 0 && (by === "cosine" || !hasFourths(views[0].map)) && views.every((view) => view.release.cells.width < 8 && view.release.multiplier.equals(views[0].release.multiplier));
  const sums = isPlain ? sumsOfPairs(views.map((view) => view.cells), by === "squaredDistance") : null;
  for (let i = 0; i < n; i++) {
    if (by === "cosine") out.value[i * n + i] = isDefined[i] ? 1 : NaN;
    if (by === "innerProduct") out.value[i * n + i] = squaredNorm(releases[i]).value;
    for (let j = 0; j < i; j++) {
      if (by === "cosine" && !(isDefined[i] && isDefined[j])) {
        out.value[i * n + j] = out.value[j * n + i] = NaN;
        out.projectionVariance[i * n + j] = out.projectionVariance[j * n + i] = NaN;
        out.noiseVariance[i * n + j] = out.noiseVariance[j * n + i] = NaN;
        continue;
      }
      const [x, y] = [views[i], views[j]];
      let found: Estimate;
      if (sums === null) {
        found = by === "squaredDistance" ? squaredDistance(x.release, y.release) : by === "cosine" ? cosine(x.release, y.release) : innerProduct(x.release, y.release);
      } else {
        const sum = sums[i * n + j] * x.unit;
        if (by === "squaredDistance") found = squared(x.map, x.n, { squares: sum, fourths: 0, k2: x.k2 + y.k2, k4: x.k4 + y.k4, step: Math.max(x.step, y.step) });
        else found = by === "cosine" ? cosineOf(x, y, sum) : productOf(x, y, sum, 0);
      }
      out.value[i * n + j] = out.value[j * n + i] = found.value;
      out.projectionVariance[i * n + j] = out.projectionVariance[j * n + i] = found.projectionVariance;
      out.noiseVariance[i * n + j] = out.noiseVariance[j * n + i] = found.noiseVariance;
    }
  }
  return out;
}

/** Return Σ(x - y)² or Σxy of all pairs below the diagonal, four rows at a time. */
function sumsOfPairs(rows: readonly Float64Array[], ofGaps: boolean): Float64Array {
  const n = rows.length;
  const out = new Float64Array(n * n);
  for (let j = 0; j < n; j += 4) {
    const [a, b, c, d] = [0, 1, 2, 3].map((more) => rows[Math.min(j + more, n - 1)]);
    for (let i = j + 1; i < n; i++) {
      const row = rows[i];
      const found = ofGaps ? fourGaps(row, a, b, c, d) : fourProducts(row, a, b, c, d);
      for (let more = 0; more < 4 && j + more < i; more++) out[i * n + j + more] = found[more];
    }
  }
  return out;
}

const FOUR = new Float64Array(4);

function fourGaps(x: Float64Array, a: Float64Array, b: Float64Array, c: Float64Array, d: Float64Array): Float64Array {
  let p = 0, q = 0, r = 0, s = 0;
  for (let i = 0; i < x.length; i++) {
    const cell = x[i];
    const e = cell - a[i], f = cell - b[i], g = cell - c[i], h = cell - d[i];
    p += e * e;
    q += f * f;
    r += g * g;
    s += h * h;
  }
  FOUR[0] = p; FOUR[1] = q; FOUR[2] = r; FOUR[3] = s;
  return FOUR;
}

function fourProducts(x: Float64Array, a: Float64Array, b: Float64Array, c: Float64Array, d: Float64Array): Float64Array {
  let p = 0, q = 0, r = 0, s = 0;
  for (let i = 0; i < x.length; i++) {
    const cell = x[i];
    p += cell * a[i];
    q += cell * b[i];
    r += cell * c[i];
    s += cell * d[i];
  }
  FOUR[0] = p; FOUR[1] = q; FOUR[2] = r; FOUR[3] = s;
  return FOUR;
}
