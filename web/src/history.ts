/** Ranges of windows, solved from the rows of a schedule: WIRE.md, "Schedules and histories". */
import { equalBytes } from "./bytes.ts";
import { scheduleOf } from "./checks.ts";
import { demand } from "./errors.ts";
import { floorDivide, gcd, Ratio } from "./exact.ts";
import { Integers } from "./integers.ts";
import { Release } from "./release.ts";
import type { Schedule } from "./types.ts";

const ZERO = new Ratio(0n);
const MOST_WINDOWS = 2048; // the work grows with their square

/** Windows from `start` up to `stop`, without it, less those from `minusStart` to `minusStop`. */
export interface Windows {
  readonly start: number;
  readonly stop: number;
  readonly minusStart?: number;
  readonly minusStop?: number;
}

/** Return the first `count` rows of C. */
export function matrixOf(schedule: Readonly<Schedule>, count = schedule.horizon): bigint[][] {
  demand(count <= MOST_WINDOWS, `a schedule of ${count} windows, and at most ${MOST_WINDOWS} are solved`);
  const rows = Array.from({ length: count }, () => new Array<bigint>(count).fill(0n));
  if (schedule.kind === "factorisation") blocksOf(schedule, count).forEach((blocks, t) => fillRow(rows[t], blocks, schedule.bits as number));
  else {
    const firsts = schedule.kind === "tree" ? firstsOf(schedule.horizon, schedule.depth as number) : null;
    rows.forEach((row, t) => row.fill(1n, firsts === null ? t : (firsts.get(t) as number), t + 1));
  }
  return rows;
}

/** Return a_t of a tree: the first window in row t. */
function firstsOf(horizon: number, depth: number): Map<number, number> {
  const windows = (d: number, n: number) => {
    let found = 1;
    for (let i = 1; i <= d && found <= 2 * horizon + 2; i++) found = (found * (n + i)) / i;
    return found - 1;
  };
  const found = new Map<number, number>();
  const fill = (start: number, d: number, n: number): void => {
    if (n === 0 || start >= horizon) return;
    if (d > 1) fill(start, d - 1, n);
    const closing = start + windows(d - 1, n);
    found.set(closing, start);
    fill(closing + 1, d, n - 1);
  };
  let n = 1;
  while (windows(depth, n) < horizon) n++;
  fill(0, depth, n);
  return found;
}

/** Return the blocks of windows of each row of a factorisation, oldest first, as places where they start and stop. */
function blocksOf(schedule: Readonly<Schedule>, count: number): [number, number][][] {
  const rows: [number, number][][] = [];
  let held: [number, number][] = [];
  for (let t = 0; t < count; t++) {
    held = [...held, [t, t + 1]];
    if (schedule.band !== undefined) held = held.slice(-schedule.band);
    for (let size = 1; schedule.band === undefined; size *= 2) {
      const places = held.flatMap(([start, stop], i) => (stop - start === size ? [i] : []));
      if (places.length <= (schedule.blocks as number)) break;
      held.splice(places[0], 2, [held[places[0]][0], held[places[0] + 1][1]]);
    }
    rows.push([...held]);
  }
  return rows;
}

const ROOTS: Ratio[] = [new Ratio(1n)];

/** Return c_n = C(2n, n)/4^n. */
function rootOf(n: number): Ratio {
  for (let i = ROOTS.length; i <= n; i++) ROOTS.push(ROOTS[i - 1].times(new Ratio(BigInt(2 * i - 1), BigInt(2 * i))));
  return ROOTS[n];
}

function fillRow(row: bigint[], blocks: readonly (readonly [number, number])[], bits: number): void {
  const t = blocks[blocks.length - 1][0];
  for (const [start, stop] of blocks) {
    let sum = ZERO;
    for (let i = start; i < stop; i++) sum = sum.add(rootOf(t - i));
    row.fill(rounded(sum.times(new Ratio(1n << BigInt(bits), BigInt(stop - start)))), start, stop);
  }
}

