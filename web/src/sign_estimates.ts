/** Hamming distances, angles and cosines of published signs: WIRE.md, "Estimates from signs". */
import { demand, DependentNoiseError, IncompatibleError } from "./errors.ts";
import { Estimate, missOf, quantile, type EstimateFields, type Interval, type Method } from "./estimate.ts";
import { nameOf } from "./estimators.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { gaussianVariance } from "./local_mechanisms.ts";
import { Matrix } from "./matrix.ts";
import { erf } from "./normal.ts";
import { KINDS, scaleSquared } from "./projection.ts";
import type { Signs } from "./signs.ts";

const PLACES = 193, ANGLES = 129;
const BITS = Uint8Array.from({ length: 256 }, (_, byte) => {
  let count = 0;
  for (let bit = 0; bit < 8; bit++) count += (byte >> bit) & 1;
  return count;
});

/** What estimates of laws other than constant flips need: the lengths of both vectors, in data units, from elsewhere. */
export interface SignOptions {
  readonly norms?: readonly [number, number];
  readonly limits?: Partial<Limits>;
}

/** An estimate from k products of signs, whose interval is Wilson's of their mean, as angles or cosines. */
class SignEstimate extends Estimate {
  readonly #mean: number;
  readonly #k: number;
  readonly #angle: (mean: number) => number;
  readonly #isCosine: boolean;

  constructor(fields: EstimateFields, { mean, k, most, angle, isCosine }: { mean: number; k: number; most: number; angle: (mean: number) => number; isCosine: boolean }) {
    super(fields);
    this.#mean = Math.min(Math.max(mean, -most), most);
    this.#k = k;
    this.#angle = angle;
    this.#isCosine = isCosine;
  }

