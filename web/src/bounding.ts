/** What one unit may add to a table: its rows are netted, it keeps some keys, and the rest is clipped, in integers. */
import { abs, integerRoot, type Ratio } from "./exact.ts";
import { Matrix } from "./matrix.ts";
import { scaleSquared } from "./projection.ts";
import type { Projection } from "./types.ts";
import type { Digest, Key, UnitDraws } from "./unit_draws.ts";

const MOST = 1n << 62n, HALF = 1n << 31n, LEAST_SCALED = 1n << 60n, FRACTION = 32n;

/** Exact, secret sums of a key: cells modulo 2^64, in grid steps, how many units are left in it, and their total. */
export interface Sums {
  readonly cells: bigint[];
  units: bigint;
  total: bigint;
}

/** A relation that units are clipped to. */
export interface Relation {
  readonly relation: string;
  readonly bound: Ratio;
  readonly maxKeys: number;
}

/** A unit's rows: grid steps by key and index. */
export type UnitRows = ReadonlyMap<Key, ReadonlyMap<bigint, bigint>>;

/** Return ⌊bound/resolution⌋, or ⌊bound/cell⌋ for bounds on sketches. */
export function limitOf(projection: Readonly<Projection>, { relation, bound }: Relation): bigint {
  if (relation !== "sketch-l2") return bound.over(projection.resolution).floor();
  const unit = scaleSquared(projection).times(projection.resolution).times(projection.resolution);
  return integerRoot(bound.times(bound).over(unit).floor());
}

/** Exact sums of keys, to which units are added. */
export class ExactTable {
  readonly sums = new Map<Key, Sums>();
  readonly #projection: Readonly<Projection>;
  readonly #matrix: Matrix;

  constructor(projection: Readonly<Projection>) {
    this.#projection = projection;
    this.#matrix = new Matrix(projection);
  }

  /** Return the sums of a key, which are 0 if it is new. */
  of(key: Key): Sums {
    let found = this.sums.get(key);
    if (found === undefined) {
      found = { cells: Array.from({ length: this.#projection.sketchDim }, () => 0n), units: 0n, total: 0n };
      this.sums.set(key, found);
    }
    return found;
  }

  /** Add what a unit has left once it is clipped; nothing depends on other units, or on the order of rows. */
  addUnit(rows: UnitRows, unit: Digest, relation: Relation, clip: string, draws: UnitDraws): void {
    const kept = draws.kept(unit, rows, relation.maxKeys);
    const limit = limitOf(this.#projection, relation);
    if (relation.relation === "sketch-l2") {
      this.#addCells(kept, limit, clip === "equal");
      return;
    }
    for (const [key, steps] of kept) {
      const left = [...steps].filter(([, step]) => step !== 0n);
      if (left.length === 0) continue;
      const clipped = clippedSum(new Map(left), limit, clip, (indices) => draws.shuffled(unit, key, indices));
      const sums = this.of(key);
      this.#addTo(sums.cells, clipped);
      sums.units++;
      for (const step of clipped.values()) sums.total = BigInt.asIntN(64, sums.total + abs(step));
    }
  }

  /** Add rows that nothing clips. */
  addRows(rows: UnitRows): void {
    for (const [key, steps] of rows) this.#addTo(this.of(key).cells, steps);
  }

  #addTo(cells: bigint[], steps: ReadonlyMap<bigint, bigint>): void {
    for (const [index, step] of steps) {
      if (step === 0n) continue;
      const { rows, entries } = this.#matrix.column(index);
      rows.forEach((row, i) => (cells[row] = BigInt.asIntN(64, cells[row] + step * BigInt(entries[i]))));
    }
  }

  #addCells(kept: UnitRows, limit: bigint, isEqual: boolean): void {
    const found = new Map<Key, Map<number, bigint>>();
    for (const [key, steps] of kept) {
      const cells = new Map<number, bigint>();
      for (const [index, step] of steps) {
        if (step === 0n) continue;
        const { rows, entries } = this.#matrix.column(index);
        rows.forEach((row, i) => cells.set(row, BigInt.asIntN(64, (cells.get(row) ?? 0n) + step * BigInt(entries[i]))));
      }
      found.set(key, cells);
    }
    const scale = scaleOf([...found.values()].flatMap((cells) => [...cells.values()]), limit, isEqual);
    for (const [key, cells] of found) {
      const left = [...cells].map(([row, step]) => [row, scale(step)] as const).filter(([, step]) => step !== 0n);
      if (left.length === 0) continue;
      const sums = this.of(key);
      for (const [row, step] of left) sums.cells[row] = BigInt.asIntN(64, sums.cells[row] + step);
      sums.units++;
    }
  }
}

/** Return a unit's steps in a key, clipped to Σ|step| ≤ limit: scaled as a whole, or taken in a shuffled order. */
function clippedSum(steps: ReadonlyMap<bigint, bigint>, limit: bigint, clip: string, shuffled: (indices: readonly bigint[]) => bigint[]): ReadonlyMap<bigint, bigint> {
  let all = 0n;
  for (const step of steps.values()) all += abs(step);
  if (all <= limit) return steps;
  const out = new Map<bigint, bigint>();
  let [before, taken] = [0n, 0n];
  for (const index of shuffled([...steps.keys()])) {
    const step = steps.get(index) as bigint;
    before += abs(step);
    // scaled, each sum of the first ones is rounded down, so that all sum to the limit
    const upTo = clip === "cut" ? (before < limit ? before : limit) : (before * limit) / all;
    out.set(index, step > 0n ? upTo - taken : taken - upTo);
    taken = upTo;
  }
  return out;
}

/** Return how a unit's cells are brought to Σ cells² ≤ limit²: scaled alike, rounded toward zero. */
function scaleOf(cells: readonly bigint[], limit: bigint, isEqual: boolean): (cell: bigint) => bigint {
  const sizes = cells.map(abs);
  const squares = (shift: bigint): bigint => sizes.reduce((sum, size) => sum + (size >> shift) ** 2n, 0n);
  const isWithin = (shift: bigint): boolean => sizes.every((size) => size >> shift < HALF) && squares(shift) < MOST;
  const norm = squares(0n);
  if (norm === 0n || (norm <= limit * limit && !isEqual)) return (cell) => cell;
  let [right, left] = [0n, 0n];
  while (!isWithin(right)) right++;
  let total = squares(right);
  while (right === 0n && total < LEAST_SCALED) {
    total <<= 2n;
    left++;
  }
  const root = integerRoot(total - 1n) + 1n; // rounded up
  const ratio = (limit << FRACTION) / root;
  return (cell) => {
    const size = (((abs(cell) >> right) << left) * ratio) >> FRACTION;
    return cell < 0n ? -size : size;
  };
}
