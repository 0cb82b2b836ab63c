/** Every kind of projection, a line of one table each: its fields and limits, and its scale and variance as exact ratios. */
import { Ratio } from "./exact.ts";
import { gaussianTable } from "./gaussian.ts";
import { SCHEMAS } from "./schemas.ts";
import type { Projection } from "./types.ts";

/** Var⟨Sx, Sy⟩ = a‖x‖²‖y‖² + b⟨x, y⟩² + cΣx²y². */
export interface VarianceLaw {
  readonly a: Ratio;
  readonly b: Ratio;
  readonly c: Ratio;
}

/** What is known of a kind of projection, but for its columns, which `Matrix` makes. */
interface Kind {
  /** Beside those of every kind. */
  readonly fields: readonly string[];
  /** How many entries of a column are not 0, at most. */
  readonly entries: (projection: Readonly<Projection>) => number;
  /** What the entries are: in every column exactly `entries` of ±1; ±1 and 0; or any integers. */
  readonly values: "signs" | "signs and 0" | "integers";
  /** Where the few entries of a column are, in blocks, one each, or anywhere; absent where columns are full. */
  readonly few?: "blocks" | "anywhere";
  readonly scaleSquared: (projection: Readonly<Projection>) => Ratio;
  readonly law: (projection: Readonly<Projection>) => VarianceLaw;
  /** The exact second and fourth moment of an entry of A, of P for fjlt, where laws follow from them. */
  readonly moments?: (projection: Readonly<Projection>) => Moments;
  /** Whether k and the other fields keep the limits of the kind; absent for k of at most 2^16. */
  readonly fits?: (projection: Readonly<Projection>) => boolean;
  /** Absent for 256. */
  readonly mostIndependence?: number;
  /** Whether noise may be added behind a first step of the map. */
  readonly hasPlaceBehind?: boolean;
}

type Moments = readonly [Ratio, Ratio];

const WORDS = 1n << 64n;
const ZERO = new Ratio(0n), ONE = new Ratio(1n);

function ratio(numerator: bigint | number, denominator: bigint | number = 1n): Ratio {
  return new Ratio(BigInt(numerator), BigInt(denominator));
}

/** Return N, the least power of two that is at least dim. */
export function padded(dim: bigint): bigint {
  return dim <= 1n ? 1n : 1n << BigInt((dim - 1n).toString(2).length);
}

function isPower(value: number): boolean {
  return value > 0 && (BigInt(value) & BigInt(value - 1)) === 0n;
}

// --- moments -----------------------------------------------------------------------------------------------------

const MOMENTS = new Map<string, Moments>();

function momentsOf(projection: Readonly<Projection>): Moments {
  const { fields, moments } = KINDS[projection.kind];
  const name = [projection.kind, ...fields.map((field) => projection[field as keyof Projection])].join();
  let found = MOMENTS.get(name);
  if (found === undefined) {
    if (MOMENTS.size > 64) MOMENTS.clear();
    MOMENTS.set(name, (found = (moments as (projection: Readonly<Projection>) => Moments)(projection)));
  }
  return found;
}

/** Return the moments of ±1 and 0, of which a share of 1/s is not 0. */
function momentsOfSigns(sparsity: number): Moments {
  const s = BigInt(sparsity);
  const most = 2n * ((WORDS + s) / (2n * s));
  const share = new Ratio(most < WORDS ? most : WORDS, WORDS);
  return [share, share];
}

function momentsOfUniform({ fractionBits }: Readonly<Projection>): Moments {
  const n = 1 << (fractionBits as number);
  const width = BigInt(2 * n + 1);
  const thresholds = Array.from({ length: 2 * n + 2 }, (_, i) => (BigInt(i) * WORDS + width - 1n) / width);
  return sums(n, thresholds, ONE);
}

function momentsOfGaussian({ fractionBits, density }: Readonly<Projection>): Moments {
  const { largest, thresholds } = gaussianTable(fractionBits as number);
  return sums(largest, thresholds, density ?? ONE);
}

function sums(largest: number, thresholds: readonly bigint[], share: Ratio): Moments {
  let [second, fourth] = [0n, 0n];
  for (let i = 0; i + 1 < thresholds.length; i++) {
    const square = BigInt(i - largest) ** 2n;
    const weight = square * (thresholds[i + 1] - thresholds[i]);
    second += weight;
    fourth += square * weight;
  }
  return [new Ratio(second, WORDS).times(share), new Ratio(fourth, WORDS).times(share)];
}