  protected override missing(miss: number, method: Method): Interval {
    const z = quantile(miss, method);
    const share = (z * z) / this.#k;
    const root = Math.sqrt(share * (1 - this.#mean ** 2 + share));
    const [low, high] = [1, -1].map((sign) => this.#angle((this.#mean + sign * root) / (1 + share)));
    return this.#isCosine ? { low: Math.cos(high), high: Math.cos(low) } : { low, high };
  }

  override intervalAmong(candidates: number, confidence = 0.95): Interval {
    const usual = super.intervalAmong(candidates, confidence);
    const own = this.missing(missOf(confidence, candidates), "normal");
    return { low: Math.min(usual.low, own.low), high: Math.max(usual.high, own.high) };
  }
}

function check(x: Signs, y: Signs): void {
  if (nameOf(x.projection) !== nameOf(y.projection)) throw new IncompatibleError("signs of different projections are not comparable");
  if (x.agreement !== y.agreement) throw new IncompatibleError("signs of different agreements are not comparable");
  if (x.releaseId === y.releaseId) throw new DependentNoiseError("the two are one release");
}

/** Return in how many cells two releases publish different signs. */
export function hamming(x: Signs, y: Signs): number {
  check(x, y);
  let count = 0;
  for (let i = 0; i < x.bits.length; i++) count += BITS[x.bits[i] ^ y.bits[i]];
  return count;
}

/** Estimate the angle between the vectors, in radians. */
export function angle(x: Signs, y: Signs, options: SignOptions = {}): Estimate {
  const { k, mean, kept } = agreeing(x, y);
  if (kept > 0) return constantAngle(mean, k, kept);
  const curve = curveOf(x, y, options);
  const most = curve.means[0];
  const clipped = Math.min(Math.max(mean, -most), most);
  const [value, error] = [curve.angle(clipped), deviation(clipped, k)];
  const turn = inside(value, k);
  const squares = (value - curve.angle(clipped - error)) ** 2 + (value - curve.angle(clipped + error)) ** 2;
  const plain = (turn * (Math.PI - turn)) / k;
  const variance = Math.min(Math.max(squares / 2, plain), Math.PI ** 2 / 4);
  return ofAngle(value, variance, Math.min(plain, variance), { mean, k, most, angle: (at) => curve.angle(at) });
}

/** Estimate the cosine of the angle. Undefined, and an error, where flips leave too little. */
export function signCosine(x: Signs, y: Signs, options: SignOptions = {}): Estimate {
  const { k, mean, kept } = agreeing(x, y);
  if (kept > 0) {
    demand(Math.PI / (2 * kept * Math.sqrt(k)) <= Math.PI / 2, "the cosine is undefined: too many signs were flipped");
    const theta = constantAngle(mean, k, kept);
    const v = theta.variance;
    const variance = (Math.exp(v) * -Math.expm1(-v) * (1 - Math.exp(-v) * Math.cos(2 * theta.value))) / 2;
    const share = v > 0 ? theta.projectionVariance / v : 1;
    return ofCosine(Math.exp(v / 2) * Math.cos(theta.value), variance, share * variance, { mean, k, most: kept, angle: angleOf(kept) });
  }
  const curve = curveOf(x, y, options);
  const most = curve.means[0];
  demand(curve.cosine(deviation(0, k), deviation(most, k)) <= Math.PI / 2, "the cosine is undefined: too many signs were flipped");
  const [reach, error] = [deviation(most, k), deviation(Math.min(Math.max(mean, -most), most), k)];
  const [here, below, above] = [mean, mean - error, mean + error].map((at) => curve.cosine(at, reach));
  const value = 2 * here - (below + above) / 2;
  const turn = inside(Math.acos(Math.min(Math.max(value, -1), 1)), k);
  const plain = (Math.sin(turn) ** 2 * turn * (Math.PI - turn)) / k;
  const variance = Math.max((here - below) ** 2, (above - here) ** 2, plain);
  return ofCosine(value, variance, plain, { mean, k, most, angle: (at) => curve.angle(at) });
}

function agreeing(x: Signs, y: Signs): { k: number; mean: number; kept: number } {
  const k = x.projection.sketchDim;
  return { k, mean: 1 - (2 * hamming(x, y)) / k, kept: constantOf(x) * constantOf(y) };
}

interface Products {
  readonly mean: number;
  readonly k: number;
  readonly most: number;
  readonly angle: (mean: number) => number;
}

function ofAngle(value: number, variance: number, plain: number, products: Products): Estimate {
  return new SignEstimate({ value, projectionVariance: plain, noiseVariance: variance - plain, lowest: 0, highest: Math.PI }, { ...products, isCosine: false });
}

function ofCosine(value: number, variance: number, plain: number, products: Products): Estimate {
  return new SignEstimate({ value, projectionVariance: plain, noiseVariance: variance - plain, lowest: -1, highest: 1 }, { ...products, isCosine: true });
}

/** Return the angle at which constant flips leave products of this mean. */
function angleOf(kept: number): (mean: number) => number {
  return (mean) => Math.min(Math.max((Math.PI / 2) * (1 - mean / kept), 0), Math.PI);
}

function constantOf(signs: Signs): number {
  return signs.law?.shape === "constant" ? Math.tanh(signs.law.rate.toNumber() / 2) : 0;
}

function constantAngle(mean: number, k: number, kept: number): Estimate {
  const value = (Math.PI / 2) * (1 - mean / kept);
  const turn = inside(value, k);
  const variance = (Math.PI ** 2 / 4 / kept ** 2 - (Math.PI / 2 - turn) ** 2) / k;
  return ofAngle(value, variance, Math.min((turn * (Math.PI - turn)) / k, variance), { mean, k, most: kept, angle: angleOf(kept) });
}

function inside(theta: number, k: number): number {
  return Math.min(Math.max(theta, Math.PI / (2 * k)), Math.PI - Math.PI / (2 * k));
}

function deviation(mean: number, k: number): number {
  return Math.sqrt((1 - Math.min(Math.abs(mean), 1 - 1 / k) ** 2) / k);
}

// --- laws that depend on the cells -----------------------------------------------------------------------------

/** C(θ), falling, at angles from 0 to π. */
class Curve {
  readonly angles: readonly number[];
  readonly means: readonly number[];

  constructor(angles: readonly number[], means: readonly number[]) {
    this.angles = angles;
    this.means = means;
  }

  /** Return the angle with this C, by straight lines. */
  angle(mean: number): number {
    const last = this.means.length - 1;
    if (mean <= this.means[last]) return Math.PI;
    if (mean >= this.means[0]) return 0;
    let [low, high] = [0, last]; // means[low] > mean ≥ means[high]
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.means[middle] > mean) low = middle;
      else high = middle;
    }
    const share = (mean - this.means[high]) / (this.means[low] - this.means[high]);
    return this.angles[high] + (this.angles[low] - this.angles[high]) * share;
  }

  /** Return the cosine with this C, beyond ±1 along a chord. */
  cosine(mean: number, reach: number): number {
    const [most] = this.means;
    const beyond = Math.abs(mean) - most;
    if (beyond <= 0) return Math.cos(this.angle(mean));
    const far = Math.min(reach, 2 * most);
    return Math.sign(mean) * (1 + (beyond * (1 - Math.cos(this.angle(most - far)))) / far);
  }
}

function curveOf(x: Signs, y: Signs, { norms, limits = {} }: SignOptions): Curve {
  demand(norms !== undefined, "norms of both vectors are needed, as flips depend on the cells");
  const [first, second] = [jumps(x, norms[0], limits), jumps(y, norms[1], limits)];
  const groups = Math.max(first.length, second.length);
  const rates = new Float64Array(ANGLES);
  for (let i = 0; i < ANGLES; i++) {
    const density = densityAt((i * (Math.PI / 2)) / (ANGLES - 1));
    for (let group = 0; group < groups; group++) {
      rates[i] += rateOf(first[Math.min(group, first.length - 1)], second[Math.min(group, second.length - 1)], density) / groups;
    }
  }
  const h = Math.PI / 2 / (ANGLES - 1);
  const rises = [0];
  for (let i = 0; i < ANGLES - 1; i++) {
    const piece = i % 2 === 0 ? 5 * rates[i] + 8 * rates[i + 1] - rates[i + 2] : -rates[i - 1] + 8 * rates[i] + 5 * rates[i + 1];
    rises.push(rises[i] + (h * piece) / 12);
  }
  const turns = rises.map((_, i) => i * h);
  return new Curve(
    [...turns.map((turn) => Math.PI / 2 - turn).reverse(), ...turns.slice(1).map((turn) => Math.PI / 2 + turn)],
    [...[...rises].reverse(), ...rises.slice(1).map((rise) => -rise)],
  );
}

/** Return exp(…) for each pair of places. */
function densityAt(phi: number): Float64Array {
  const [twice, last] = [2 * Math.max(Math.cos(phi), 1e-9) ** 2, 1 + Math.sin(phi)];
  const out = new Float64Array(PLACES * PLACES);
  for (let i = 0; i < PLACES; i++) {
    const a = (i - 96) / 16;
    for (let j = 0; j < PLACES; j++) {
      const b = (j - 96) / 16;
      const gap = (a - b) ** 2;
      if (gap < 760 * twice) out[i * PLACES + j] = Math.exp(-gap / twice - (a * b) / last);
    }
  }
  return out;
}

function rateOf(x: Float64Array, y: Float64Array, density: Float64Array): number {
  let total = 0;
  for (let i = 0; i < PLACES; i++) {
    if (x[i] === 0) continue;
    let row = 0;
    for (let j = 0; j < PLACES; j++) row += y[j] * density[i * PLACES + j];
    total += x[i] * row;
  }
  return total / (2 * Math.PI);
}

/** Return the steps of a release's gains around each place, for each group of rows. */
function jumps(signs: Signs, norm: number, limits: Partial<Limits>): Float64Array[] {
  const { projection } = signs;
  const unit = Math.sqrt(scaleSquared(projection).toNumber()) * projection.resolution.toNumber();
  demand(norm / projection.resolution.toNumber() >= 2 ** -64 && norm / projection.resolution.toNumber() <= 2 ** 64, "norms lie between 2^-64 and 2^64 grid steps");
  const sigma = norm / (unit * Math.sqrt(projection.sketchDim));
  return stepsOf(signs, limits).map((step) => {
    const gain = gainOf(signs, sigma, step);
    return Float64Array.from({ length: PLACES }, (_, i) => gain((i - 96) / 16 + 1 / 32) - gain((i - 96) / 16 - 1 / 32));
  });
}

/** Return the mean step of each group of rows: one where entries are ±1 and 0. */
function stepsOf(signs: Signs, limits: Partial<Limits>): number[] {
  const { projection, guarantee } = signs;
  const bound = guarantee.neighbours.bound.over(projection.resolution);
  const moved = Number(guarantee.neighbours.kind === "l1" ? bound.floor() : bound.ceil());
  if (KINDS[projection.kind].values !== "integers") return [Math.max(1, moved)];
  const { maxEntries } = limitsWith(limits);
  const entries = projection.dim * BigInt(projection.sketchDim);
  demand(entries <= BigInt(maxEntries), `the steps of the cells take reading ${entries} entries of the matrix, and at most ${maxEntries} are read (maxEntries)`);
  const matrix = new Matrix(projection, limits);
  const largest = new Float64Array(projection.sketchDim);
  for (let index = 0n; index < projection.dim; index++) {
    const column = matrix.column(index);
    column.rows.forEach((row, i) => (largest[row] = Math.max(largest[row], Math.abs(column.entries[i]))));
  }
  const steps = largest.map((entry) => Math.max(1, moved * entry)).sort();
  if (steps[0] === steps[steps.length - 1]) return [steps[0]];
  const groups = Math.min(8, steps.length);
  const [size, larger] = [Math.floor(steps.length / groups), steps.length % groups];
  const out: number[] = [];
  for (let group = 0, at = 0; group < groups; group++) {
    const end = at + size + (group < larger ? 1 : 0);
    out.push(steps.subarray(at, end).reduce((sum, step) => sum + step, 0) / (end - at));
    at = end;
  }
  return out;
}

/** Return the mean of the published sign of a cell at so many standard deviations. */
function gainOf(signs: Signs, sigma: number, step: number): (place: number) => number {
  const { law, method, guarantee, projection } = signs;
  if (law !== null) {
    const rate = law.rate.toNumber();
    const level = { constant: () => 1, linear: (size: number) => size, levels: (size: number) => Math.ceil(size / step) }[law.shape] as (size: number) => number;
    return (place) => Math.sign(place) * Math.tanh((rate / 2) * level(Math.abs(place) * sigma));
  }
  const { epsilon, delta } = guarantee;
  const reach = step / sigma;
  const count = method === "iDP-SignOPORP-G" ? 1 : Math.max(1, projection.sketchDim * erf(reach / Math.SQRT2));
  let within: (place: number) => number;
  if (method?.endsWith("-G")) {
    const variance = gaussianVariance(epsilon, delta, BigInt(Math.ceil(count * step * step))).toNumber();
    within = (place) => erf((place * sigma) / Math.sqrt(2 * variance));
  } else {
    const kept = Math.tanh((method === "iDP-SignOPORP" ? epsilon : epsilon / count) / 2);
    within = (place) => Math.sign(place) * kept;
  }
  return (place) => (Math.abs(place) > reach ? Math.sign(place) : within(place));
}
