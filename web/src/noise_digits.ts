/**
 * Exact digits of the probabilities of discrete noise: P(n) ∝ exp(-exponent(n)), by integers alone.
 *
 * The integers are cut into blocks. With c a whole number, c·exp(-exponent) of a block's most likely integer is how many
 * of the 2^16 values of a random word draw the block; its fraction is spread over a second word, and so on. The same
 * digits as in the Python library, so that the same secret bits give the same noise.
 */
import { abs, bitLength, Ratio } from "./exact.ts";

export const WORD_BITS = 16n;
const WORDS = 1n << WORD_BITS;
const GUARD_BITS = 96n;

/** exp(-|n|^power · denominator / numerator) on the integers, in blocks of 2^shift of them; none has both signs. */
export interface Shape {
  readonly power: 1 | 2;
  readonly numerator: bigint;
  readonly denominator: bigint;
  readonly shift: bigint;
}

/** How the words of one level are shared out: `counts` of blocks from `lowest` on, and at least what is left. */
export interface Digits {
  readonly lowest: bigint;
  readonly counts: readonly bigint[];
  readonly rest: bigint;
}

/** Return the integer of a block that is nearest to zero. */
export function anchorOf(block: bigint, shift: bigint): bigint {
  return block >= 0n ? block << shift : ((block + 1n) << shift) - 1n;
}

/** Return c, about as large as the words of the first level allow, and the first digits. */
export function weighted(shape: Shape): { c: bigint; first: Digits } {
  let c = WORDS;
  for (;;) {
    const first = digits(shape, c, 1n);
    const words = first.counts.reduce((sum, count) => sum + count, 0n);
    if (words + first.rest <= WORDS) return { c, first };
    const next = (c * (WORDS - first.rest)) / words;
    c = next < c - 1n ? next : c - 1n;
  }
}

/** Return digit `level` (1, 2, …), to base 2^16, of c·exp(-exponent) of each block's anchor; the first is the whole part. */
export function digits(shape: Shape, c: bigint, level: bigint): Digits {
  for (let guard = GUARD_BITS; ; guard *= 2n) {
    const [below, above] = ([1n, 0n] as const).map((side) => floors(shape, side, c, WORD_BITS * (level - 1n), guard));
    if (below === null || above === null) continue; // more digits decide a floor: c·exp(-r) is no integer
    const rest = shortfall(shape, 1n, BigInt(below.length)) + shortfall(shape, 0n, BigInt(above.length));
    const both = [...[...below].reverse(), ...above];
    return { lowest: -BigInt(below.length), counts: level === 1n ? both : both.map((floor) => floor % WORDS), rest };
  }
}

/** Return ⌊2^bits·c·exp(-exponent)⌋ for the anchors of a side, down to the last that is not 0; null if undecided. */
function floors(shape: Shape, side: bigint, c: bigint, bits: bigint, guard: bigint): bigint[] | null {
  const found: bigint[] = [];
  for (const [low, high] of masses(shape, side, bits + guard)) {
    const floor = (c * low) >> guard;
    if ((c * high) >> guard !== floor) return null;
    if (floor === 0n) return found;
    found.push(floor);
  }
  return found;
}

/** Return a bound on what the floors of a side leave, `size` of them above 0, in units of their last place. */
function shortfall(shape: Shape, side: bigint, size: bigint): bigint {
  const step = exponent(shape, side, size + 1n).subtract(exponent(shape, side, size));
  return size + 1n + new Ratio(step.denominator, step.numerator).ceil();
}

/** Return the exponent of anchor i of a side: blocks 0, 1, … are on side 0, and -1, -2, … on side 1. */
function exponent({ power, numerator, denominator, shift }: Shape, side: bigint, i: bigint): Ratio {
  const size = abs(anchorOf(side === 1n ? -1n - i : i, shift));
  return new Ratio((power === 2 ? size * size : size) * denominator, numerator);
}

/** Yield bounds on 2^places·exp(-exponent) of the anchors of a side, outwards and for ever. */
function* masses(shape: Shape, side: bigint, places: bigint): Generator<readonly [bigint, bigint]> {
  const [first, second, third] = [0n, 1n, 2n].map((i) => exponent(shape, side, i));
  const step = second.subtract(first);
  let [mass, error] = exponential(first, places);
  let [ratio, ratioError] = exponential(step, places);
  const [bend, bendError] = exponential(third.subtract(second).subtract(step), places);
  for (;;) {
    yield [mass, mass + error];
    [mass, error] = [(mass * ratio) >> places, error + ratioError + 1n];
    [ratio, ratioError] = [(ratio * bend) >> places, ratioError + bendError + 1n];
  }
}

/** Return (low, error) with low ≤ 2^places·exp(-x) ≤ low + error, for x ≥ 0; exact at 0. */
function exponential(x: Ratio, places: bigint): [bigint, bigint] {
  if (x.numerator === 0n) return [1n << places, 0n];
  if (x.compare(new Ratio(places)) >= 0) return [0n, 1n];
  const halvings = BigInt(bitLength((2n * x.numerator) / x.denominator));
  const [numerator, denominator] = [x.numerator, x.denominator << halvings]; // at most 1/2
  let [term, total, terms] = [1n << places, 1n << places, 0n];
  while (term !== 0n) {
    terms++;
    term = (term * numerator) / (denominator * terms);
    total += terms % 2n === 1n ? -term : term;
  }
  let [low, error] = [total - 2n * terms - 1n, 4n * terms + 2n];
  for (let i = 0n; i < halvings; i++) [low, error] = [(low * low) >> places, 2n * error + 1n];
  return [low, error];
}