/** Return the nearest integer, ties to even. */
function rounded({ numerator, denominator }: Ratio): bigint {
  const floor = floorDivide(numerator, denominator);
  const twice = 2n * (numerator - floor * denominator);
  return twice > denominator || (twice === denominator && floor % 2n !== 0n) ? floor + 1n : floor;
}

/** Return w with wᵀC = 1 at the windows added, -1 at those subtracted, and 0 at others: one for each row up to the last. */
export function weightsOfRange(schedule: Readonly<Schedule>, windows: Windows): Ratio[] {
  const { start, stop, minusStart = 0, minusStop = 0 } = windows;
  const isRange = (a: number, b: number) => Number.isInteger(a) && Number.isInteger(b) && a >= 0 && a < b && b <= schedule.horizon;
  demand(isRange(start, stop) && (minusStop === 0 || isRange(minusStart, minusStop)), "windows out of range");
  const count = Math.max(stop, minusStop);
  const c = matrixOf(schedule, count);
  const found = new Array<Ratio>(count).fill(ZERO);
  for (let j = count - 1; j >= 0; j--) {
    let left = new Ratio(BigInt(Number(j >= start && j < stop) - Number(j >= minusStart && j < minusStop)));
    for (let t = j + 1; t < count; t++) if (c[t][j] !== 0n && found[t].numerator !== 0n) left = left.subtract(found[t].times(new Ratio(c[t][j])));
    found[j] = left.over(new Ratio(c[j][j]));
  }
  return found;
}

/**
 * Return the release of a range of windows from the rows of one key's history, row 0 first.
 *
 * Its cells are in steps of 2^-g, with g the schedule's `bits`: 0 of trees and of windows by themselves.
 */
export function rangeOf(rows: readonly Release[], windows: Windows): Release {
  const [first] = rows;
  const schedule = first === undefined ? null : scheduleOf(first.guarantee);
  demand(schedule !== null && rows.every((row, t) => row.history?.row === true && row.history.start === t), "rows are those of a history, from row 0 on");
  const ids = first.dataIds.join();
  demand(rows.every((row) => row.dataIds.join() === ids && equalBytes(row.message.history?.id as Uint8Array, first.message.history?.id as Uint8Array)), "rows are of one history, and of the same data");
  const weights = weightsOfRange(schedule, windows);
  demand(weights.length <= rows.length, `windows up to ${weights.length} take as many rows, and there are ${rows.length}`);
  const scale = new Ratio(1n << BigInt(schedule.bits ?? 0));
  const solved = (numbers: readonly Integers[]) => {
    const common = weights.reduce((found, weight) => (found * weight.denominator) / gcd(found, weight.denominator), 1n);
    const whole = weights.map((weight) => weight.numerator * (common / weight.denominator));
    const values = Array.from({ length: numbers[0].length }, (_, i) => {
      const sum = whole.reduce((found, weight, t) => (weight === 0n ? found : found + weight * numbers[t].at(i)), 0n);
      return schedule.bits === undefined ? BigInt.asIntN(64, sum) : rounded(new Ratio(sum, common).times(scale));
    });
    return Integers.of(values).toMessage();
  };
  const squares = weights.reduce((sum, weight) => sum.add(weight.times(weight)), ZERO);
  const fourths = weights.reduce((sum, weight) => sum.add(weight.times(weight).times(weight).times(weight)), ZERO);
  const { counts: _, ...rest } = first.message;
  const isCounted = !windows.minusStop && rows.every((row) => row.counts !== null);
  return new Release({
    ...rest,
    values: solved(rows.map((row) => row.cells)),
    noise: {
      place: "",
      k2: Ratio.of(first.noise.k2).times(scale).times(scale).times(squares).toNumber(),
      k4: Ratio.of(first.noise.k4).times(scale).times(scale).times(scale).times(scale).times(fourths).toNumber(),
    },
    multiplier: new Ratio(1n).over(scale),
    history: {
      id: first.message.history?.id as Uint8Array<ArrayBuffer>, row: false, start: windows.start, stop: windows.stop,
      minusStart: windows.minusStart ?? 0, minusStop: windows.minusStop ?? 0,
    },
    ...(isCounted ? { counts: solved(rows.map((row) => row.counts as Integers)) } : {}),
  });
}
