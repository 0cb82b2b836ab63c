/** Streams as points of a plane that keep squared distances as well as possible (Torgerson 1952). */
import { axesOf } from "../eigen.ts";

const AT_ONCE = 8;
const ROUNDS = 30;

/** Squared distances of n streams, n·n, with both parts of their variances. */
export interface Squares {
  readonly value: Float64Array;
  readonly ofMap: Float64Array;
  readonly ofNoise: Float64Array;
}

/** An ellipse that holds a place with about 95 % confidence: half axes, and the angle of the first in degrees. */
export type Ellipse = readonly [number, number, number];

const RADIUS = 2.447746830680816; // √χ²(0.95) of two degrees of freedom

/** Return the ellipses of n places, by the covariances of streamsketch.report.pictures.classical_scaling. */
export function ellipses(squares: Squares, found: readonly (readonly [number, number])[]): Ellipse[] {
  const n = found.length;
  const lengths = [0, 1].map((axis) => found.reduce((sum, place) => sum + place[axis] ** 2, 0));
  const solve = found.map((place) => [0, 1].map((axis) => (lengths[axis] > 0 ? place[axis] / (2 * lengths[axis]) : 0)));
  const { value, ofMap, ofNoise } = squares;
  return found.map((_, point) => {
    const at = point * n;
    const roots = Float64Array.from({ length: n }, (_, other) => Math.sqrt(Math.max(value[at + other], 0)));
    const sums = [0, 0, 0]; // of xx, xy and yy
    for (let i = 0; i < n; i++) {
      if (i === point) continue;
      for (let j = 0; j <= i; j++) {
        if (j === point) continue;
        const scale = roots[i] * roots[j];
        const product = (value[at + i] + value[at + j] - value[i * n + j]) / 2;
        const cosine = i === j ? 1 : scale > 0 ? Math.min(Math.max(product / scale, -1), 1) : 0;
        const joint = Math.sqrt(ofMap[at + i] * ofMap[at + j]) * cosine ** 2 + Math.sqrt(ofNoise[at + i] * ofNoise[at + j]) * (i === j ? 1 : cosine / 2);
        const twice = i === j ? 1 : 2;
        sums[0] += twice * joint * solve[i][0] * solve[j][0];
        sums[1] += (twice / 2) * joint * (solve[i][0] * solve[j][1] + solve[i][1] * solve[j][0]);
        sums[2] += twice * joint * solve[i][1] * solve[j][1];
      }
    }
    const middle = (sums[0] + sums[2]) / 2;
    const spread = Math.hypot((sums[0] - sums[2]) / 2, sums[1]);
    const angle = (Math.atan2(2 * sums[1], sums[0] - sums[2]) / 2) * (180 / Math.PI);
    return [RADIUS * Math.sqrt(Math.max(middle + spread, 0)), RADIUS * Math.sqrt(Math.max(middle - spread, 0)), angle];
  });
}

/** Return n places, their mean at the origin, for n·n squared distances. */
export function places(squares: Float64Array, n: number): [number, number][] {
  const means = new Float64Array(n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) means[i] += squares[i * n + j] / n;
  const mean = means.reduce((sum, one) => sum + one, 0) / n;
  const centred = new Float64Array(n * n);
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) centred[i * n + j] = -(squares[i * n + j] - means[i] - means[j] + mean) / 2;
  const many = Math.min(AT_ONCE, n);
  // columns that are the same each time; orthogonal iteration finds the largest eigenvalues, of either sign
  let basis: Float64Array[] = Array.from({ length: many }, (_, column) => Float64Array.from({ length: n }, (_, row) => Math.sin((row + 1) * (column + 1) * 1.7 + column)));
  orthogonal(basis);
  for (let round = 0; round < ROUNDS; round++) {
    basis = basis.map((column) => times(centred, column, n));
    orthogonal(basis);
  }
  const images = basis.map((column) => times(centred, column, n));
  const small = new Float64Array(many * many);
  for (let i = 0; i < many; i++) for (let j = 0; j < many; j++) small[i * many + j] = (dot(basis[i], images[j]) + dot(basis[j], images[i])) / 2;
  const { values, vectors } = axesOf(small, many);
  const first = Array.from(values.keys()).sort((a, b) => values[b] - values[a]).slice(0, 2);
  const axes = [0, 1].map((axis) => {
    const place = first[axis];
    if (place === undefined || !(values[place] > 0)) return new Float64Array(n);
    const found = Float64Array.from({ length: n }, (_, row) => basis.reduce((sum, column, which) => sum + column[row] * vectors[which * many + place], 0) * Math.sqrt(values[place]));
    const most = found.reduce((best, one) => (Math.abs(one) > Math.abs(best) ? one : best), 0);
    return most < 0 ? found.map((one) => -one) : found;
  });
  return Array.from({ length: n }, (_, row) => [axes[0][row], axes[1][row]]);
}

function times(matrix: Float64Array, column: Float64Array, n: number): Float64Array {
  const found = new Float64Array(n);
  for (let i = 0, at = 0; i < n; i++) {
    let sum = 0;
    for (let j = 0; j < n; j++, at++) sum += matrix[at] * column[j];
    found[i] = sum;
  }
  return found;
}

function dot(first: Float64Array, second: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < first.length; i++) sum += first[i] * second[i];
  return sum;
}

/** Make columns orthonormal, in place; those that depend on others become 0. */
function orthogonal(columns: Float64Array[]): void {
  columns.forEach((column, place) => {
    const before = Math.sqrt(dot(column, column));
    for (let twice = 0; twice < 2; twice++) {
      for (const other of columns.slice(0, place)) {
        const share = dot(column, other);
        for (let i = 0; i < column.length; i++) column[i] -= share * other[i];
      }
    }
    const length = Math.sqrt(dot(column, column));
    const scale = length > 1e-12 * before ? 1 / length : 0;
    for (let i = 0; i < column.length; i++) column[i] *= scale;
  });
}

/** Return the share of two axes in the sum of positive eigenvalues of the centred squared distances, 0 to 1. */
export function shareOf(squares: Float64Array, n: number): number {
  const means = Float64Array.from({ length: n }, (_, i) => squares.subarray(i * n, (i + 1) * n).reduce((sum, one) => sum + one, 0) / n);
  const mean = means.reduce((sum, one) => sum + one, 0) / n;
  const centred = squares.map((one, at) => -0.5 * (one - means[Math.floor(at / n)] - means[at % n] + mean));
  const positive = axesOf(centred, n).values.filter((one) => one > 0).sort((a, b) => b - a);
  const all = positive.reduce((sum, one) => sum + one, 0);
  return all > 0 ? ((positive[0] ?? 0) + (positive[1] ?? 0)) / all : 0;
}