function kurtosisOf(projection: Readonly<Projection>): Ratio {
  const [second, fourth] = momentsOf(projection);
  return fourth.over(second.times(second));
}

// --- laws --------------------------------------------------------------------------------------------------------

function independent(k: number, kurtosis: Ratio): VarianceLaw {
  const excess = kurtosis.subtract(ratio(3));
  const isNormal = excess.magnitude().compare(ratio(1, 10n ** 9n)) <= 0;
  return { a: ratio(1, k), b: ratio(1, k), c: isNormal ? ZERO : excess.over(ratio(k)) };
}

function independentEntries(projection: Readonly<Projection>): VarianceLaw {
  return independent(projection.sketchDim, kurtosisOf(projection));
}

function bins(p: Ratio): VarianceLaw {
  return { a: p, b: p, c: p.times(ratio(-2)) };
}

function lawOfSrht({ sketchDim, dim }: Readonly<Projection>): VarianceLaw {
  const [size, cells] = [padded(dim), BigInt(sketchDim)];
  return bins(new Ratio(size - cells, cells * (size > 2n ? size - 1n : 1n)));
}

function lawOfBins({ sketchDim, dim: d }: Readonly<Projection>): VarianceLaw {
  if (d === 1n) return bins(ZERO);
  const cells = BigInt(sketchDim);
  const [n, m] = [d / cells, d % cells];
  return bins(new Ratio(m * (n + 1n) * n + (cells - m) * n * (n - 1n), d * (d - 1n)));
}

function lawOfRotation({ sketchDim: k, dim: d, fractionBits }: Readonly<Projection>): VarianceLaw {
  const cells = BigInt(k);
  const r = ratio(1, 12n * 4n ** BigInt(fractionBits as number));
  const h = new Ratio(d - cells, cells * (d + 2n) * (d > 2n ? d - 1n : 1n));
  const rounding = ratio(2).times(r).add(r.times(r)).over(ratio(k));
  const scale = ONE.add(r).times(ONE.add(r));
  return {
    a: ratio(d).times(h).add(rounding).over(scale),
    b: ratio(d - 2n).times(h).add(rounding).over(scale),
    c: ratio(-6).times(r).times(r).over(ratio(5 * k).times(scale)),
  };
}

function lawOfFjlt(projection: Readonly<Projection>): VarianceLaw {
  const e = kurtosisOf(projection).subtract(ratio(3)).over(ratio(padded(projection.dim)));
  const all = ratio(projection.sketchDim);
  return { a: ONE.add(e).over(all), b: ONE.add(e).add(e).over(all), c: ratio(-2).times(e).over(all) };
}

// --- the table ---------------------------------------------------------------------------------------------------

const T = ["independence"];
const one = (): number => 1;
const cells = ({ sketchDim }: Readonly<Projection>): number => sketchDim;
const sparsityOf = ({ sparsity }: Readonly<Projection>): number => sparsity as number;
const unscaled = (): Ratio => ONE;
const byCells = ({ sketchDim }: Readonly<Projection>): Ratio => ratio(1, sketchDim);
const bySparsity = ({ sparsity }: Readonly<Projection>): Ratio => ratio(1, sparsity as number);
const byMoments = (projection: Readonly<Projection>): Ratio => ONE.over(ratio(projection.sketchDim).times(momentsOf(projection)[0]));
const ofSigns = ({ sketchDim }: Readonly<Projection>): VarianceLaw => independent(sketchDim, ONE);

