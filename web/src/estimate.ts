/** What an estimator returns: a value, its variance in two parts, and intervals. */
import { demand } from "./errors.ts";
import { chiSquaredQuantile, normalQuantile, upperQuantile } from "./normal.ts";

export type Method = "normal" | "chebyshev";

/** Ends of an interval, infinite where there are none. */
export interface Interval {
  readonly low: number;
  readonly high: number;
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

  constructor(fields: EstimateFields) {
    this.value = fields.value;
    this.projectionVariance = fields.projectionVariance;
    this.noiseVariance = fields.noiseVariance;
    this.lowest = fields.lowest ?? -Infinity;
    this.highest = fields.highest ?? Infinity;
    this.slope = fields.slope ?? 0;
    this.curvature = fields.curvature ?? 0;
    this.kurtosis = fields.kurtosis ?? 0;
  }

  get variance(): number {
    return this.projectionVariance + this.noiseVariance;
  }

  get standardError(): number {
    return Math.sqrt(this.variance);
  }

  /** Return the interval at a confidence, between 0 and 1. */
  interval(confidence = 0.95, method: Method = "normal"): Interval {
    checkConfidence(confidence);
    return this.within(method === "normal" ? this.reach(normalQuantile((1 + confidence) / 2)) : 1 / Math.sqrt(1 - confidence));
  }

  /** Return the interval that holds for all of so many candidates at once, among which this one was selected. */
  intervalAmong(candidates: number, confidence = 0.95): Interval {
    checkConfidence(confidence);
    demand(Number.isInteger(candidates) && candidates >= 1, "candidates is an integer of at least 1");
    const beta = (1 - confidence) / (2 * candidates);
    const g = this.reach(upperQuantile(beta));
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

  /** Return all t with (value - t)² ≤ g²·S(t). */
  protected within(g: number): Interval {
    const p = clip(this.value, this.lowest, this.highest);
    const d = this.value - p;
    const a = 1 - g * g * this.curvature;
    const b = d + (g * g * this.slope) / 2;
    const c = d * d - g * g * this.variance;
    const [below, above] = roots(a, b, c, this.variance === 0 && d === 0);
    return { low: clip(p + below, this.lowest, this.highest), high: clip(p + above, this.lowest, this.highest) };
  }

  #between(z: number): Interval {
    const half = (this.highest - this.lowest) / 2;
    const v = Math.min(Math.abs(this.value - (this.highest + this.lowest) / 2) / half, 1);
    const e = Math.sqrt(this.projectionVariance) / half;
    const total = Math.sqrt(e * e + this.noiseVariance / (half * half));
    const [o, q] = [USUAL, z].map((one) => Math.max(v - one * total, 0));
    const t = e > 1e-9 ? (z * e) / (1 - o! * o!) : 0;
    const f = (2 * (v - t)) / (1 + Math.sqrt(Math.max(1 - 4 * t * (v - t), 0)));
    const h = v - USUAL * e <= -1 ? 2 : Math.max(z * e, v - f, t * (1 - q! * q!));
    const width = Math.sqrt(half * half * h * h + z * z * this.noiseVariance);
    return { low: Math.max(this.value - width, this.lowest), high: Math.min(this.value + width, this.highest) };
  }
}

/** Φ⁻¹(0.975). */
const USUAL = 1.9599639845400545;

function checkConfidence(confidence: number): void {
  demand(confidence > 0 && confidence < 1, `a confidence of ${confidence}; it lies between 0 and 1`);
}

export function clip(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), high);
}

/** Return the ends of a·f² - 2b·f + c ≤ 0, of the piece that WIRE.md names. */
function roots(a: number, b: number, c: number, isExact: boolean): readonly [number, number] {
  const discriminant = b * b - a * c;
  if (isExact || (a > 0 && discriminant < 0)) return [0, 0];
  const root = Math.sqrt(Math.max(discriminant, 0));
  const far = b < 0 ? b - root : b + root; // without cancellation
  const other = far === 0 ? 0 : c / far;
  if (a > 0) return b < 0 ? [far / a, other] : [other, far / a];
  if (discriminant < 0 || (b <= 0 && discriminant === 0)) return [-Infinity, Infinity];
  const [larger, smaller] = b < 0 ? [far / a, other] : [other, far / a];
  return b > 0 || c > 0 ? [larger, Infinity] : [-Infinity, smaller];
}
