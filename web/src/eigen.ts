/** Eigenvalues and axes of symmetric matrices: Householder's reflections to three diagonals, then implicit QL steps. */

const MOST_STEPS = 60; // for an eigenvalue, which takes two or three
const EPSILON = 2 ** -52;

/** A symmetric matrix as Σ values[a]·v_a·v_aᵀ. */
export interface Axes {
  readonly values: Float64Array;
  /** Entry i·n + a is that of axis a in row i. */
  readonly vectors: Float64Array;
}

/** Return the axes of a symmetric matrix of n·n numbers. */
export function axesOf(matrix: Float64Array, n: number): Axes {
  const v = Float64Array.from(matrix);
  const [d, e] = [new Float64Array(n), new Float64Array(n)];
  reduce(v, d, e, n);
  diagonalise(v, d, e, n);
  return { values: d, vectors: v };
}

/** Return Σ_a values[a]·v_a·v_aᵀ. */
export function composed(values: Float64Array, vectors: Float64Array, n: number): Float64Array {
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let sum = 0;
      for (let a = 0; a < n; a++) sum += vectors[i * n + a] * values[a] * vectors[j * n + a];
      out[i * n + j] = out[j * n + i] = sum;
    }
  }
  return out;
}

/** Reduce v to the diagonals d and e, and leave the product of all reflections in v (Wilkinson and Reinsch, tred2). */
function reduce(v: Float64Array, d: Float64Array, e: Float64Array, n: number): void {
  for (let j = 0; j < n; j++) d[j] = v[(n - 1) * n + j];
  for (let i = n - 1; i > 0; i--) {
    let [scale, h] = [0, 0];
    for (let k = 0; k < i; k++) scale += Math.abs(d[k]);
    if (scale === 0) {
      e[i] = d[i - 1];
      for (let j = 0; j < i; j++) {
        d[j] = v[(i - 1) * n + j];
        v[i * n + j] = v[j * n + i] = 0;
      }
    } else {
      for (let k = 0; k < i; k++) h += (d[k] /= scale) * d[k];
      const f = d[i - 1];
      const g = f > 0 ? -Math.sqrt(h) : Math.sqrt(h);
      e[i] = scale * g;
      h -= f * g;
      d[i - 1] = f - g;
      e.fill(0, 0, i);
      for (let j = 0; j < i; j++) {
        const own = d[j];
        v[j * n + i] = own;
        let sum = e[j] + v[j * n + j] * own;
        for (let k = j + 1; k < i; k++) {
          sum += v[k * n + j] * d[k];
          e[k] += v[k * n + j] * own;
        }
        e[j] = sum;
      }
      let along = 0;
      for (let j = 0; j < i; j++) along += (e[j] /= h) * d[j];
      for (let j = 0; j < i; j++) e[j] -= (along / (2 * h)) * d[j];
      for (let j = 0; j < i; j++) {
        for (let k = j; k < i; k++) v[k * n + j] -= d[j] * e[k] + e[j] * d[k];
        d[j] = v[(i - 1) * n + j];
        v[i * n + j] = 0;
      }
    }
    d[i] = h;
  }
  for (let i = 0; i < n - 1; i++) {
    v[(n - 1) * n + i] = v[i * n + i];
    v[i * n + i] = 1;
    const h = d[i + 1];
    if (h !== 0) {
      for (let k = 0; k <= i; k++) d[k] = v[k * n + i + 1] / h;
      for (let j = 0; j <= i; j++) {
        let sum = 0;
        for (let k = 0; k <= i; k++) sum += v[k * n + i + 1] * v[k * n + j];
        for (let k = 0; k <= i; k++) v[k * n + j] -= sum * d[k];
      }
    }
    for (let k = 0; k <= i; k++) v[k * n + i + 1] = 0;
  }
  for (let j = 0; j < n; j++) {
    d[j] = v[(n - 1) * n + j];
    v[(n - 1) * n + j] = 0;
  }
  if (n > 0) v[n * n - 1] = 1;
  e[0] = 0;
}

/** Turn the diagonals d and e into eigenvalues d, and v by as much (Wilkinson and Reinsch, tql2). */
function diagonalise(v: Float64Array, d: Float64Array, e: Float64Array, n: number): void {
  for (let i = 1; i < n; i++) e[i - 1] = e[i];
  if (n > 0) e[n - 1] = 0;
  let [shift, size] = [0, 0];
  for (let l = 0; l < n; l++) {
    size = Math.max(size, Math.abs(d[l]) + Math.abs(e[l]));
    let m = l;
    while (m < n - 1 && Math.abs(e[m]) > EPSILON * size) m++;
    for (let step = 0; m > l && Math.abs(e[l]) > EPSILON * size && step < MOST_STEPS; step++) {
      const before = d[l];
      let p = (d[l + 1] - before) / (2 * e[l]);
      let r = p < 0 ? -Math.hypot(p, 1) : Math.hypot(p, 1);
      d[l] = e[l] / (p + r);
      d[l + 1] = e[l] * (p + r);
      const next = d[l + 1];
      const moved = before - d[l];
      for (let i = l + 2; i < n; i++) d[i] -= moved;
      shift += moved;
      p = d[m];
      let [c, older, oldest, s, last] = [1, 1, 1, 0, 0];
      const off = e[l + 1];
      for (let i = m - 1; i >= l; i--) {
        [oldest, older, last] = [older, c, s];
        const g = c * e[i];
        const h = c * p;
        r = Math.hypot(p, e[i]);
        e[i + 1] = s * r;
        s = e[i] / r;
        c = p / r;
        p = c * d[i] - s * g;
        d[i + 1] = h + s * (c * g + s * d[i]);
        for (let k = 0; k < n; k++) {
          const at = k * n + i;
          const right = v[at + 1];
          v[at + 1] = s * v[at] + c * right;
          v[at] = c * v[at] - s * right;
        }
      }
      p = (-s * last * oldest * off * e[l]) / next;
      e[l] = s * p;
      d[l] = c * p;
    }
    d[l] += shift;
    e[l] = 0;
  }
}