export const KINDS: Readonly<Record<string, Kind>> = {
  "sjlt-block": {
    fields: [...T, "sparsity"], entries: sparsityOf, values: "signs", few: "blocks", scaleSquared: bySparsity, law: ofSigns,
    fits: ({ sketchDim: k, sparsity }) => k % (sparsity as number) === 0 && isPower(k / (sparsity as number)),
  },
  "sjlt-graph": {
    fields: [...T, "sparsity"], entries: sparsityOf, values: "signs", few: "anywhere", scaleSquared: bySparsity, law: ofSigns,
    fits: ({ sketchDim: k, sparsity }) => (sparsity as number) <= Math.min(k, 4096),
  },
  "count-sketch": { fields: T, entries: one, values: "signs", few: "blocks", scaleSquared: unscaled, law: ofSigns, fits: ({ sketchDim }) => isPower(sketchDim) },
  rademacher: { fields: T, entries: cells, values: "signs", scaleSquared: byCells, law: ofSigns, fits: () => true },
  oporp: { fields: T, entries: one, values: "signs", few: "anywhere", scaleSquared: unscaled, law: lawOfBins, fits: ({ sketchDim: k, dim }) => BigInt(k) <= dim },
  "very-sparse": {
    fields: [...T, "sparsity"], entries: cells, values: "signs and 0", scaleSquared: byMoments, law: independentEntries,
    moments: ({ sparsity }) => momentsOfSigns(sparsity as number),
  },
  achlioptas: { fields: T, entries: cells, values: "signs and 0", scaleSquared: byMoments, law: independentEntries, moments: () => momentsOfSigns(3) },
  uniform: { fields: [...T, "fractionBits"], entries: cells, values: "integers", scaleSquared: byMoments, law: independentEntries, moments: momentsOfUniform },
  gaussian: {
    fields: [...T, "fractionBits"], entries: cells, values: "integers", scaleSquared: byMoments, law: independentEntries,
    moments: momentsOfGaussian, mostIndependence: 4096,
  },
  srht: {
    fields: T, entries: cells, values: "signs", scaleSquared: byCells, law: lawOfSrht,
    fits: ({ sketchDim: k, dim }) => k <= 2 ** 16 && BigInt(k) <= padded(dim),
  },
  fjlt: {
    fields: [...T, "fractionBits", "density"], entries: cells, values: "integers", law: lawOfFjlt, moments: momentsOfGaussian, hasPlaceBehind: true,
    scaleSquared: (projection) => byMoments(projection).over(ratio(padded(projection.dim))),
    fits: ({ sketchDim: k, dim, density }) => {
      const size = BigInt(k) * padded(dim);
      const { numerator, denominator } = density as Ratio;
      return k <= 2 ** 16 && size <= 1n << 35n && numerator * size <= denominator << 26n;
    },
  },
  rotation: {
    fields: [...T, "fractionBits"], entries: cells, values: "integers", law: lawOfRotation,
    scaleSquared: ({ sketchDim: k, fractionBits }) => ONE.over(ratio(k).times(ratio(4n ** BigInt(fractionBits as number)).add(ratio(1, 12)))),
    fits: ({ sketchDim: k, dim }) => BigInt(k) <= dim && k <= 2 ** 12 && BigInt(k) * dim <= 1n << 30n,
  },
  identity: {
    fields: [], entries: one, values: "signs", few: "anywhere", scaleSquared: unscaled, law: () => bins(ZERO),
    fits: ({ sketchDim: k, dim, seed }) => BigInt(k) === dim && k <= 2 ** 24 && seed === 0n,
  },
};

/** What the fields may be that some kinds have. */
export const RANGES: Readonly<Record<string, (value: never) => boolean>> = {
  sparsity: (s: number) => s >= 1 && s <= 2 ** 24,
  independence: (t: number) => t >= 4 && t <= 4096,
  fractionBits: (f: number) => f >= 2 && f <= 12,
  density: ({ numerator, denominator }: Ratio) => numerator > 0n && numerator <= denominator && (1n << 30n) % denominator === 0n,
};

/** The fields that some kinds have, and their types. */
export const OWN_FIELDS: readonly (readonly [name: string, type: string])[] = Object.values(SCHEMAS.Projection)
  .filter(([, , rule]) => rule === "optional")
  .map(([name, type]) => [name, type]);

// --- what follows ------------------------------------------------------------------------------------------------

/** Return scale² of a projection. */
export function scaleSquared(projection: Readonly<Projection>): Ratio {
  return KINDS[projection.kind].scaleSquared(projection);
}

/** Return a, b and c of a projection. */
export function varianceLaw(projection: Readonly<Projection>): VarianceLaw {
  return KINDS[projection.kind].law(projection);
}

/** Return a, b and c of what comes behind noise before the map. */
export function lawBehind(projection: Readonly<Projection>, place: string): VarianceLaw {
  return place === "hadamard" ? independentEntries(projection) : varianceLaw(projection);
}

/** Return how many entries of a column are not 0, at most. */
export function entriesOf(projection: Readonly<Projection>): number {
  return KINDS[projection.kind].entries(projection);
}

/** Return s of a map that hashes an index to few of its cells; 0 of others. */
export function fewEntries(projection: Readonly<Projection>): number {
  const s = entriesOf(projection);
  const { few } = KINDS[projection.kind];
  return few === "anywhere" || (few === "blocks" && 2 * s <= projection.sketchDim) ? s : 0;
}
