/** Joint estimates of all pairs, each drawn towards what the cells of all say of it: WIRE.md, "All pairs together". */
import { demand, InvalidInputError } from "./errors.ts";
import { clip, Estimate, missOf, quantile, type EstimateFields, type Interval, type Method } from "./estimate.ts";
import { checkComparable, cosine, crossUnit, dot, hasDirection, innerProduct, squaredDistance, squaredNorm, type View, viewOf } from "./estimators.ts";
import { type Cells, type Chosen, choose, FOLDS, type Target } from "./joint_fit.ts";
import type { Release } from "./release.ts";
import { nearestCosines, nearestDistances, nearestProducts } from "./vector_matrices.ts";

export type JointMeasure = "cosine" | "profileDistance" | "squaredDistance" | "innerProduct";

export interface JointOptions {
  readonly by?: JointMeasure;
  /** "time" if the releases are in the order of time; null if their order means nothing. */
  readonly order?: "time" | null;
}

/** How joint estimates were made. */
export interface JointModel {
  /** What cosines were drawn towards: a common one, or one for each distance in time. */
  readonly target: Target;
  /** By how many cells. */
  readonly strength: number;
  /** Cell i was held out with fold i mod `folds`. */
  readonly folds: number;
  /** The model's weight against each pair's own estimate, as a mean over the pairs. */
  readonly weight: number;
}

const LEAST_CELLS = 4;
const QUIETEST = 1e-4;
const SURE_HALF = 1.5;
const CAUTION = 12;
const PAIRS_A_STREAM = 3;
const LEAST_EIGENVALUE = 1e-12;
const USUAL = 1.959964;
const BISECTIONS = 40;
const MARGIN = 1.05;

/** The law of a pair's own cosine c: its variance is a(1 - ρ²)² + A + Bρ². */
interface Law {
  readonly cosine: number;
  readonly ofMap: number;
  readonly level: number;
  readonly growth: number;
}

/** An estimate of a pair from all streams; its interval is that of the pair alone, extended to the value. */
export class JointEstimate extends Estimate {
  /** The estimate of the pair without the others; null where it is undefined. */
  readonly alone: Estimate | null;
  readonly model: JointModel;
  readonly #law: Law | null;

  constructor(fields: EstimateFields, alone: Estimate | null, model: JointModel, law: Law | null = null) {
    super(fields);
    this.alone = alone;
    this.model = model;
    this.#law = law;
  }

  override interval(confidence = 0.95, method: Method = "normal"): Interval {
    const ends = this.alone?.interval(confidence, method) ?? null;
    const law = method === "normal" ? this.#law : null;
    if (ends === null || law === null) return this.#extended(ends);
    const z = quantile(missOf(confidence), "normal");
    if (2 * z * Math.sqrt(law.ofMap) >= 1) return this.#extended(ends);
    const within = { low: endOf(law, -1, MARGIN * z), high: endOf(law, 1, MARGIN * z) };
    const cut = this.highest === 4 ? { low: 2 - 2 * within.high, high: 2 - 2 * within.low } : within;
    return this.#extended({ low: Math.max(ends.low, cut.low), high: Math.min(ends.high, cut.high) });
  }

  override intervalAmong(candidates: number, confidence = 0.95): Interval {
    return this.#extended(this.alone?.intervalAmong(candidates, confidence) ?? null);
  }

  #extended(ends: Interval | null): Interval {
    const { low, high } = ends ?? { low: this.lowest, high: this.highest };
    return { low: Math.min(low, this.value), high: Math.max(high, this.value) };
  }
}

/** Joint estimates of all pairs among n releases. */
export class JointEstimates {
  readonly size: number;
  readonly model: JointModel;
  readonly #estimates: readonly JointEstimate[];

