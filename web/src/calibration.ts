/** The least noise that gives a guarantee, as the Python library chooses it. */
import { demand, InvalidInputError } from "./errors.ts";
import { bitLength, Ratio } from "./exact.ts";
import { NoiseTable, type NoiseKind } from "./noise.ts";
import { cumulantsOf, gaussianLogDelta, type Moved } from "./words.ts";

/** How far one unit can move what is published, over all keys. */
export interface Sensitivity extends Moved {
  /** Cells of a sketch, on which the error of estimates depends. */
  readonly cells: number;
}

/** Noise that is calibrated, and what a release with it guarantees. */
export interface Calibrated {
  readonly kind: NoiseKind;
  /** Scale or variance. */
  readonly amount: Ratio;
  readonly epsilon: number;
  readonly delta: number;
}

const KEPT = 24; // bits below the leading one of a scale
const VARIANCE_BITS = 8n; // of a variance below 2^16
const ROUNDING_VARIANCE = 3n; // of a continuous Gaussian to the lattice (Theory 3)
const ETA = 7.7e-26; // of that rounding, for each number that a unit moves
const MOST_LOST = 0.1; // of ε, to rounding
const MOST_DELTA = 1 - 1e-6;
/** The largest variance that can be drawn. */
const WIDEST: Readonly<Record<NoiseKind, number>> = { laplace: 2 ** 65, gaussian: 2 ** 48 };
const MARGIN = Ratio.of(1 + 1e-7); // on σ: more than the error of its computation

function roundedUp(value: Ratio, bits: bigint): Ratio {
  const unit = new Ratio(1n << bits);
  return new Ratio(value.times(unit).ceil()).over(unit);
}

/** Return the scale D1/ε, rounded up where it has too many digits for the format. */
export function laplaceScale(l1: bigint, epsilon: number): Ratio {
  const scale = new Ratio(l1).over(Ratio.least(epsilon));
  if (bitLength(scale.numerator) <= 2 * KEPT && bitLength(scale.denominator) <= 2 * KEPT) return scale;
  const whole = bitLength(scale.floor());
  return roundedUp(scale, BigInt(whole > 0 ? Math.max(0, KEPT - whole) : 2 * KEPT - 1));
}

/** Return the largest double that is at most a double and the decimal that it prints as. */
function below(value: number): number {
  if (Ratio.of(value).compare(Ratio.written(value)) <= 0) return value;
  const bits = new BigUint64Array(Float64Array.of(value).buffer);
  bits[0]--;
  return new Float64Array(bits.buffer)[0];
}

/** Return the variance (σ·D2)² + 3 of discrete Gaussian noise, σ by Balle and Wang 2018, Theorem 8, rounded up (Theory 3). */
export function gaussianVariance({ squared, moved }: Sensitivity, epsilon: number, delta: number): Ratio {
  demand(delta > 0, "Gaussian noise never gives δ = 0: agree on a δ, such as 1e-6, or on Laplace noise");
  const lost = ETA * Number(moved);
  demand(2 * lost <= MOST_LOST * below(epsilon), "a unit may move so many numbers that rounding takes a tenth of ε: agree on max_keys");
  const sigma = Ratio.of(gaussianSigma(below(epsilon) - 2 * lost, Math.min(below(delta), MOST_DELTA) * Math.exp(-lost))).times(MARGIN);
  const variance = sigma.times(sigma).times(new Ratio(squared)).add(new Ratio(ROUNDING_VARIANCE));
  return roundedUp(variance, variance.compare(new Ratio(1n << 16n)) < 0 ? VARIANCE_BITS : 0n);
}

/** Return the least σ at which N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1. */
export function gaussianSigma(epsilon: number, delta: number): number {
  const excess = (log: number): number => gaussianLogDelta(epsilon, Math.exp(log)) - Math.log(delta);
  let [low, high] = [0, 0];
  while (excess(low) < 0) low -= 1;
  while (excess(high) > 0) high += 1;
  for (let i = 0; i < 100 && high - low > 1e-15 * Math.max(1, Math.abs(high)); i++) {
    const middle = (low + high) / 2;
    if (excess(middle) > 0) low = middle;
    else high = middle;
  }
  return Math.exp(high);
}

/** Whether `auto` takes Laplace noise: δ < exp(-D1²/D2²) (Stausholm 2021, Note 5). */
function suitsLaplace({ l1, squared }: Sensitivity, delta: number): boolean {
  return delta === 0 || Math.log(delta) < -new Ratio(l1 * l1, squared).toNumber();
}

/**
 * Return the noise of a mechanism: `laplace`, `gaussian`, `auto`, or `least-variance`, the one with the smaller variance of
 * a squared distance. Where one of the two cannot be drawn, `least-variance` is the other, unless the first may have had less.
 *
 * @throws InvalidInputError for noise that is too wide to be drawn, or Gaussian noise with δ = 0
 */
export function calibrated(sensitivity: Sensitivity, epsilon: number, delta: number, mechanism: string): Calibrated {
  const isLaplace = suitsLaplace(sensitivity, delta);
  const laplace = (): Calibrated => ({ kind: "laplace", amount: laplaceScale(sensitivity.l1, epsilon), epsilon, delta: 0 });
  const gaussian = (): Calibrated => ({ kind: "gaussian", amount: gaussianVariance(sensitivity, epsilon, delta), epsilon, delta });
  if (mechanism === "laplace" || (mechanism === "auto" && isLaplace)) return laplace();
  if (mechanism !== "least-variance") return gaussian();
  const kinds: NoiseKind[] = delta === 0 ? ["laplace"] : isLaplace ? ["laplace", "gaussian"] : ["gaussian", "laplace"];
  const offered: { readonly one: Calibrated; readonly k2: number; readonly error: number }[] = [];
  const refused: { readonly kind: NoiseKind; readonly refusal: InvalidInputError }[] = [];
  for (const kind of kinds) {
    try {
      const one = kind === "laplace" ? laplace() : gaussian();
      new NoiseTable(kind, one.amount); // which refuses noise that is too wide
      const { k2, k4 } = cumulantsOf({ kind, amount: one.amount, layers: 0, place: "" });
      offered.push({ one, k2, error: 2 * sensitivity.cells * k4 + 8 * sensitivity.cells * k2 * k2 });
    } catch (refusal) {
      if (!(refusal instanceof InvalidInputError)) throw refusal;
      refused.push({ kind, refusal });
    }
  }
  const narrowest = Math.min(...offered.map(({ k2 }) => k2));
  const narrower = refused.find(({ kind }) => WIDEST[kind] < narrowest); // it may have had less
  if (narrower !== undefined) throw narrower.refusal;
  return offered.reduce((least, other) => (other.error < least.error ? other : least)).one;
}
