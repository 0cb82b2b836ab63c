/** Local reports and means: what a phone sends, and what a server adds up. */
import { demand, need, WireFormatError } from "./errors.ts";
import { limitsWith, type Limits } from "./limits.ts";
import type { Bytes } from "./bytes.ts";
import { halfBits, halfOf } from "./floats.ts";
import { readFrame, writeFrame } from "./frame.ts";
import { Integers } from "./integers.ts";
import {
  capOf, checkMechanism, completes, countOf, FLOATS, frameOf, gaussianNoise, honestLengths, innerDim, isCompressed, longestContribution,
  mechanismFingerprint, normBound, paddedDim, projUnitNumbers, sizeOf, sphereDim, stepExponent, totalsOf, type Cap,
} from "./local_mechanisms.ts";
import { normalOf, portableQuantile, rowsOf, saltOf, signsOf, streamOf, transform, vectorOf, wordOf } from "./local_words.ts";
import { Matrix, rotation, roundToEven } from "./matrix.ts";
import { Ratio } from "./exact.ts";
import { scaleSquared } from "./projection.ts";
import { secretWords, systemBits, type SecretBits } from "./secret.ts";
import type { LocalMechanism, Projection } from "./types.ts";

const UNSEEDED = ["priv-unit", "priv-unit-g", "comp-priv-unit-g", "gaussian"];
const OF_BITS = ["priv-hs", "re-priv-hs", "sqkr"];
const MOST_STEPS = 2 ** 32, MOST_COUNT = 2 ** 31, FLUSH = 2 ** 20;
const LENGTH_TOLERANCE = 1e-5, TINY = 2 ** -500, SEEDS_TRIED = 8;

// --- maps of reports' seeds ------------------------------------------------------------------------------------

function integerMatrix(kind: "rotation" | "gaussian", dim: number, k: number, seed: bigint): Float64Array[] | null {
  if (kind === "rotation") return rotation(dim, k, seed, 8, 12);
  const projection: Projection = { kind, dim: BigInt(dim), sketchDim: k, seed, resolution: new Ratio(1n), independence: 8, fractionBits: 12 };
  const matrix = new Matrix(projection, { maxEntries: 2 ** 40 });
  const rows = Array.from({ length: k }, () => new Float64Array(dim));
  for (let j = 0; j < dim; j++) {
    const column = matrix.column(BigInt(j));
    column.rows.forEach((row, i) => (rows[row][j] = column.entries[i]));
  }
  return rows;
}

/** Return W of a report's seed, k rows of D: a rotation or a Gaussian map, at its scale. */
function matrixOf(kind: "rotation" | "gaussian", dim: number, k: number, seed: bigint): Float64Array[] {
  for (let shift = 0; shift < SEEDS_TRIED; shift++) {
    const found = integerMatrix(kind, dim, k, (seed + BigInt(shift)) & 0xffffffffffffffffn);
    if (found === null) continue;
    const projection = { kind, dim: BigInt(dim), sketchDim: k, fractionBits: 12 } as Projection;
    const squared = scaleSquared(projection);
    const scale = Math.sqrt(squared.toNumber());
    return found.map((row) => row.map((entry) => entry * scale));
  }
  throw new WireFormatError("all eight seeds of a map are invalid");
}

const SHARED = new Map<string, Float64Array[]>();

function sharedMatrix(mechanism: LocalMechanism): Float64Array[] {
  const d = sphereDim(mechanism);
  const name = `${d} ${mechanism.seed}`;
  let found = SHARED.get(name);
  if (found === undefined) {
    if (SHARED.size > 4) SHARED.clear();
    SHARED.set(name, (found = matrixOf("rotation", d, d, mechanism.seed as bigint)));
  }
  return found;
}

/** Return D·H·x/√k of a vector in rows' coordinates, its first D coordinates. */
function back(spread: Float64Array, seed: bigint, mechanism: LocalMechanism): Float64Array {
  const d = sphereDim(mechanism);
  const signs = signsOf(streamOf(seed, saltOf(mechanism.seed as bigint, "proj-unit/signs")), d);
  const root = Math.sqrt(mechanism.sketchDim as number);
  transform(spread);
  return Float64Array.from(signs, (sign, j) => (sign * spread[j]) / root);
}