  constructor(size: number, model: JointModel, estimates: readonly JointEstimate[]) {
    [this.size, this.model, this.#estimates] = [size, model, estimates];
  }

  at(i: number, j: number): JointEstimate {
    return this.#estimates[i * this.size + j]!;
  }
}

/**
 * Estimate all pairs among 2 or more releases of one projection together. Estimates are of vectors: they are in the range of
 * the measure, and never undefined; what the noise hides is drawn to the others, and its interval says so.
 */
export function jointPairs(releases: readonly Release[], { by = "cosine", order = null }: JointOptions = {}): JointEstimates {
  demand(releases.length >= 2, "joint estimates are of two or more releases");
  const views = releases.map(viewOf);
  views.forEach((view, i) => views.slice(0, i).forEach((other) => checkComparable(other, view)));
  if (views[0].map.before !== null) throw new InvalidInputError("joint estimates need noise on the cells, here it was added before the map");
  const k = views[0].cells.length;
  if (k < LEAST_CELLS) throw new InvalidInputError(`joint estimates need at least ${LEAST_CELLS} cells, these have ${k}`);
  const own = ownOf(views);
  const chosen = choose(inNoises(views), order === "time");
  const combined = combine(views, own, chosen);
  const model: JointModel = { target: chosen.target, strength: chosen.strength, folds: FOLDS, weight: combined.weight };
  return new JointEstimates(views.length, model, estimatesOf(views, own, combined, model, by));
}

/** The pairs' own cosines, null where undefined, and their laws. */
interface Own {
  readonly known: readonly boolean[];
  readonly cosines: readonly (Estimate | null)[];
  readonly laws: readonly (Law | null)[];
}

function ownOf(views: readonly View[]): Own {
  const n = views.length;
  const known = views.map(({ release }) => hasDirection(release));
  const norms = views.map(({ squares, unit, n: count, k2 }) => squares * unit - count * k2);
  const cosines = new Array<Estimate | null>(n * n).fill(null);
  const laws = new Array<Law | null>(n * n).fill(null);
  const { a, c } = views[0].map.law;
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < n; j++) {
      if (!known[i] || !known[j]) continue;
      const at = i * n + j;
      if (i === j) {
        cosines[at] = new Estimate({ value: 1, projectionVariance: 0, noiseVariance: 0, lowest: -1, highest: 1 });
        laws[at] = { cosine: 1, ofMap: a + Math.max(c, 0) / 2, level: 0, growth: 0 };
        continue;
      }
      if (i > j) {
        [cosines[at], laws[at]] = [cosines[j * n + i], laws[j * n + i]];
        continue;
      }
      const found = cosine(views[i].release, views[j].release);
      const [x, y] = [i, j].map((place) => views[place].k2 / norms[place]);
      const [p, q] = [i, j].map((place) => {
        const { k2, k4, n: count } = views[place];
        return Math.max(4 * k2 * norms[place] + count * (k4 + 2 * k2 * k2), 0) / norms[place] ** 2;
      });
      const level = x + y + views[i].n * x * y;
      [cosines[at], laws[at]] = [found, { cosine: clip(found.value, -1, 1), ofMap: a + Math.max(c, 0) / 2, level, growth: (p + q) / 4 - 2 * (x + y) }];
    }
  }
  return { known, cosines, laws };
}

function inNoises(views: readonly View[]): Cells {
  const [n, count] = [views.length, views[0].cells.length];
  const rows = new Float64Array(count * n);
  const noises = noisesOf(views);
  views.forEach(({ cells, unit, release }, a) => {
    const size = (Math.sqrt(unit) / noises[a]) * (release.multiplier.numerator < 0n ? -1 : 1);
    for (let i = 0; i < count; i++) rows[i * n + a] = size * cells[i];
  });
  return { count, n, rows };
}

/** Return standard deviations of noises, at least 1 % of the release's own cells, 1 where that is 0. */
function noisesOf(views: readonly View[]): number[] {
  return views.map(({ cells, unit, squares, k2 }) => {
    const noise = Math.max(k2, (QUIETEST * squares * unit) / cells.length);
    return Math.sqrt(noise > 0 ? noise : 1);
  });
}

interface Combined {
  readonly cosines: Float64Array;
  /** Expected squared errors; NaN where the pair alone says nothing. */
  readonly variance: Float64Array;
  readonly alone: Float64Array;
  readonly weight: number;
}

