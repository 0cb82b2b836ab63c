/** Secret bits: from the operating system's generator, by crypto.getRandomValues. Nothing else may be used but in tests. */
import { demand } from "./errors.ts";

const MOST_AT_ONCE = 65536;

/** Fills bytes with secret, uniform ones. */
export type SecretBits = (into: Uint8Array<ArrayBuffer>) => void;

/** The operating system's generator. */
export const systemBits: SecretBits = (into) => {
  for (let at = 0; at < into.length; at += MOST_AT_ONCE) crypto.getRandomValues(into.subarray(at, at + MOST_AT_ONCE));
};

/** Return secret words as pairs of halves, low half first. */
export function secretWords(bits: SecretBits, count: number): Uint32Array {
  const bytes = new Uint8Array(8 * count);
  bits(bytes);
  const view = new DataView(bytes.buffer);
  return Uint32Array.from({ length: 2 * count }, (_, i) => view.getUint32(4 * i, true));
}

/** Exact draws from secret bits. */
export class ExactDraws {
  readonly #bits: SecretBits;
  readonly #pool = new Uint8Array(4096);
  #view = new DataView(this.#pool.buffer);
  #at = 4096;

  constructor(bits: SecretBits) {
    this.#bits = bits;
  }

  #half(): number {
    if (this.#at >= this.#pool.length) {
      this.#bits(this.#pool);
      this.#at = 0;
    }
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4, true);
  }

  /** Return a uniform integer in [0, size), for size ≤ 2^53, by rejection. */
  below(size: number): number {
    const isWide = size > 2 ** 32;
    const range = isWide ? 2 ** 53 : 2 ** 32;
    const most = range - (range % size);
    for (;;) {
      const drawn = isWide ? (this.#half() & 0x1fffff) * 2 ** 32 + this.#half() : this.#half();
      if (drawn < most) return drawn % size;
    }
  }

  /** Return true with probability e^(-n/d), for 0 ≤ n ≤ d (Canonne, Kamath and Steinke 2020, Algorithm 1). */
  #decays(n: number, d: number): boolean {
    let k = 1;
    while (this.below(d) < n && this.below(k) === 0) k++;
    return k % 2 === 1;
  }

  /**
   * Return discrete Laplace noise of scale t/s, exactly (Canonne, Kamath and Steinke 2020, Algorithm 2).
   *
   * How long it takes depends on the noise, and not on the data.
   */
  laplace(t: number, s: number): bigint {
    demand(t >= 1 && s >= 1 && t < 2 ** 48 && s < 2 ** 48, "a scale out of range");
    for (;;) {
      const u = this.below(t);
      if (!this.#decays(u, t)) continue;
      let v = 0n;
      while (this.#decays(1, 1)) v++;
      const size = (BigInt(u) + BigInt(t) * v) / BigInt(s);
      const isNegative = this.below(2) === 1;
      if (isNegative && size === 0n) continue;
      return isNegative ? -size : size;
    }
  }
}