function rowsFor(seed: bigint, mechanism: LocalMechanism): number[] {
  const start = streamOf(seed, saltOf(mechanism.seed as bigint, "proj-unit/rows"));
  return rowsOf(start, paddedDim(mechanism), mechanism.sketchDim as number);
}

// --- reports ---------------------------------------------------------------------------------------------------

/** What one person's report says: its public seed, and its values; of compressed reports a word. */
export interface Report {
  readonly seed: bigint;
  readonly values: readonly number[] | Float64Array;
  readonly word: bigint;
}

function valuesOf(data: Uint8Array, mechanism: LocalMechanism): { values: Float64Array; word: bigint } {
  const { kind } = mechanism;
  const count = countOf(mechanism);
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  if (OF_BITS.includes(kind)) {
    need(data.length === Math.ceil(count / 8), "another number of bits");
    need(count % 8 === 0 || data[data.length - 1] >> (count % 8) === 0, "bits behind the last one");
    return { values: Float64Array.from({ length: count }, (_, i) => (data[i >> 3] >> (i & 7)) & 1), word: 0n };
  }
  if (isCompressed(mechanism)) {
    need(data.length === 8, "another number of values");
    return { values: new Float64Array(0), word: view.getBigUint64(0, true) };
  }
  const size = kind === "gaussian" ? 4 : FLOATS[mechanism.precision as string].size;
  need(data.length === count * size, "another number of values");
  const at = (i: number) =>
    kind === "gaussian" ? view.getInt32(4 * i, true) : size === 4 ? view.getFloat32(4 * i, true) : halfOf(view.getUint16(2 * i, true));
  const values = Float64Array.from({ length: count }, (_, i) => at(i));
  need(values.every(Number.isFinite), "values that are not finite");
  return { values, word: 0n };
}

/**
 * Return what a report says.
 *
 * @throws WireFormatError if it is no report for this mechanism, or longer or shorter than an honest one
 */
export function readReport(data: Uint8Array, mechanism: LocalMechanism, limits: Partial<Limits> = {}): Report {
  const message = readFrame("LocalReport", data, limits);
  need(message.mechanism === mechanismFingerprint(mechanism), "a report of another mechanism");
  need(message.seed === 0n || !UNSEEDED.includes(mechanism.kind), "a seed, which the kind has not");
  const { values, word } = valuesOf(message.values, mechanism);
  const [least, most] = honestLengths(mechanism);
  const squared = values.reduce((sum, value) => sum + value * value, 0);
  need(isCompressed(mechanism) || (squared >= least ** 2 && squared <= most ** 2), "a length that no honest report has");
  return { seed: message.seed, values, word };
}

/** Return a report's contribution, in real units. */
function contributionOf({ seed, values, word }: Report, mechanism: LocalMechanism): Float64Array {
  const { kind } = mechanism;
  if (OF_BITS.includes(kind)) return ofDirections(seed, values, mechanism);
  if (kind === "gaussian") {
    const factor = 0.5 ** gaussianNoise(mechanism).bits;
    return Float64Array.from(values, (value) => value * factor);
  }
  if (isCompressed(mechanism)) {
    const { scale } = capOf(mechanism);
    values = vectorOf(word, saltOf(mechanism.seed as bigint, `${kind}/candidates`), innerDim(mechanism)).map((one) => one * scale);
  }
  if (kind !== "proj-unit") return Float64Array.from(values);
  const k = mechanism.sketchDim as number;
  const { factor } = projUnitNumbers(mechanism);
  const sent = Float64Array.from(values.slice(0, k), (value) => value * factor);
  if (mechanism.rotation === "hadamard" || mechanism.shared) {
    const spread = new Float64Array(paddedDim(mechanism));
    rowsFor(seed, mechanism).forEach((row, i) => (spread[row] = sent[i]));
    return mechanism.shared ? spread : back(spread, seed, mechanism);
  }
  const d = sphereDim(mechanism);
  const total = new Float64Array(d);
  matrixOf(mechanism.rotation === "haar" ? "rotation" : "gaussian", d, k, seed).forEach((row, i) => {
    for (let j = 0; j < d; j++) total[j] += sent[i] * row[j];
  });
  return total;
}

