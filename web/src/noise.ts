/** Exact discrete noise from secret bits: the same noise as in the Python library from the same bits. */
import { demand } from "./errors.ts";
import { abs, bitLength, Ratio } from "./exact.ts";
import { anchorOf, digits, weighted, WORD_BITS, type Digits, type Shape } from "./noise_digits.ts";
import type { SecretBits } from "./secret.ts";
import type { Bytes } from "./bytes.ts";

const MOST_REQUEST = 1 << 22;
const WORD_BYTES = Number(WORD_BITS) / 8;

/** The kinds of noise: Laplace by its scale, Gaussian by its variance, in grid steps. */
export type NoiseKind = "laplace" | "gaussian";

/** Draws a distribution by comparing random words with digits of its probabilities: no float, and no tail cut. */
export class NoiseTable {
  readonly #shape: Shape;
  readonly #c: bigint;
  readonly #levels: Digits[];
  /** The block that each first word draws. */
  readonly #first: readonly number[];
  readonly #lowBytes: number;

  constructor(kind: NoiseKind, amount: Ratio) {
    const { numerator, denominator } = amount;
    const whole = (over: bigint): number => bitLength(new Ratio(numerator, denominator * over).floor());
    if (kind === "laplace") {
      demand(numerator > 0n && amount.compare(new Ratio(1n << 32n)) <= 0, `a scale of ${amount} is not in (0, 2^32]: take a larger ε, or a coarser resolution`);
      this.#shape = { power: 1, numerator, denominator, shift: BigInt(Math.max(0, whole(8n) - 1)) };
    } else {
      demand(2n * numerator >= denominator && amount.compare(new Ratio(1n << 48n)) <= 0, `a variance of ${amount} is not in [1/2, 2^48]: take a larger ε, or a coarser resolution`);
      this.#shape = { power: 2, numerator: 2n * numerator, denominator, shift: BigInt(Math.max(0, (whole(1024n) - 1) >> 1)) };
    }
    const { c, first } = weighted(this.#shape);
    this.#c = c;
    this.#levels = [first];
    this.#first = first.counts.flatMap((count, i) => Array<number>(Number(count)).fill(Number(first.lowest) + i));
    this.#lowBytes = Math.ceil(Number(this.#shape.shift) / 8);
  }

  /** Draw samples, reading more bytes as they run out: a sample that is cut off starts again from its own first byte. */
  draw(size: number, bits: SecretBits): bigint[] {
    const out: bigint[] = [];
    let rest: Bytes = new Uint8Array(0);
    while (out.length < size) {
      const fresh = new Uint8Array(Math.min(MOST_REQUEST, this.#bytesFor(size - out.length)));
      bits(fresh);
      const bytes = new Uint8Array(rest.length + fresh.length);
      bytes.set(rest);
      bytes.set(fresh, rest.length);
      const buffer = new Buffered(bytes);
      let used = 0;
      while (out.length < size) {
        const sample = this.#round(buffer);
        if (buffer.isOver) break;
        used = buffer.at;
        if (sample !== null) out.push(sample);
      }
      rest = bytes.slice(used);
    }
    return out;
  }

  #bytesFor(size: number): number {
    if (this.#shape.shift === 0n) return Math.floor((size * WORD_BYTES * 33) / 32) + 32;
    return Math.floor((size * (WORD_BYTES + this.#lowBytes + 1) * 9) / 8) + 32;
  }

  /** Return what one round draws; null for nothing, or at the end of the bytes. */
  #round(buffer: Buffered): bigint | null {
    const block = this.#block(buffer);
    const { power, numerator, denominator, shift } = this.#shape;
    if (block === null || shift === 0n) return block;
    const low = buffer.integer(this.#lowBytes) & ((1n << shift) - 1n);
    const n = (block << shift) + low;
    const [size, nearest] = [abs(n), abs(anchorOf(block, shift))];
    const exponent = (power === 2 ? size * size - nearest * nearest : size - nearest) * denominator;
    return buffer.decays(exponent, numerator) ? n : null;
  }

  #block(buffer: Buffered): bigint | null {
    let place = 0n;
    for (let level = 0; ; level++) {
      place = (place << WORD_BITS) + buffer.integer(WORD_BYTES);
      if (buffer.isOver) return null;
      if (level === 0 && place < this.#first.length) return BigInt(this.#first[Number(place)]);
      this.#levels[level] ??= digits(this.#shape, this.#c, BigInt(level + 1));
      const { lowest, counts, rest } = this.#levels[level];
      for (let i = 0; i < counts.length; i++) {
        if (place < counts[i]) return lowest + BigInt(i);
        place -= counts[i];
      }
      if (place >= rest) return null;
    }
  }
}

/** Bytes that are read one behind the other, and coins of exact probability from them. */
class Buffered {
  at = 0;
  isOver = false;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  #byte(): bigint {
    if (this.at >= this.#bytes.length) {
      this.isOver = true;
      return 0n;
    }
    return BigInt(this.#bytes[this.at++]);
  }

  /** Return the integer of so many bytes, the highest first. */
  integer(bytes: number): bigint {
    let found = 0n;
    for (let i = 0; i < bytes; i++) found = (found << 8n) | this.#byte();
    return found;
  }

  /** Return true with probability n/d ≤ 1, by comparing the digits of n/d to base 256 with bytes. */
  #isBelow(n: bigint, d: bigint): boolean {
    if (n >= d) return true;
    for (let remainder = n; ; ) {
      const drawn = this.#byte();
      if (this.isOver) return false;
      remainder <<= 8n;
      const digit = remainder / d;
      remainder -= digit * d;
      if (drawn !== digit) return drawn < digit;
      if (remainder === 0n) return false;
    }
  }

  /** Return true with probability e^(-n/d), for 0 ≤ n ≤ d (Canonne, Kamath and Steinke 2020, Algorithm 1). */
  #decaysOnce(n: bigint, d: bigint): boolean {
    for (let k = 1n; ; k++) {
      const goesOn = this.#isBelow(1n, k) && !this.isOver && this.#isBelow(n, d);
      if (this.isOver) return false;
      if (!goesOn) return k % 2n === 1n;
    }
  }

  /** Return true with probability e^(-n/d), for n ≥ 0. */
  decays(n: bigint, d: bigint): boolean {
    for (let i = n / d; i > 0n; i--) if (!this.#decaysOnce(1n, 1n) || this.isOver) return false;
    return this.#decaysOnce(n % d, d);
  }
}
