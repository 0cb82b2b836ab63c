/** Secret numbers of units and keys: which keys a unit keeps, and in which order its values are rounded. */
import { blake2b } from "./blake2b.ts";
import { concat, integerOf, littleEndian, utf8, type Bytes } from "./bytes.ts";
import { demand } from "./errors.ts";
import { canonicalBytes } from "./hashing.ts";
import { product } from "./words64.ts";

const MASK = (1n << 64n) - 1n, KEYS = (1n << 60n) - 1n;
const ORDER = utf8("streamsketch.ord");
const WHOLE = 9_223_371_950_454_774_999n; // the window of rows without windows
const NUMBER_BYTES = 9n;
const COEFFICIENTS = 8;

/** A unit as two words that depend on a secret: two units share them with a probability that is negligible. */
export type Digest = readonly [bigint, bigint];

/** A key of a table: text or an integer; "" for a single stream. */
export type Key = string | bigint;

/** Secret numbers that depend on units and keys alone. */
export class UnitDraws {
  readonly #secret: Bytes;
  readonly #points: readonly bigint[];
  readonly #coefficients: readonly bigint[];
  readonly #words = new Map<Key, bigint>();

  /** @param secret 32 bytes */
  constructor(secret: Bytes) {
    demand(secret.length === 32, "a secret of 32 bytes");
    this.#secret = secret;
    this.#points = wordsOf(blake2b(concat(), 16, { key: secret, person: utf8("streamsketch.uni") })).map((word) => word & KEYS);
    this.#coefficients = wordsOf(blake2b(concat(), 8 * COEFFICIENTS, { key: secret, person: ORDER }));
  }

  /** Return the digest of a unit: a polynomial over GF(2^64) of its bytes at two secret points. */
  digest(unit: string | bigint): Digest {
    const found = this.#points.map((point) => {
      if (typeof unit === "bigint") {
        const word = BigInt.asUintN(64, unit);
        const head = product((NUMBER_BYTES << 8n) | 0x69n, point); // i
        return product(head ^ swapped(word), point) ^ (word >> 63n);
      }
      const bytes = utf8(unit);
      let value = (BigInt(bytes.length) << 8n) | 0x73n; // s
      for (let at = 0; at < bytes.length; at += 8) value = product(value, point) ^ bigEndian(bytes.subarray(at, at + 8));
      return value;
    });
    return [found[0], found[1]];
  }

  /** Return the keys of least rank, at most so many; the rank is a secret function of unit and key. */
  kept<T>(unit: Digest, keys: ReadonlyMap<Key, T>, most: number): ReadonlyMap<Key, T> {
    if (keys.size <= most) return keys;
    const ranked = [...keys].map(([key, value]) => {
      const word = this.word(key);
      return { key, value, word, rank: this.#rank((unit[0] + word) & MASK & KEYS) };
    });
    ranked.sort((a, b) => order(a.rank, b.rank) || order(a.word, b.word));
    return new Map(ranked.slice(0, most).map(({ key, value }) => [key, value]));
  }

  /** Return the indices of a unit in a key, shuffled. */
  shuffled(unit: Digest, key: Key, indices: readonly bigint[]): bigint[] {
    const word = this.word(key);
    const queued = indices.map((index) => {
      const row = concat(utf8("r"), ...[...unit, word, index].map((one) => littleEndian(one, 8)));
      return { index, place: integerOf(blake2b(row, 8, { key: this.#secret, person: ORDER })) };
    });
    return queued.sort((a, b) => order(a.place, b.place) || order(a.index, b.index)).map(({ index }) => index);
  }

  word(key: Key): bigint {
    let word = this.#words.get(key);
    if (word === undefined) {
      const message = concat(littleEndian(WHOLE, 8), canonicalBytes(key));
      word = integerOf(blake2b(message, 8, { key: this.#secret, person: utf8("streamsketch.slt") }));
      this.#words.set(key, word);
    }
    return word;
  }

  #rank(at: bigint): bigint {
    return this.#coefficients.reduce((value, coefficient) => product(value, at) ^ coefficient, 0n);
  }
}

function order(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function wordsOf(bytes: Uint8Array): bigint[] {
  return Array.from({ length: bytes.length / 8 }, (_, i) => integerOf(bytes.subarray(8 * i, 8 * i + 8)));
}

function bigEndian(bytes: Uint8Array): bigint {
  return bytes.reduce((value, byte) => (value << 8n) | BigInt(byte), 0n);
}

function swapped(word: bigint): bigint {
  return bigEndian(littleEndian(word, 8));
}