function ofDirections(seed: bigint, values: ArrayLike<number>, mechanism: LocalMechanism): Float64Array {
  const { kind } = mechanism;
  const [d, size, own] = [sphereDim(mechanism), sizeOf(mechanism), mechanism.seed as bigint];
  if (kind === "sqkr" && mechanism.rotation === "hadamard") {
    const cells = new Float64Array(totalsOf(mechanism));
    const length = size * Math.sqrt(cells.length / d);
    rowsOf(streamOf(seed, saltOf(own, "sqkr/rows")), cells.length, values.length).forEach((row, i) => (cells[row] = (2 * values[i] - 1) * length));
    return cells;
  }
  const total = new Float64Array(d);
  const start = streamOf(seed, saltOf(own, `${kind}/directions`));
  const entries = saltOf(own, `${kind}/entries`);
  for (let r = 0; r < values.length; r++) {
    const g = vectorOf(wordOf(start, r), entries, d);
    const length = Math.sqrt(g.reduce((sum, one) => sum + one * one, 0));
    for (let j = 0; j < d; j++) total[j] += ((2 * values[r] - 1) / length) * g[j];
  }
  return total.map((cell) => cell * size);
}

// --- a server --------------------------------------------------------------------------------------------------

/** Adds reports up, and estimates the mean of the people's vectors. Order does not matter, and sums are exact. */
export class MeanAggregator {
  readonly mechanism: LocalMechanism;
  readonly stepExponent: number;
  #count = 0;
  #totals: bigint[];
  readonly #added: Float64Array;

  constructor(mechanism: LocalMechanism) {
    checkMechanism(mechanism);
    this.mechanism = mechanism;
    this.stepExponent = stepExponent(mechanism);
    this.#added = new Float64Array(totalsOf(mechanism));
    this.#totals = Array.from(this.#added, () => 0n);
  }

  /** How many reports were added. */
  get count(): number {
    return this.#count;
  }

  /** The totals, in steps. */
  get totals(): readonly bigint[] {
    this.#flush();
    return this.#totals;
  }