function combine(views: readonly View[], { known, cosines, laws }: Own, chosen: Chosen): Combined {
  const n = views.length;
  const likeness = likenessOf(chosen.whole, n);
  const size = n * n;
  const [value, ofMap, ofNoise] = [new Float64Array(size), new Float64Array(size).fill(NaN), new Float64Array(size).fill(NaN)];
  for (let at = 0; at < size; at++) {
    const law = laws[at];
    value[at] = law === null ? chosen.whole[at] * likeness : law.cosine;
    if (law === null) continue;
    ofMap[at] = law.ofMap * (1 - value[at] ** 2) ** 2;
    ofNoise[at] = Math.max(law.level + law.growth * value[at] ** 2, 0);
  }
  const error = errorsOfModel(views, chosen, value, ofMap, ofNoise);
  const { bias, common } = error;
  const [mixed, variance, alone] = [new Float64Array(size), new Float64Array(size), new Float64Array(size)];
  let total = 0;
  for (let at = 0; at < size; at++) {
    const [i, j] = [Math.floor(at / n), at % n];
    if (i === j) {
      mixed[at] = 1;
      continue;
    }
    const own = cosines[at];
    let weight = 1;
    if (own === null) {
      mixed[at] = clip(value[at], -1, 1);
      variance[at] = alone[at] = NaN;
    } else {
      const noise = ofNoise[at];
      weight = n === 2 ? 0 : weightOf(error, value[at], noise);
      const beyond = 1 + Math.sqrt(noise);
      const whole = clip(own.value, -beyond, beyond);
      const { low, high } = own.interval();
      mixed[at] = clip(clip(whole + weight * (chosen.whole[at] - whole), -1, 1), low, high);
      variance[at] = ofMap[at] + (1 - weight * (1 - common)) ** 2 * noise + weight ** 2 * bias;
      alone[at] = ofMap[at] + noise;
    }
    if (i < j) total += weight;
  }
  const weight = views.some(({ k2 }) => k2 > 0) ? total / ((n * (n - 1)) / 2) : 0;
  return { cosines: nearestCosines(mixed, n, known.map((one) => !one)), variance, alone, weight };
}

/** How much the model's cosines err. */
interface ModelError {
  /** The mean squared error that is neither the map's nor a share of the pair's own noise. */
  readonly bias: number;
  /** Which share of the noise in a pair's own cosine the model's has, too. */
  readonly common: number;
}

/** Return a pair's weight of the model: the best for two estimates, and near a cosine of 1 the best for two that are cut off there. */
function weightOf({ bias, common }: ModelError, value: number, noise: number): number {
  const apart = (1 - common) * noise;
  if (apart <= 0) return 0;
  const weight = Math.min(apart / ((1 - common) * apart + bias), 1);
  const atOne = Math.max(1 - (2 / Math.PI) * (bias / ((1 - common) * apart)), 0);
  const likelihood = Math.exp(-((1 - Math.abs(value)) ** 2) / (2 * noise));
  return weight - likelihood * Math.max(weight - atOne, 0);
}

/** Return how far a pair that the noise hides is drawn to the others. */
function likenessOf(cosines: Float64Array, n: number): number {
  let [sum, squares, count] = [0, 0, 0];
  for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++, count++) [sum, squares] = [sum + cosines[i * n + j], squares + cosines[i * n + j] ** 2];
  const alike = (sum / count) ** 2 / Math.max(squares / count, LEAST_EIGENVALUE);
  return (1 - 1 / count) * alike ** 2;
}

