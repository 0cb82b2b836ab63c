/** Words of 64 bits as elements of GF(2^64), and as integers: pairs of 32-bit halves, low half first. */
import { blake2b } from "./blake2b.ts";
import { concat, littleEndian, utf8 } from "./bytes.ts";

const MASK = (1n << 64n) - 1n;

/** Return what four bits that fall off the top come back as: their carry-less product with 1B. */
const BACK = Uint32Array.from({ length: 16 }, (_, bits) => {
  let found = 0;
  for (let bit = 0; bit < 4; bit++) if ((bits >> bit) & 1) found ^= 0x1b << bit;
  return found;
});

/** Multiplies by one element, by a table of its 16 small multiples. */
export class Multiplier {
  readonly #low = new Uint32Array(16);
  readonly #high = new Uint32Array(16);
  low = 0;
  high = 0;

  constructor(by: bigint) {
    for (let bit = 0; bit < 4; bit++) {
      const [low, high] = [Number(by & 0xffffffffn), Number(by >> 32n)];
      for (let i = 1 << bit; i < 2 << bit; i++) {
        this.#low[i] = this.#low[i - (1 << bit)] ^ low;
        this.#high[i] = this.#high[i - (1 << bit)] ^ high;
      }
      by = ((by << 1n) & MASK) ^ (by >> 63n ? 0x1bn : 0n);
    }
  }

  /** Multiply (low, high), and keep the product there. */
  times(low: number, high: number): void {
    const [lows, highs] = [this.#low, this.#high];
    let a = 0, b = 0;
    for (let shift = 28; shift >= 0; shift -= 4) {
      const place = (high >>> shift) & 15;
      const back = BACK[b >>> 28];
      b = ((b << 4) | (a >>> 28)) ^ highs[place];
      a = (a << 4) ^ back ^ lows[place];
    }
    for (let shift = 28; shift >= 0; shift -= 4) {
      const place = (low >>> shift) & 15;
      const back = BACK[b >>> 28];
      b = ((b << 4) | (a >>> 28)) ^ highs[place];
      a = (a << 4) ^ back ^ lows[place];
    }
    this.low = a >>> 0;
    this.high = b >>> 0;
  }
}

/** Return a · b in GF(2^64). */
export function product(a: bigint, b: bigint): bigint {
  const multiplier = new Multiplier(b);
  multiplier.times(Number(a & 0xffffffffn), Number(a >> 32n));
  return (BigInt(multiplier.high) << 32n) | BigInt(multiplier.low);
}

/** Return `element(label, i)` for i from 0 on: uniform elements, one keyed digest each, as pairs of halves. */
export function elements(seed: bigint, label: string, count: number): Uint32Array {
  const options = { key: littleEndian(seed, 8), person: utf8("streamsketch.gf2") };
  const message = concat(utf8(label), new Uint8Array(9));
  const view = new DataView(message.buffer);
  const out = new Uint32Array(2 * count);
  for (let i = 0; i < count; i++) {
    view.setUint32(message.length - 8, i, true);
    view.setUint32(message.length - 4, Math.floor(i / 2 ** 32), true);
    const digest = new DataView(blake2b(message, 8, options).buffer);
    out[2 * i] = digest.getUint32(0, true);
    out[2 * i + 1] = digest.getUint32(4, true);
  }
  return out;
}

/** Return one element as an integer. */
export function element(seed: bigint, label: string, place: number): bigint {
  const found = elements(seed, label, place + 1);
  return (BigInt(found[2 * place + 1]) << 32n) | BigInt(found[2 * place]);
}

/** Return the values at `index` of `count` polynomials, each of so many coefficients, leading one first. */
export function polynomials(coefficients: Uint32Array, count: number, index: bigint): Uint32Array<ArrayBuffer> {
  const out = new Uint32Array(2 * count);
  const size = coefficients.length / count;
  const multiplier = new Multiplier(index);
  for (let i = 0; i < count; i++) {
    let low = 0, high = 0;
    for (let at = i * size; at < (i + 1) * size; at += 2) {
      multiplier.times(low, high);
      low = multiplier.low ^ coefficients[at];
      high = multiplier.high ^ coefficients[at + 1];
    }
    out[2 * i] = low;
    out[2 * i + 1] = high;
  }
  return out;
}

/** Return SplitMix64's finaliser of a word. */
export function mix(word: bigint): bigint {
  word = ((word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  word = ((word ^ (word >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return word ^ (word >> 31n);
}
