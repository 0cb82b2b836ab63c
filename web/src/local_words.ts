/** Public randomness of local reports, and normal numbers from words, one IEEE operation at a time. */
import { frexp } from "./floats.ts";
import { upperQuantile } from "./normal.ts";
import { element, mix } from "./words64.ts";

const GAMMA = 0x9e3779b97f4a7c15n;
const MASK = (1n << 64n) - 1n;

/** Return the salt of a label, with the mechanism's seed. */
export function saltOf(seed: bigint, label: string): bigint {
  return element(seed, label, 0);
}

/** Return where a seed's stream starts. */
export function streamOf(seed: bigint, salted: bigint): bigint {
  return mix(seed ^ mix(salted));
}

/** Return a word of a stream. */
export function wordOf(start: bigint, index: number): bigint {
  return mix((start + BigInt(index + 1) * GAMMA) & MASK);
}

/** Return the first signs of a stream, 1 or -1. */
export function signsOf(start: bigint, count: number): Int8Array {
  const out = new Int8Array(count);
  for (let first = 0; first < count; first += 64) {
    const word = wordOf(start, first / 64);
    const [low, high] = [Number(word & 0xffffffffn), Number(word >> 32n)];
    for (let i = first; i < Math.min(first + 64, count); i++) {
      const bit = i - first;
      out[i] = ((bit < 32 ? low : high) >>> (bit & 31)) & 1 ? -1 : 1;
    }
  }
  return out;
}

/** Return distinct rows of [0, size), in the order drawn. */
export function rowsOf(start: bigint, size: number, count: number): number[] {
  const chosen = new Set<number>();
  for (let i = 0; i < count; i++) {
    const last = size - count + i;
    const drawn = Number(((wordOf(start, i) >> 24n) * BigInt(last + 1)) >> 40n);
    chosen.add(chosen.has(drawn) ? last : drawn);
  }
  return [...chosen];
}

/** Return a seed's vector of normal numbers. */
export function vectorOf(seed: bigint, salted: bigint, size: number): Float64Array {
  const start = streamOf(seed, salted);
  const key = mix(start);
  const out = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    const word = mix(wordOf(start, i) ^ key);
    out[i] = normalOf(Number(word & 0xffffffffn), Number(word >> 32n));
  }
  return out;
}

/** Return the normal number of a word's halves: its sign is the lowest bit. */
export function normalOf(low: number, high: number): number {
  const upper = (high >>> 1) * 2 ** 32 + (((high & 1) * 2 ** 31) + (low >>> 1)); // rounded once
  const size = upperQuantile((upper + 0.5) * 2 ** -64, portableLog);
  return low & 1 ? -size : size;
}

/** Return Φ⁻¹(p) with the same bits on every machine. */
export function portableQuantile(p: number): number {
  const size = upperQuantile(Math.min(p, 1 - p), portableLog);
  return p < 0.5 ? -size : size;
}

/** Return ln p by eleven terms of its series. */
function portableLog(p: number): number {
  let [m, e] = frexp(p);
  if (m < 0.7071067811865476) [m, e] = [2 * m, e - 1];
  const s = (m - 1) / (m + 1);
  let total = 0;
  for (let odd = 21; odd > 0; odd -= 2) total = total * (s * s) + 1 / odd;
  return e * 0.6931471805599453 + 2 * s * total;
}

/** Replace cells by H of them, for a power of two of them. */
export function transform(cells: Float64Array): void {
  for (let half = cells.length >> 1; half >= 1; half >>= 1) {
    for (let start = 0; start < cells.length; start += 2 * half) {
      for (let i = start; i < start + half; i++) {
        const [a, b] = [cells[i], cells[i + half]];
        cells[i] = a + b;
        cells[i + half] = a - b;
      }
    }
  }
}