  #flush(): void {
    this.#totals = this.#totals.map((total, i) => total + BigInt(this.#added[i]));
    this.#added.fill(0);
  }

  /** Add a report's bytes; a report that is refused changes nothing. */
  add(data: Uint8Array, limits: Partial<Limits> = {}): void {
    demand(this.#count + 1 < MOST_COUNT, "too many reports");
    const step = 2 ** this.stepExponent;
    const steps = contributionOf(readReport(data, this.mechanism, limits), this.mechanism).map((one) => roundToEven(one / step));
    need(steps.every((one) => Math.abs(one) <= MOST_STEPS), "a contribution beyond the range of the mechanism");
    for (let i = 0; i < steps.length; i++) this.#added[i] += steps[i];
    this.#count++;
    if (this.#count % FLUSH === 0) this.#flush();
  }

  /** Return the estimate of the mean: dim numbers. */
  mean(): Float64Array {
    demand(this.#count > 0, "there is no report yet");
    const { mechanism } = this;
    const step = 2 ** this.stepExponent;
    const mean = Float64Array.from(this.totals, (total) => (Number(total) * step) / this.#count);
    return meanOf(mean, mechanism).slice(0, mechanism.dim);
  }

  /** Return the bytes of a mean, which others can read and add to. */
  toBytes(): Bytes {
    const totals = Integers.of(this.totals).toMessage();
    return writeFrame("LocalMean", { mechanism: this.mechanism, count: this.#count, totals, stepExponent: this.stepExponent });
  }

  /**
   * Return what has been added up, from a mean's bytes.
   *
   * @throws WireFormatError if the bytes are no mean, or one that no reports add up to
   */
  static read(data: Uint8Array, changes: Partial<Limits> = {}): MeanAggregator {
    const limits = limitsWith(changes);
    const message = readFrame("LocalMean", data, limits);
    checkMechanism(message.mechanism);
    need(message.count < MOST_COUNT, "too many reports");
    const totals = new Integers(message.totals);
    const { mechanism } = message;
    need(totals.length === totalsOf(mechanism), "another number of totals");
    need(totals.width === totals.leastWidth(), "totals at more than their least width");
    const found = new MeanAggregator(mechanism);
    need(message.stepExponent === found.stepExponent, "another step than the mechanism's");
    const most = BigInt(message.count) << 32n;
    found.#totals = totals.toArray();
    need(found.#totals.every((total) => total <= most && -total <= most), "totals above 2^32 for each report");
    const step = 2 ** found.stepExponent;
    const length = Math.sqrt(found.#totals.reduce((sum, total) => sum + Number(total) ** 2, 0)) * step;
    const longest = message.count * (longestContribution(mechanism) + (step * Math.sqrt(totals.length)) / 2);
    need(message.count === 0 ? length === 0 : length <= longest * (1 + 1e-6), "totals longer than honest ones");
    found.#count = message.count;
    return found;
  }
}

function meanOf(mean: Float64Array, mechanism: LocalMechanism): Float64Array {
  if (mechanism.kind === "sqkr" && mechanism.rotation === "hadamard") {
    const [size, places] = frameOf(mechanism);
    const signs = signsOf(streamOf(0n, saltOf(mechanism.seed as bigint, "kashin/signs")), places.length);
    transform(mean);
    return Float64Array.from(places, (place, j) => (signs[j] * mean[place]) / Math.sqrt(size));
  }
  if (mechanism.kind !== "proj-unit" || !mechanism.shared) return mean;
  if (mechanism.rotation === "hadamard") return back(mean, 0n, mechanism);
  const d = sphereDim(mechanism);
  const factor = Math.sqrt(d / (mechanism.sketchDim as number));
  const out = new Float64Array(d);
  sharedMatrix(mechanism).forEach((row, i) => {
    for (let j = 0; j < d; j++) out[j] += mean[i] * row[j];
  });
  return out.map((cell) => cell * factor);
}

// --- a phone ---------------------------------------------------------------------------------------------------

/**
 * Return one person's locally private report of a vector, by `priv-unit-g` or an uncompressed `proj-unit`.
 *
 * The guarantee, for any two vectors, is that of the distribution over real numbers. In floating point the set of
 * possible values depends on the vector in their last bits, and no bound is known on what this reveals; float16 reports
 * show fewer of these bits. How long it takes does not depend on the vector, as far as the engine's arithmetic does not.
 *
 * @param vector dim numbers, of Euclidean length 1 within 1e-5; at most that for a mechanism of vectors in a ball
 * @param bits the secret bits; another source than the operating system's is for tests alone
 */
export function randomize(mechanism: LocalMechanism, vector: ArrayLike<number>, bits: SecretBits = systemBits): Bytes {
  checkMechanism(mechanism);
  const { kind } = mechanism;
  demand((kind === "priv-unit-g" || kind === "proj-unit") && !isCompressed(mechanism), "reports are made by priv-unit-g and by proj-unit that is not compressed");
  const unit = onSphere(vector, mechanism);
  let [seed, values] = [0n, unit];
  if (kind === "proj-unit") {
    const words = secretWords(bits, 1);
    seed = (BigInt(words[1]) << 32n) | BigInt(words[0]);
    values = randomizeUnit(directionOf(unit, seed, mechanism), capOf(mechanism), bits).slice(0, mechanism.sketchDim);
  } else {
    const length = Math.sqrt(sumOfSquares(unit));
    values = randomizeUnit(unit.map((cell) => cell / length), capOf(mechanism), bits);
  }
  const { size } = FLOATS[mechanism.precision as string];
  const data = new Uint8Array(size * values.length);
  const view = new DataView(data.buffer);
  values.forEach((value, i) => (size === 4 ? view.setFloat32(4 * i, value, true) : view.setUint16(2 * i, halfBits(value), true)));
  return writeFrame("LocalReport", { mechanism: mechanismFingerprint(mechanism), seed, values: data });
}

function sumOfSquares(cells: Float64Array): number {
  return cells.reduce((sum, cell) => sum + cell * cell, 0);
}

function onSphere(vector: ArrayLike<number>, mechanism: LocalMechanism): Float64Array {
  demand(vector.length === mechanism.dim, `a vector of ${vector.length} numbers; the mechanism takes ${mechanism.dim}`);
  const cells = Float64Array.from(vector);
  const squares = sumOfSquares(cells);
  const off = mechanism.ball ? squares - 1 : Math.abs(squares - 1);
  demand(off <= 2 * LENGTH_TOLERANCE, `a vector has a length of ${mechanism.ball ? "at most " : ""}1, within ${LENGTH_TOLERANCE}`);
  return mechanism.ball ? Float64Array.of(...cells, Math.sqrt(Math.max(0, 1 - squares))) : cells;
}

/** Return PrivUnitG of a vector of length 1: k + 2 words of secret bits. */
function randomizeUnit(unit: Float64Array, cap: Cap, bits: SecretBits): Float64Array {
  const words = secretWords(bits, unit.length + 2);
  const noise = Float64Array.from(unit, (_, i) => normalOf(words[2 * i + 4], words[2 * i + 5]));
  const along = capHeight(uniformOf(words[0], words[1]), uniformOf(words[2], words[3]), cap);
  let inner = 0;
  for (let i = 0; i < unit.length; i++) inner += noise[i] * unit[i];
  const missing = along - inner;
  return noise.map((cell, i) => (cell + missing * unit[i]) * cap.scale);
}

/** Return (the upper 52 bits of a word + ½)/2^52. */
function uniformOf(low: number, high: number): number {
  return (high * 2 ** 20 + (low >>> 12) + 0.5) * 2 ** -52;
}

/** Return a ~ N(0, 1) given a ≥ g if the coin is below p, else given a < g. Both cases are computed. */
function capHeight(coin: number, place: number, cap: Cap): number {
  const above = portableQuantile(cap.mass * place);
  const below = portableQuantile((1 - cap.mass) * place);
  return coin < cap.inside ? -above : below;
}

/** Return the input of PrivUnitG: Wv/‖Wv‖, or (Wv, √(C - ‖Wv‖²))/√C. */
function directionOf(unit: Float64Array, seed: bigint, mechanism: LocalMechanism): Float64Array {
  const k = mechanism.sketchDim as number;
  const projected = project(unit, seed, mechanism);
  const length = Math.sqrt(sumOfSquares(projected));
  // computed for every report, as whether it is needed reveals something about the vector
  const instead = signsOf(streamOf(seed, saltOf(mechanism.seed as bigint, "proj-unit/no-direction")), k);
  const isNothing = length < TINY;
  const divisor = isNothing ? Math.sqrt(k) : length;
  const direction = projected.map((cell, i) => (isNothing ? instead[i] : cell) / divisor);
  if (!completes(mechanism)) return direction;
  const within = Math.min((isNothing ? 0 : length) / Math.sqrt(normBound(mechanism)), 1);
  return Float64Array.of(...direction.map((cell) => cell * within), Math.sqrt(1 - within ** 2));
}

function project(unit: Float64Array, seed: bigint, mechanism: LocalMechanism): Float64Array {
  const k = mechanism.sketchDim as number;
  const own = mechanism.seed as bigint;
  const d = unit.length;
  if (mechanism.rotation === "hadamard") {
    const signs = signsOf(streamOf(mechanism.shared ? 0n : seed, saltOf(own, "proj-unit/signs")), d);
    const cells = new Float64Array(paddedDim(mechanism));
    for (let j = 0; j < d; j++) cells[j] = signs[j] * unit[j];
    transform(cells);
    return Float64Array.from(rowsFor(seed, mechanism), (row) => cells[row] / Math.sqrt(k));
  }
  const inner = (row: Float64Array) => row.reduce((sum, entry, j) => sum + entry * unit[j], 0);
  if (mechanism.shared) {
    const matrix = sharedMatrix(mechanism);
    return Float64Array.from(rowsFor(seed, mechanism), (row) => inner(matrix[row]) * Math.sqrt(d / k));
  }
  return Float64Array.from(matrixOf(mechanism.rotation === "haar" ? "rotation" : "gaussian", d, k, seed), inner);
}
