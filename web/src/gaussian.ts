/** The table of rounded normal entries, from weights to 120 digits. */

const WORDS = 1n << 64n;
const BITS = 400n;
const TABLES = new Map<number, { largest: number; thresholds: readonly bigint[] }>();

/** Return e^(-1/divisor) in fixed point of `BITS` bits, by its series. */
function exponential(divisor: bigint): bigint {
  let term = 1n << BITS;
  let total = term;
  for (let n = 1n; term !== 0n; n++) {
    term = -term / (divisor * n);
    total += term;
  }
  return total;
}

/** Return the largest entry, and the thresholds between words of entries. */
export function gaussianTable(fractionBits: number): { largest: number; thresholds: readonly bigint[] } {
  const known = TABLES.get(fractionBits);
  if (known !== undefined) return known;
  let ratio = exponential(2n * 4n ** BigInt(fractionBits));
  const square = (ratio * ratio) >> BITS;
  const least = 1n << (BITS - BigInt(62 + fractionBits));
  const weights = [1n << BITS];
  while (weights[weights.length - 1] >= least) {
    weights.push((weights[weights.length - 1] * ratio) >> BITS); // (n+1)² = n² + 2n + 1
    ratio = (ratio * square) >> BITS;
  }
  const both = [...weights.slice(1).reverse(), ...weights];
  const total = both.reduce((sum, weight) => sum + weight, 0n);
  const thresholds = [0n];
  let below = 0n;
  for (const weight of both) {
    below += weight;
    thresholds.push((2n * WORDS * below + total) / (2n * total)); // to nearest
  }
  const found = { largest: weights.length - 1, thresholds };
  TABLES.set(fractionBits, found);
  return found;
}
