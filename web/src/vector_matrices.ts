/** Matrices that vectors can have, near given ones: of cosines, inner products, squared distances. WIRE.md, "All pairs together". */
import { axesOf, composed } from "./eigen.ts";
import { cosinesOf } from "./joint_fit.ts";

const PROJECTIONS = 24;
const LEAST_EIGENVALUE = 1e-12;
const QUIETEST = 0.1;

/** Return positive semidefinite cosines near these; hidden streams are fitted to the others, which are projected alone. */
export function nearestCosines(given: Float64Array, n: number, hidden: readonly boolean[]): Float64Array {
  let cosines = given;
  const kept = hidden.some(Boolean) && !hidden.every(Boolean) ? hidden.map((one) => !one) : hidden.map(() => false);
  const places = kept.flatMap((one, a) => (one ? [a] : []));
  if (places.length > 0) {
    const part = nearestCosines(Float64Array.from(places.flatMap((i) => places.map((j) => given[i * n + j]))), places.length, places.map(() => false));
    cosines = given.slice();
    places.forEach((i, a) => places.forEach((j, b) => (cosines[i * n + j] = part[a * places.length + b])));
  }
  const isKept = (at: number): boolean => at % (n + 1) === 0 || (kept[Math.floor(at / n)] && kept[at % n]);
  if (isPositive(cosines, n)) return cosines;
  const projected = alternated(cosines, (moved) => positivePart(moved, n), (positive) => positive.map((one, at) => (isKept(at) ? cosines[at] : one)));
  return cosinesOf(positivePart(projected, n), n);
}

/** Return the nearest inner products and squared norms that vectors can have, measured in their noises. */
export function nearestProducts(products: Float64Array, noises: readonly number[]): Float64Array {
  const n = noises.length;
  const units = unitsOf(noises);
  const scaled = products.map((one, at) => one / (units[Math.floor(at / n)] * units[at % n]));
  if (isPositive(scaled, n)) return products;
  return positivePart(scaled, n).map((one, at) => one * units[Math.floor(at / n)] * units[at % n]);
}

/** Return squared distances of points near these, measured in the noises of both: those with x'Dx <= 0 for all x of sum 0. */
export function nearestDistances(squares: Float64Array, noises: readonly number[]): Float64Array {
  const n = noises.length;
  const units = unitsOf(noises);
  const sizes = squares.map((_, at) => units[Math.floor(at / n)] * units[at % n]);
  const scaled = squares.map((one, at) => one / sizes[at]);
  const length = units.reduce((sum, unit) => sum + 1 / unit ** 2, 0);
  const centre = sizes.map((size, at) => (at % (n + 1) === 0 ? 1 : 0) - 1 / (size * length));
  const beyond = (matrix: Float64Array): Float64Array => times(times(centre, matrix, n), centre, n);
  const project = (matrix: Float64Array): Float64Array => {
    const taken = positivePart(beyond(matrix), n);
    return matrix.map((one, at) => one - taken[at]);
  };
  if (isPositive(beyond(scaled).map((one) => -one), n)) return squares;
  const hollow = (matrix: Float64Array): Float64Array => matrix.map((one, at) => (at % (n + 1) === 0 ? 0 : one));
  const last = project(alternated(scaled, project, hollow)).map((one, at) => one * sizes[at]);
  return hollow(last.map((one, at) => Math.max(one - (last[Math.floor(at / n) * (n + 1)] + last[(at % n) * (n + 1)]) / 2, 0)));
}

/** Return a matrix after projections on a cone and on a plane in turn, with Dykstra's correction for the cone. */
function alternated(matrix: Float64Array, project: (matrix: Float64Array) => Float64Array, restore: (matrix: Float64Array) => Float64Array): Float64Array {
  let projected = matrix;
  let correction = new Float64Array(matrix.length);
  for (let round = 0; round < PROJECTIONS; round++) {
    const moved = projected.map((one, at) => one - correction[at]);
    const inside = project(moved);
    correction = inside.map((one, at) => one - moved[at]);
    projected = restore(inside);
  }
  return projected;
}

/** Return noises, at least a tenth of the loudest. */
function unitsOf(noises: readonly number[]): number[] {
  const loudest = Math.max(...noises);
  return noises.map((noise) => Math.max(noise, QUIETEST * loudest));
}

function isPositive(matrix: Float64Array, n: number): boolean {
  let trace = 0;
  for (let i = 0; i < n; i++) trace += matrix[i * (n + 1)];
  return axesOf(matrix, n).values.every((value) => value >= -LEAST_EIGENVALUE * trace);
}

function times(first: Float64Array, second: Float64Array, n: number): Float64Array {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) for (let a = 0; a < n; a++) for (let j = 0; j < n; j++) out[i * n + j] += first[i * n + a] * second[a * n + j];
  return out;
}

function positivePart(matrix: Float64Array, n: number): Float64Array {
  const { values, vectors } = axesOf(matrix, n);
  return composed(values.map((value) => Math.max(value, 0)), vectors, n);
}
