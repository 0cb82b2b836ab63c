/** How much of a map's error is left in sums of units that were all brought to one length in sketch space. */
import { integerRoot, type Ratio } from "./exact.ts";
import { clip } from "./estimate.ts";
import type { Release } from "./release.ts";

interface Law {
  readonly a: number;
  readonly b: number;
  readonly c: number;
}

/** What a release states of a sum of units of one length. */
export interface EqualUnits {
  /** Its squared norm if all units were alike; infinite where units may have other lengths. */
  readonly most: number;
  /** What rounding each unit to whole cells adds to the variance of a squared norm, over its square. */
  readonly rounding: number;
}

interface Side {
  readonly k2: number;
  readonly k4: number;
  readonly equal: EqualUnits;
}

/** The map's part of a variance, and how it grows with the truth. */
interface MapPart {
  readonly variance: number;
  readonly slope: number;
  readonly curvature: number;
}

const UNKNOWN: EqualUnits = { most: Infinity, rounding: 0 };

/** Return what a release states, of a map with this scale². */
export function equalUnitsOf(release: Release, scale: Ratio): EqualUnits {
  const { counts, counting, projection, noise, parts, clip: clipped } = release;
  if (clipped !== "equal" || counts === null || counting === null) return UNKNOWN;
  const all = parts.length > 0 ? parts : [release.message];
  const first = all[0].guarantee.neighbours;
  const isAlike = all.every(({ guarantee: { neighbours }, history }) => history === undefined && neighbours.maxKeys === 0 && neighbours.unit === first.unit && neighbours.bound.equals(first.bound));
  if (!isAlike) return UNKNOWN;
  const cell = scale.times(projection.resolution).times(projection.resolution);
  const squared = first.bound.times(first.bound).over(cell);
  const steps = integerRoot(squared.numerator / squared.denominator);
  if (steps < 1n || steps >= 1n << 31n) return UNKNOWN;
  const number = Math.max(Number(counts.at(0)) / counting.units, 0) + (2 * Math.sqrt(noise.k2)) / counting.units;
  return { most: (number * Number(steps)) ** 2 * cell.toNumber(), rounding: (4 * projection.sketchDim) / Number(steps) ** 2 };
}

/** Return how alike units are at least, from the squared norm of their sum and its noise's variance. */
function alikeOf(q: number, noise: number, most: number): number {
  const sure = q - 2 * Math.sqrt(noise);
  return sure > 0 ? clip(sure / most, 0, 1) : 0;
}

/** Return the map's part for a squared norm, where `whole` is that of other sums. */
export function partOfNorm({ a, b, c }: Law, whole: number, q: number, noise: number, equal: EqualUnits = UNKNOWN): MapPart {
  const before = { variance: whole, slope: 2 * (a + b) * q, curvature: a + b };
  if (equal.most === Infinity || c > 0) return before;
  const alike = alikeOf(q, noise, equal.most);
  const [apart, twice] = [1 - alike, 1 - 2 * alike];
  const variance = (4 * a * apart ** 2 + equal.rounding) * q * q;
  if (!(variance < whole)) return before;
  return { variance, slope: 2 * (4 * a * apart * twice + equal.rounding) * q, curvature: 4 * a * twice ** 2 + equal.rounding };
}

/** Return the map's part for an inner product of streams of these squared norms; `spread` is its noise's variance. */
export function partOfProduct({ a, b, c }: Law, whole: number, norms: readonly [number, number], value: number, n: number, spread: number, sides: readonly [Side, Side]): MapPart {
  const before = { variance: whole, slope: 2 * b * value, curvature: b };
  if (sides.some(({ equal }) => equal.most === Infinity) || c > 0 || !(value > 0)) return before;
  const noises = sides.map(({ k2, k4 }, i) => Math.max(4 * k2 * norms[i] + n * (k4 + 2 * k2 * k2), 0));
  const shares = sides.map(({ equal }, i) => Math.min(2 * (1 - alikeOf(norms[i], noises[i], equal.most)) ** 2, 1));
  const share = (shares[0] + shares[1]) / 2;
  const [upperX, upperY] = noises.map((noise, i) => norms[i] + 2 * Math.sqrt(noise));
  const scale = Math.sqrt(upperX * upperY);
  const sure = Math.max(value - 2 * Math.sqrt(Math.max(spread, 0)), 0);
  const near = scale > 0 ? Math.min(sure / scale, 1) : 0;
  const cosine = Math.max(near - 2 * Math.sqrt(a) * (1 - near * near), 0);
  const rounding = Math.max(sides[0].equal.rounding, sides[1].equal.rounding);
  const variance = a * (norms[0] * norms[1] * (1 - (1 - share) * cosine ** 4) + share * value * value) + rounding * value * value;
  if (!(variance < whole)) return before;
  const curvature = a * share + rounding;
  return { variance, slope: 2 * curvature * value, curvature };
}