function errorsOfModel(views: readonly View[], { whole, halves }: Chosen, value: Float64Array, ofMap: Float64Array, ofNoise: Float64Array): ModelError {
  const n = views.length;
  const own = [0, 1].map((fold) => halfOf(views, fold));
  const sure = views.map((_, a) => own.every((half) => half.sure[a]));
  let [number, error, apart, map, noise] = [0, 0, 0, 0, 0];
  const pairs: [number, number][] = [];
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++) {
      const at = i * n + j;
      if (Number.isNaN(ofNoise[at])) continue;
      pairs.push([ofMap[at], ofNoise[at]]);
      if (!sure[i] || !sure[j]) continue;
      const [first, second] = own.map((half) => half.cosines[at]);
      number++;
      error += ((halves[0][at] - second) ** 2 + (halves[1][at] - first) ** 2 - (first - second) ** 2) / 2;
      apart += (whole[at] - value[at]) ** 2;
      map += ofMap[at];
      noise += ofNoise[at];
    }
  }
  if (number === 0) return { bias: pairs.length === 0 ? 0 : pairs.reduce((sum, [one, other]) => sum + one + other, 0) / pairs.length, common: 0 };
  if (noise === 0) return { bias: 0, common: 0 };
  [error, apart, map, noise] = [error, apart, map, noise].map((sum) => sum / number);
  const all = map + noise;
  const told = Math.min(number, PAIRS_A_STREAM * n);
  const common = Math.min(Math.max((all + error - apart) / 2 - map, 0) / noise, 1);
  const excess = (told * Math.max(error - map, 0) + CAUTION * all) / (told + CAUTION);
  return { bias: Math.max(excess - common ** 2 * noise, apart - (1 - common) ** 2 * noise, 0), common };
}

/** Return the pairs' own cosines from half of the cells, and which streams it tells of. */
function halfOf(views: readonly View[], fold: number): { cosines: Float64Array; sure: boolean[] } {
  const n = views.length;
  const count = views[0].cells.length;
  const held = views.map(({ cells }) => cells.filter((_, i) => i % FOLDS === fold));
  const share = count / held[0].length;
  const norms = views.map(({ unit, k2 }, a) => share * unit * dot(held[a], held[a]) - count * k2);
  const sure = views.map(({ k2, k4 }, a) => norms[a] > SURE_HALF * Math.SQRT2 * 2 * Math.sqrt(Math.max(count * (k4 + 2 * k2 * k2), 0)));
  const cosines = new Float64Array(n * n);
  const lengths = norms.map((norm, a) => Math.sqrt(sure[a] ? norm : 1));
  for (let i = 0; i < n; i++) {
    for (let j = i + 1; j < n; j++) {
      const product = share * crossUnit(views[i], views[j]) * dot(held[i], held[j]);
      cosines[i * n + j] = clip(product / (lengths[i] * lengths[j]), -1, 1);
    }
  }
  return { cosines, sure };
}

