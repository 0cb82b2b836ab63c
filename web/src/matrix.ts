/** The columns of a projection's matrix, rebuilt from its seed. */
import { demand } from "./errors.ts";
import { bitLength, Ratio } from "./exact.ts";
import { gaussianTable } from "./gaussian.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { padded } from "./projection.ts";
import type { Projection } from "./types.ts";
import { elements, mix, polynomials } from "./words64.ts";

/** The entries of a column that are not 0, by ascending rows. */
export interface Column {
  readonly rows: Int32Array;
  readonly entries: Float64Array;
}

const WORDS = 1n << 64n;
const INNER_BITS = 8;
const SUMS_PER_ENTRY = 64; // a product of integers is so much quicker than a random word

/** A projection's matrix A, a column at a time. */
export class Matrix {
  readonly projection: Readonly<Projection>;
  readonly #maxEntries: number;
  readonly #coefficients = new Map<string, Uint32Array>();
  #places: Uint32Array | null = null;
  #sparse: { places: Int32Array; entries: Float64Array }[] | null = null;
  #rows: Float64Array[] | null = null;

  constructor(projection: Readonly<Projection>, limits: Partial<Limits> = {}) {
    this.projection = projection;
    this.#maxEntries = limitsWith(limits).maxEntries;
  }

  /**
   * Return a column.
   *
   * @throws InvalidInputError if it takes more entries of a random matrix than the limits allow
   */
  column(index: bigint): Column {
    const { kind, dim } = this.projection;
    demand(index >= 0n && index < dim, `index ${index} is not in 0 … ${dim - 1n}`);
    switch (kind) {
      case "sjlt-block":
      case "count-sketch":
      case "rademacher":
        return this.#blocks(index);
      case "sjlt-graph":
        return this.#graph(index);
      case "oporp":
        return this.#bins(index);
      case "identity":
        return { rows: Int32Array.of(Number(index)), entries: Float64Array.of(1) };
      case "srht":
        return this.#hadamardRows(index);
      case "fjlt":
        return this.#fast(index);
      case "rotation":
        this.#rows ??= this.#rotation();
        return dense(this.#rows.map((row) => row[Number(index)]));
      default:
        return this.#independent(index);
    }
  }

  /** Return the values at `index` of the polynomials of a label, as pairs of halves. */
  #words(label: string, count: number, index: bigint): Uint32Array<ArrayBuffer> {
    const t = this.projection.independence as number;
    let found = this.#coefficients.get(label);
    if (found === undefined) {
      this.#allow(count * t);
      this.#coefficients.set(label, (found = elements(this.projection.seed, label, count * t)));
    }
    return polynomials(found, count, index);
  }

  #allow(entries: number): void {
    demand(entries <= this.#maxEntries, `this matrix takes ${entries} random words, and at most ${this.#maxEntries} are read (maxEntries)`);
  }

