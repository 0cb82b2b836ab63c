/** Quantiles and distribution functions: normal, χ², and what they need. */

const CENTRAL = [
  [2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457, 13731.693765509461125,
    1971.5909503065514427, 133.14166789178437745, 3.387132872796366608],
  [5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867, 5394.1960214247511077,
    687.1870074920579083, 42.313330701600911252, 1],
] as const;
const TAIL = [
  [7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
    3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734],
  [1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
    0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1],
] as const;
const FAR_TAIL = [
  [2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
    0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772],
  [2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
    0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1],
] as const;

function horner(coefficients: readonly number[], at: number): number {
  let total = coefficients[0];
  for (let i = 1; i < coefficients.length; i++) total = total * at + coefficients[i];
  return total;
}

/**
 * Return -Φ⁻¹(p) for 0 < p ≤ ½, by algorithm AS 241 (PPND16), one IEEE operation at a time.
 *
 * @param log natural logarithm, which a caller may give to have the same bits everywhere
 */
export function upperQuantile(p: number, log: (p: number) => number = Math.log): number {
  const q = 0.5 - p;
  if (q <= 0.425) {
    const r = 0.180625 - q * q;
    return (q * horner(CENTRAL[0], r)) / horner(CENTRAL[1], r);
  }
  const r = Math.sqrt(-log(p));
  const [upper, lower] = r <= 5 ? TAIL : FAR_TAIL;
  const shifted = r - (r <= 5 ? 1.6 : 5);
  return horner(upper, shifted) / horner(lower, shifted);
}

/** Return Φ⁻¹(p) for 0 < p < 1. */
export function normalQuantile(p: number): number {
  return p <= 0.5 ? -upperQuantile(p) : upperQuantile(1 - p);
}

/** Return erfc(x) for x ≥ 0, times e^(x²) where `scaled`. */
function upperErf(x: number, scaled: boolean): number {
  if (x < 1) {
    let [term, total] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(total); n++) {
      term *= (2 * x * x) / (2 * n + 1);
      total += term;
    }
    const weight = Math.exp(-x * x);
    const found = 1 - (2 / Math.sqrt(Math.PI)) * total * weight;
    return scaled ? found / weight : found;
  }
  let fraction = 0; // Lentz is not needed: from the end up, so many terms leave less than 1e-16
  for (let n = x < 2.5 ? Math.ceil(750 / (x * x)) : 120; n > 0; n--) fraction = n / 2 / (x + fraction);
  const found = 1 / (Math.sqrt(Math.PI) * (x + fraction));
  return scaled ? found : found * Math.exp(-x * x);
}

/** Return the error function. */
export function erf(x: number): number {
  if (Math.abs(x) < 0.5) {
    let [term, total] = [x, x];
    for (let n = 1; Math.abs(term) > 1e-18 * Math.abs(total); n++) {
      term *= (-x * x) / n;
      total += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * total;
  }
  return Math.sign(x) * (1 - upperErf(Math.abs(x), false));
}

/** Return Φ(x). */
export function normalBelow(x: number): number {
  const half = Math.abs(x) / Math.SQRT2;
  const far = upperErf(half, false) / 2;
  return x < 0 ? far : 1 - far;
}

/** Return ln Γ(x) - (x - ½)·ln x + x - ½·ln 2π for x > 0. */
function stirlingRest(x: number): number {
  if (x < 16) return stirlingRest(x + 1) + ((x + 0.5) * Math.log1p(1 / x) - 1);
  const y = 1 / (x * x);
  return (1 / 12 - y * (1 / 360 - y * (1 / 1260 - y * (1 / 1680 - y * (1 / 1188 - (y * 691) / 360360))))) / x;
}

/** Return ln Γ(x) for x > 0. */
export function logGamma(x: number): number {
  return (x - 0.5) * Math.log(x) - x + 0.9189385332046728 + stirlingRest(x);
}

/** Return x^a·e^(-x)/Γ(a), accurately for large a. */
function gammaWeight(a: number, x: number): number {
  const gap = (x - a) / a;
  let excess = gap - Math.log1p(gap);
  if (Math.abs(gap) < 0.1) {
    excess = 0; // g - ln(1 + g) = g²/2 - g³/3 + …
    for (let n = 24; n >= 2; n--) excess = (n % 2 ? -1 : 1) / n + gap * excess;
    excess *= gap * gap;
  }
  return Math.sqrt(a / (2 * Math.PI)) * Math.exp(-a * excess - stirlingRest(a));
}

/** Return P(a, x) and Q(a, x), the regularised incomplete gamma functions. */
export function incompleteGamma(a: number, x: number): readonly [lower: number, upper: number] {
  if (x <= 0) return [0, 1];
  const weight = gammaWeight(a, x);
  if (x < a + 1) {
    let [term, total] = [1 / a, 1 / a];
    for (let place = a + 1; term > total * 1e-17; place++) {
      term *= x / place;
      total += term;
    }
    const lower = Math.min(weight * total, 1);
    return [lower, 1 - lower];
  }
  let b = x + 1 - a;
  let c = 1e300;
  let d = 1 / b;
  let h = d;
  for (let i = 1; i < 1e6; i++) {
    const factor = -i * (i - a);
    b += 2;
    d = 1 / (factor * d + b);
    c = b + factor / c;
    const step = d * c;
    h *= step;
    if (Math.abs(step - 1) < 1e-16) break;
  }
  const upper = Math.min(weight * h, 1);
  return [1 - upper, upper];
}

/** Return what a χ² variable exceeds with a probability, or is below with it. */
export function chiSquaredQuantile(freedom: number, probability: number, tail: "lower" | "upper"): number {
  const place = tail === "lower" ? 0 : 1;
  let [low, high] = [0, freedom + 40 * Math.sqrt(2 * freedom) + 1600];
  for (let i = 0; i < 200 && high - low > 1e-16 * high; i++) {
    const middle = (low + high) / 2;
    const found = incompleteGamma(freedom / 2, middle / 2)[place];
    if (found < probability === (tail === "lower")) low = middle;
    else high = middle;
  }
  return high;
}

/** Return erfc(x)·e^(x²) for x ≥ 0. */
export function scaledErfc(x: number): number {
  return upperErf(x, true);
}