function estimatesOf(views: readonly View[], own: Own, { cosines, variance, alone: before }: Combined, model: JointModel, by: JointMeasure): JointEstimate[] {
  const n = views.length;
  const norms = views.map(({ squares, unit, n: count, k2 }) => Math.max(squares * unit - count * k2, 0));
  const errors = views.map(({ squares, unit, n: count, k2, k4 }) => Math.max(4 * k2 * (squares * unit - count * k2) + count * (k4 + 2 * k2 * k2), 0));
  if (by === "cosine" || by === "profileDistance") {
    const isProfile = by === "profileDistance";
    return Array.from(cosines, (found, at) => {
      const pair = own.cosines[at];
      const alone = pair === null || !isProfile ? pair : profileOf(pair);
      const whole = (isProfile ? 4 : 1) * (Number.isNaN(variance[at]) ? (1 / USUAL) ** 2 : variance[at]);
      const ends = isProfile ? { lowest: 0, highest: 4 } : { lowest: -1, highest: 1 };
      return new JointEstimate({ value: isProfile ? 2 - 2 * found : found, ...inParts(whole, alone), ...ends }, alone, model, own.laws[at]);
    });
  }
  const isDistance = by === "squaredDistance";
  const lowest = isDistance ? 0 : -Infinity;
  const pairs = Array.from(cosines, (found, at) => {
    const [i, j] = [Math.floor(at / n), at % n];
    const [x, y] = [views[i].release, views[j].release];
    const length = Math.sqrt(norms[i] * norms[j]);
    // the noise of what follows from the cosine and both norms, whose slopes are these
    const noiseOf = (factor: number, first: number, second: number): number =>
      first ** 2 * errors[i] + second ** 2 * errors[j] + factor ** 2 * (variance[at] - (own.laws[at]?.ofMap ?? NaN) * (1 - (own.laws[at]?.cosine ?? NaN) ** 2) ** 2);
    const alone = isDistance
      ? i === j ? new Estimate({ value: 0, projectionVariance: 0, noiseVariance: 0, lowest: 0 }) : squaredDistance(x, y)
      : i === j ? squaredNorm(x) : innerProduct(x, y);
    const joint = isDistance ? Math.max(i === j ? 0 : norms[i] + norms[j] - 2 * length * found, 0) : length * found;
    const factor = isDistance ? 2 * length : length;
    const slopes = [norms[i], norms[j]].map((norm) => (isDistance ? 1 - (found * length) / norm : (found * length) / (2 * norm)));
    const isBetter = i !== j && noiseOf(factor, slopes[0], slopes[1]) < alone.noiseVariance;
    return { alone, joint, factor, isBetter, value: i === j ? joint : Math.max(alone.value, lowest) };
  });
  // a stream that is unlike the others is further from its own estimates than their noise, in half of its pairs or more
  const follows = views.map((_, i) => {
    const others = pairs.slice(i * n, (i + 1) * n).filter((_, j) => j !== i);
    return median(others.map(({ alone, joint, value, isBetter }) => (isBetter ? (joint - value) ** 2 / alone.noiseVariance : 0))) <= 1;
  });
  const isTaken = (at: number): boolean => pairs[at].isBetter && follows[Math.floor(at / n)] && follows[at % n];
  const values = Float64Array.from(pairs, ({ joint, value }, at) => (isTaken(at) ? joint : value));
  const fitting = (isDistance ? nearestDistances : nearestProducts)(values, noisesOf(views));
  return pairs.map(({ alone, factor }, at) => {
    const whole = isTaken(at) ? reduced(alone, factor, before[at], variance[at]) : alone.variance;
    return new JointEstimate({ value: fitting[at], ...inParts(whole, alone), lowest }, alone, model);
  });
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [Math.floor((sorted.length - 1) / 2), Math.ceil((sorted.length - 1) / 2)];
  return (sorted[low] + sorted[high]) / 2;
}

function profileOf({ value, projectionVariance, noiseVariance, grain }: Estimate): Estimate {
  const parts = { projectionVariance: 4 * projectionVariance, noiseVariance: 4 * noiseVariance, grain: grain?.scaled(2) ?? null };
  return new Estimate({ value: 2 - 2 * value, ...parts, lowest: 0, highest: 4 });
}

/** Return a variance in parts, of which the map has the share that it has in the pair's own. */
function inParts(variance: number, alone: Estimate | null): { projectionVariance: number; noiseVariance: number } {
  const share = alone !== null && alone.variance > 0 ? alone.projectionVariance / alone.variance : 0;
  return { projectionVariance: share * variance, noiseVariance: (1 - share) * variance };
}

/** Return the pair's own variance, less what a better cosine takes off a quantity that is `factor` times it. */
function reduced(alone: Estimate, factor: number, before: number, after: number): number {
  return Math.max(alone.variance - factor ** 2 * (before - after), Math.min(factor ** 2 * after, alone.variance));
}

/** Return the farthest cosine towards an end that the own one does not contradict. */
function endOf(law: Law, end: number, z: number): number {
  const holds = (cosine: number): boolean => {
    const variance = law.ofMap * (1 - cosine ** 2) ** 2 + Math.max(law.level + law.growth * cosine ** 2, 0);
    return Math.abs(law.cosine - cosine) <= z * Math.sqrt(variance);
  };
  if (holds(end)) return end;
  let [inner, outer] = [law.cosine, end];
  for (let step = 0; step < BISECTIONS; step++) {
    const middle = (inner + outer) / 2;
    if (holds(middle)) inner = middle;
    else outer = middle;
  }
  return outer;
}