  #blocks(index: bigint): Column {
    const { kind, sketchDim: k } = this.projection;
    const s = kind === "rademacher" ? k : kind === "count-sketch" ? 1 : (this.projection.sparsity as number);
    const buckets = k / s;
    const width = Math.log2(buckets) + 1;
    const words = Math.ceil(s / Math.floor(64 / width));
    const perWord = Math.ceil(s / words);
    const drawn = this.#words(kind, words, index);
    const [rows, entries] = [new Int32Array(s), new Float64Array(s)];
    for (let r = 0; r < s; r++) {
      const word = 2 * Math.floor(r / perWord);
      const start = (r % perWord) * width;
      let bits = 0;
      for (let bit = 0; bit < width; bit++) {
        const place = start + bit;
        bits |= ((drawn[word + (place >> 5)] >>> (place & 31)) & 1) << bit;
      }
      const top = 1 << (width - 1);
      rows[r] = r * buckets + (bits & (top - 1));
      entries[r] = bits & top ? -1 : 1;
    }
    return { rows, entries };
  }

  #graph(index: bigint): Column {
    const { sketchDim: k } = this.projection;
    const s = this.projection.sparsity as number;
    const drawn = new BigUint64Array(this.#words("sjlt-graph", s, index).buffer);
    const chosen = new Map<number, number>();
    drawn.forEach((word, r) => {
      const last = k - s + r;
      const row = Number(((word & ((1n << 63n) - 1n)) * BigInt(last + 1)) >> 63n);
      chosen.set(chosen.has(row) ? last : row, word >> 63n ? -1 : 1);
    });
    const rows = Int32Array.from(chosen.keys()).sort();
    return { rows, entries: Float64Array.from(rows, (row) => chosen.get(row) as number) };
  }

  #bins(index: bigint): Column {
    const { dim, sketchDim, seed } = this.projection;
    const k = BigInt(sketchDim);
    const place = permuted(index, dim, seed, "oporp/permutation");
    const [n, m] = [dim / k, dim % k];
    const bin = place < m * (n + 1n) ? place / (n + 1n) : m + (place - m * (n + 1n)) / n;
    return { rows: Int32Array.of(Number(bin)), entries: Float64Array.of(this.#sign(index)) };
  }

  #sign(index: bigint): number {
    return this.#words(this.projection.kind, 1, index)[1] >>> 31 ? -1 : 1;
  }

  #independent(index: bigint): Column {
    const { kind, sketchDim: k } = this.projection;
    const drawn = new BigUint64Array(this.#words(kind, k, index).buffer);
    return dense(Array.from(drawn, (word) => entryOf(this.projection, word)));
  }

  #hadamardRows(index: bigint): Column {
    const { dim, sketchDim: k, seed } = this.projection;
    const size = padded(dim);
    const sign = this.#sign(index);
    if (this.#places === null) {
      this.#places = new Uint32Array(2 * k);
      for (let i = 0; i < k; i++) {
        const row = permuted(BigInt(i), size, seed, "srht/rows");
        this.#places[2 * i] = Number(row & 0xffffffffn);
        this.#places[2 * i + 1] = Number(row >> 32n);
      }
    }
    const [low, high] = [Number(index & 0xffffffffn), Number(index >> 32n)];
    const places = this.#places;
    return dense(Array.from({ length: k }, (_, i) => sign * parity((places[2 * i] & low) ^ (places[2 * i + 1] & high))));
  }

  #fast(index: bigint): Column {
    const { dim, sketchDim: k, fractionBits } = this.projection;
    const size = Number(padded(dim));
    if (this.#sparse === null) {
      this.#allow(2 * k * size);
      const density = this.projection.density as Ratio;
      const most = (density.numerator << 64n) / density.denominator;
      const rows: { places: number[]; entries: number[] }[] = Array.from({ length: k }, () => ({ places: [], entries: [] }));
      for (let place = 0; place < size; place++) {
        const chances = new BigUint64Array(this.#words("fjlt/places", k, BigInt(place)).buffer);
        const drawn = new BigUint64Array(this.#words("fjlt/entries", k, BigInt(place)).buffer);
        for (let row = 0; row < k; row++) {
          if (chances[row] >= most) continue;
          rows[row].places.push(place);
          rows[row].entries.push(gaussianEntry(drawn[row], fractionBits as number));
        }
      }
      this.#sparse = rows.map(({ places, entries }) => ({ places: Int32Array.from(places), entries: Float64Array.from(entries) }));
    }
    const sign = this.#sign(index);
    const at = Number(index);
    return dense(this.#sparse.map(({ places, entries }) => {
      let sum = 0;
      for (let i = 0; i < places.length; i++) sum += entries[i] * parity(places[i] & at);
      return sign * sum;
    }));
  }

  #rotation(): Float64Array[] {
    const { dim, sketchDim, seed, independence, fractionBits } = this.projection;
    this.#allow((sketchDim * sketchDim * Number(dim)) / SUMS_PER_ENTRY + sketchDim * Number(dim));
    const found = rotation(Number(dim), sketchDim, seed, independence as number, fractionBits as number);
    demand(found !== null, "there is no such rotation: the seed is invalid");
    return found;
  }
}

function dense(values: readonly number[]): Column {
  const rows = Int32Array.from(values.keys()).filter((row) => values[row] !== 0);
  return { rows, entries: Float64Array.from(rows, (row) => values[row]) };
}

function parity(word: number): number {
  word ^= word >>> 16;
  word ^= word >>> 8;
  word ^= word >>> 4;
  return (0x6996 >>> (word & 15)) & 1 ? -1 : 1;
}

