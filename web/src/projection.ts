/** Scales and variances of every kind of projection, as exact ratios. */
import { padded } from "./checks.ts";
import { Ratio } from "./exact.ts";
import { gaussianTable } from "./gaussian.ts";
import type { Projection } from "./types.ts";

/** Var⟨Sx, Sy⟩ = a‖x‖²‖y‖² + b⟨x, y⟩² + cΣx²y². */
export interface VarianceLaw {
  readonly a: Ratio;
  readonly b: Ratio;
  readonly c: Ratio;
}

const WORDS = 1n << 64n;
const ZERO = new Ratio(0n), ONE = new Ratio(1n);

function ratio(numerator: bigint | number, denominator: bigint | number = 1n): Ratio {
  return new Ratio(BigInt(numerator), BigInt(denominator));
}

/** Return the exact second and fourth moment of an entry of A, of P for fjlt. */
function moments(projection: Projection): readonly [Ratio, Ratio] {
  const { kind } = projection;
  if (kind === "very-sparse" || kind === "achlioptas") {
    const s = BigInt(kind === "achlioptas" ? 3 : (projection.sparsity as number));
    const most = 2n * ((WORDS + s) / (2n * s));
    const share = new Ratio(most < WORDS ? most : WORDS, WORDS);
    return [share, share];
  }
  const f = projection.fractionBits as number;
  if (kind === "uniform") {
    const n = 1 << f;
    const width = BigInt(2 * n + 1);
    const thresholds = Array.from({ length: 2 * n + 2 }, (_, i) => (BigInt(i) * WORDS + width - 1n) / width);
    return sums(n, thresholds, ONE);
  }
  const { largest, thresholds } = gaussianTable(f);
  return sums(largest, thresholds, kind === "fjlt" ? (projection.density as Ratio) : ONE);
}

const MOMENTS = new Map<string, readonly [Ratio, Ratio]>();

function momentsOf(projection: Projection): readonly [Ratio, Ratio] {
  const name = [projection.kind, projection.sparsity, projection.fractionBits, projection.density].join();
  let found = MOMENTS.get(name);
  if (found === undefined) {
    if (MOMENTS.size > 64) MOMENTS.clear();
    MOMENTS.set(name, (found = moments(projection)));
  }
  return found;
}

function sums(largest: number, thresholds: readonly bigint[], share: Ratio): readonly [Ratio, Ratio] {
  let [second, fourth] = [0n, 0n];
  for (let i = 0; i + 1 < thresholds.length; i++) {
    const square = BigInt(i - largest) ** 2n;
    const weight = square * (thresholds[i + 1] - thresholds[i]);
    second += weight;
    fourth += square * weight;
  }
  return [new Ratio(second, WORDS).times(share), new Ratio(fourth, WORDS).times(share)];
}

/** Return scale² of a projection. */
export function scaleSquared(projection: Projection): Ratio {
  const { kind, sketchDim: k } = projection;
  switch (kind) {
    case "sjlt-block":
    case "sjlt-graph":
      return ratio(1, projection.sparsity as number);
    case "count-sketch":
    case "oporp":
    case "identity":
      return ONE;
    case "rademacher":
    case "srht":
      return ratio(1, k);
    case "rotation":
      return ONE.over(ratio(k).times(ratio(4n ** BigInt(projection.fractionBits as number)).add(ratio(1, 12))));
    default:
      return ONE.over(ratio(BigInt(k) * (kind === "fjlt" ? padded(projection.dim) : 1n)).times(momentsOf(projection)[0]));
  }
}

function independent(k: number, kurtosis: Ratio): VarianceLaw {
  const excess = kurtosis.subtract(ratio(3));
  const isNormal = excess.magnitude().compare(ratio(1, 10n ** 9n)) <= 0;
  return { a: ratio(1, k), b: ratio(1, k), c: isNormal ? ZERO : excess.over(ratio(k)) };
}

function kurtosisOf(projection: Projection): Ratio {
  const [second, fourth] = momentsOf(projection);
  return fourth.over(second.times(second));
}

/** Return a, b and c of a projection. */
export function varianceLaw(projection: Projection): VarianceLaw {
  const { kind, sketchDim: k, dim: d } = projection;
  const cells = BigInt(k);
  switch (kind) {
    case "sjlt-block":
    case "sjlt-graph":
    case "count-sketch":
    case "rademacher":
      return independent(k, ONE);
    case "identity":
      return { a: ZERO, b: ZERO, c: ZERO };
    case "srht": {
      const size = padded(d);
      return bins(new Ratio(size - cells, cells * (size > 2n ? size - 1n : 1n)));
    }
    case "oporp": {
      if (d === 1n) return bins(ZERO);
      const [n, m] = [d / cells, d % cells];
      return bins(new Ratio(m * (n + 1n) * n + (cells - m) * n * (n - 1n), d * (d - 1n)));
    }
    case "rotation": {
      const r = ratio(1, 12n * 4n ** BigInt(projection.fractionBits as number));
      const h = new Ratio(d - cells, cells * (d + 2n) * (d > 2n ? d - 1n : 1n));
      const rounding = ratio(2).times(r).add(r.times(r)).over(ratio(k));
      const scale = ONE.add(r).times(ONE.add(r));
      return {
        a: ratio(d).times(h).add(rounding).over(scale),
        b: ratio(d - 2n).times(h).add(rounding).over(scale),
        c: ratio(-6).times(r).times(r).over(ratio(5 * k).times(scale)),
      };
    }
    case "fjlt": {
      const e = kurtosisOf(projection).subtract(ratio(3)).over(ratio(padded(d)));
      const all = ratio(k);
      return { a: ONE.add(e).over(all), b: ONE.add(e).add(e).over(all), c: ratio(-2).times(e).over(all) };
    }
    default:
      return independent(k, kurtosisOf(projection));
  }
}

function bins(p: Ratio): VarianceLaw {
  return { a: p, b: p, c: p.times(ratio(-2)) };
}

/** Return a, b and c of what comes behind noise before the map. */
export function lawBehind(projection: Projection, place: string): VarianceLaw {
  return place === "hadamard" ? independent(projection.sketchDim, kurtosisOf(projection)) : varianceLaw(projection);
}
