/** What an estimator returns: a value, its variance in two parts, and intervals. */
import { demand } from "./errors.ts";
import { chiSquaredQuantile, upperQuantile } from "./normal.ts";

export type Method = "normal" | "chebyshev";

/** Ends of an interval, infinite where there are none. */
export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** How wide intervals have to be because noise is coarse: WIRE.md, "Coarse noise". */
export interface LeastWidth {
  /** Whether the widths are those of the whole error. */
  readonly alone: boolean;
  /** Return the half-width that misses with this probability at most. */
  leastWidth(miss: number): number;
  scaled(factor: number): LeastWidth;
}

/** Of squared norms and products under a map that adds no error. */
export class Grain implements LeastWidth {
  readonly alone = false;
  readonly deviation: number;
  readonly kurtosis: number;
  readonly step: number;
  readonly bend: number;

  constructor(deviation: number, kurtosis: number, step: number, bend: number) {
    this.deviation = deviation;
    this.kurtosis = kurtosis;
    this.step = step;
    this.bend = bend;
  }

  leastWidth(miss: number): number {
    const z = upperQuantile(miss / 2);
    const kurtosis = clip(this.kurtosis, 0, 6) / 3;
    const laplace = Math.max(-Math.log(miss) / Math.SQRT2 - z, 0);
    const linear = this.deviation * (z + laplace * Math.max(Math.sqrt(kurtosis), kurtosis)) + this.step;
    return linear + this.bend * linear * linear;
  }

  scaled(factor: number): Grain {
    return new Grain(this.deviation * factor, this.kurtosis, this.step * factor, this.bend / factor);
  }
}

export interface EstimateFields {
  readonly value: number;
  readonly projectionVariance: number;
  readonly noiseVariance: number;
  readonly lowest?: number;
  readonly highest?: number;
  readonly slope?: number;
  readonly curvature?: number;
  readonly kurtosis?: number;
  readonly grain?: LeastWidth | null;
}

/** An estimate with its standard error. */
export class Estimate {
  readonly value: number;
  /** What the random projection adds to the variance. */
  readonly projectionVariance: number;
  /** What the privacy noise adds to the variance. */
  readonly noiseVariance: number;
  /** Ends of the range in which the truth is. */
  readonly lowest: number;
  readonly highest: number;
  /** How the variance changes where the truth is another: S + slope·f + curvature·f², f away from the value. */
  readonly slope: number;
  readonly curvature: number;
  /** Excess kurtosis of the error. */
  readonly kurtosis: number;
  /** What coarse noise needs; null where the error is nearly continuous. */
  readonly grain: LeastWidth | null;

  constructor(fields: EstimateFields) {
    this.value = fields.value;
    this.projectionVariance = fields.projectionVariance;
    this.noiseVariance = fields.noiseVariance;
    this.lowest = fields.lowest ?? -Infinity;
    this.highest = fields.highest ?? Infinity;
    this.slope = fields.slope ?? 0;
    this.curvature = fields.curvature ?? 0;
    this.kurtosis = fields.kurtosis ?? 0;
    this.grain = fields.grain ?? null;
  }

  get variance(): number {
    return this.projectionVariance + this.noiseVariance;
  }

  get standardError(): number {
    return Math.sqrt(this.variance);
  }

  /** Return the interval at a confidence, between 0 and 1. */
  interval(confidence = 0.95, method: Method = "normal"): Interval {
    return this.missing(missOf(confidence), method);
  }

  /** Return the interval that holds for all of so many candidates at once, among which this one was selected. */
  intervalAmong(candidates: number, confidence = 0.95): Interval {
    const miss = missOf(confidence, candidates);
    return this.widened(this.#among(candidates, miss), miss);
  }

  /** Return the interval that misses with this probability. */
  protected missing(miss: number, method: Method): Interval {
    const z = quantile(miss, method);
    return method === "chebyshev" ? this.within(z) : this.widened(this.within(this.reach(z)), miss);
  }

  #among(candidates: number, miss: number): Interval {
    const beta = miss / 2;
    const g = this.reach(quantile(miss, "normal"));
    if (Number.isFinite(this.lowest) && Number.isFinite(this.highest)) return this.#between(g);
    if (candidates === 1 || this.lowest !== 0 || this.curvature <= 1e-7) return this.within(g);
    const freedom = 2 / this.curvature;
    const spread = Math.sqrt(2 * freedom);
    const above = (chiSquaredQuantile(freedom, beta, "upper") - freedom) / spread;
    const below = (freedom - chiSquaredQuantile(freedom, beta, "lower")) / spread;
    const [first, second] = [this.within(below), this.within(above)];
    return { low: Math.min(first.low, second.low), high: first.high };
  }