function entryOf(projection: Readonly<Projection>, word: bigint): number {
  const { kind, fractionBits } = projection;
  if (kind === "gaussian") return gaussianEntry(word, fractionBits as number);
  if (kind === "uniform") {
    const n = 1 << (fractionBits as number);
    return Number((word * BigInt(2 * n + 1)) >> 64n) - n;
  }
  const s = BigInt(kind === "achlioptas" ? 3 : (projection.sparsity as number));
  const half = (WORDS + s) / (2n * s);
  return word < half ? 1 : word >= WORDS - half ? -1 : 0;
}

/** Return G_f of a word: a rounded normal number. */
export function gaussianEntry(word: bigint, fractionBits: number): number {
  const { largest, thresholds } = gaussianTable(fractionBits);
  let [low, high] = [0, thresholds.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (thresholds[middle] <= word) low = middle;
    else high = middle;
  }
  return low - largest;
}

const ROUND_KEYS = new Map<string, bigint[]>();

/** Return the image of a place under the permutation of [0, size). */
function permuted(place: bigint, size: bigint, seed: bigint, label: string): bigint {
  const bits = Math.max(2, bitLength(size - 1n));
  const lowerBits = bits >> 1;
  const rounds = Math.max(8, Math.ceil(80 / lowerBits));
  const name = `${seed} ${label} ${rounds}`;
  let keys = ROUND_KEYS.get(name);
  if (keys === undefined) {
    keys = Array.from(new BigUint64Array(elements(seed, label, rounds + (rounds % 2)).buffer as ArrayBuffer));
    if (ROUND_KEYS.size > 64) ROUND_KEYS.clear();
    ROUND_KEYS.set(name, keys);
  }
  const [lower, upper] = [(1n << BigInt(lowerBits)) - 1n, (1n << BigInt(bits - lowerBits)) - 1n];
  for (;;) {
    let [high, low] = [place >> BigInt(lowerBits), place & lower];
    keys.forEach((key, turn) => {
      if (turn % 2 === 0) high ^= mix(low ^ key) & upper;
      else low ^= mix(high ^ key) & lower;
    });
    place = (high << BigInt(lowerBits)) | low;
    if (place < size) return place;
  }
}

/** Return the rows of A of a rotation, one IEEE operation at a time; null where the seed has none. */
export function rotation(dim: number, k: number, seed: bigint, independence: number, fractionBits: number): Float64Array[] | null {
  const coefficients = elements(seed, "gaussian", k * independence);
  const g = Array.from({ length: k }, () => new Float64Array(dim));
  for (let j = 0; j < dim; j++) {
    const drawn = new BigUint64Array(polynomials(coefficients, k, BigInt(j)).buffer);
    for (let i = 0; i < k; i++) g[i][j] = gaussianEntry(drawn[i], INNER_BITS);
  }
  const m = g.map((one) => Float64Array.from(g, (other) => one.reduce((sum, entry, j) => sum + entry * other[j], 0)));
  const least = m.map((row, i) => row[i] * 2 ** -40);
  const x = g.map((_, i) => Float64Array.from({ length: k }, (__, j) => (i === j ? 1 : 0)));
  for (let i = 0; i < k; i++) {
    if (m[i][i] <= least[i]) return null;
    const root = Math.sqrt(m[i][i]);
    const v = Float64Array.from({ length: k }, (_, a) => m[a][i] / root);
    for (let a = i + 1; a < k; a++) for (let b = i + 1; b < k; b++) m[a][b] -= v[a] * v[b];
    for (let b = 0; b < k; b++) x[i][b] /= v[i];
    for (let a = i + 1; a < k; a++) for (let b = 0; b <= i; b++) x[a][b] -= v[a] * x[i][b];
  }
  const size = Math.sqrt(dim) * 2 ** fractionBits;
  let widest = 0;
  for (const row of x) {
    for (let b = 0; b < k; b++) {
      row[b] *= size;
      widest = Math.max(widest, Math.abs(row[b]));
    }
  }
  const h = Math.min(24, 51 - Math.floor(Math.log2(widest * k * gaussianTable(INNER_BITS).largest)));
  return x.map((row) => {
    const whole = row.map((entry) => roundToEven(entry * 2 ** h));
    return Float64Array.from({ length: dim }, (_, j) => {
      let sum = 0;
      for (let i = 0; i < k; i++) sum += whole[i] * g[i][j];
      return Math.floor(sum * 2 ** -h + 0.5);
    });
  });
}

/** Return the nearest integer, ties to even. */
export function roundToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest < 0.5) return floor;
  if (rest > 0.5) return floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}