  /** Return g of a normal quantile. */
  protected reach(z: number): number {
    return z + ((z ** 3 - 3 * z) * Math.min(this.kurtosis, 6)) / 24;
  }

  /** Return an interval as wide as coarse noise needs. */
  protected widened(ends: Interval, miss: number): Interval {
    if (this.grain === null || !(this.variance > 0)) return ends;
    const inside = clip(this.value, this.lowest, this.highest);
    const width = this.grain.leastWidth(miss);
    const [low, high] = [clip(inside - width, this.lowest, this.highest), clip(inside + width, this.lowest, this.highest)];
    return this.grain.alone ? { low, high } : { low: Math.min(low, ends.low), high: Math.max(high, ends.high) };
  }

  /** Return all t with (p - t)² ≤ g²·S(t), p the value clipped to the range. */
  protected within(g: number): Interval {
    const p = clip(this.value, this.lowest, this.highest);
    const a = 1 - g * g * this.curvature;
    const b = (g * g * this.slope) / 2;
    const c = -g * g * this.variance;
    const [below, above] = roots(a, b, c, this.variance === 0);
    return { low: clip(p + below, this.lowest, this.highest), high: clip(p + above, this.lowest, this.highest) };
  }

  #between(z: number): Interval {
    const half = (this.highest - this.lowest) / 2;
    const value = clip(this.value, this.lowest, this.highest);
    const v = Math.abs(value - (this.highest + this.lowest) / 2) / half;
    const e = Math.sqrt(this.projectionVariance) / half;
    const total = Math.sqrt(e * e + this.noiseVariance / (half * half));
    const [o, q] = [USUAL, z].map((one) => Math.max(v - one * total, 0));
    const t = e > 1e-9 ? (z * e) / (1 - o! * o!) : 0;
    const f = (2 * (v - t)) / (1 + Math.sqrt(Math.max(1 - 4 * t * (v - t), 0)));
    const h = v - USUAL * e <= -1 ? 2 : Math.max(z * e, v - f, t * (1 - q! * q!));
    const width = Math.sqrt(half * half * h * h + z * z * this.noiseVariance);
    return { low: Math.max(value - width, this.lowest), high: Math.min(value + width, this.highest) };
  }
}

/** Φ⁻¹(0.975). */
const USUAL = 1.9599639845400545;

const MOST_CANDIDATES = 2 ** 64; // of more, the probability that each misses may be 0

/**
 * Return the probability with which each of so many intervals may miss if all are to hold (Bonferroni). All that intervals
 * are made of takes it: 1 minus it may round to 1, which has no quantile.
 */
export function missOf(confidence: number, candidates = 1): number {
  demand(confidence > 0 && confidence < 1, `a confidence of ${confidence}; it lies between 0 and 1`);
  demand(Number.isInteger(candidates) && candidates >= 1 && candidates <= MOST_CANDIDATES, "candidates is an integer from 1 to 2^64");
  return (1 - confidence) / candidates;
}

/** Return how many standard errors an estimate is off with this probability. */
export function quantile(miss: number, method: Method): number {
  return method === "chebyshev" ? 1 / Math.sqrt(miss) : upperQuantile(miss / 2);
}

export function clip(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

/** Return the ends of a·f² - 2b·f + c ≤ 0, of the piece that WIRE.md names. */
function roots(a: number, b: number, c: number, isExact: boolean): readonly [number, number] {
  const discriminant = b * b - a * c;
  if (isExact) return [0, 0];
  const root = Math.sqrt(Math.max(discriminant, 0));
  const far = b < 0 ? b - root : b + root; // without cancellation
  const other = far === 0 ? 0 : c / far;
  if (a > 0) return b < 0 ? [far / a, other] : [other, far / a];
  if (discriminant < 0 || (b <= 0 && discriminant === 0)) return [-Infinity, Infinity];
  const [larger, smaller] = b < 0 ? [far / a, other] : [other, far / a];
  return b > 0 || c > 0 ? [larger, Infinity] : [-Infinity, smaller];
}
