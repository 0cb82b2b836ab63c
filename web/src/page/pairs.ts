/** All pairs in a chosen order: those whose names have what is searched for. */
import { compareNames, type View } from "./view.ts";

export type Sort = "name" | "value" | "error";

/** The pairs of n streams as rows; a row is the place of a pair in the `PairTable`. */
export class PairRows {
  /** Streams of each pair, the one whose name comes first in front. */
  readonly first: Uint16Array;
  readonly second: Uint16Array;
  readonly #keys: Uint32Array;
  #named: Uint32Array | null = null;
  #sorted: { readonly by: string; readonly rows: Uint32Array } | null = null;

  constructor(readonly view: View) {
    const { names } = view.data;
    const n = names.length;
    const ranks = new Uint16Array(n);
    [...names.keys()].sort((a, b) => compareNames(names[a], names[b]) || a - b).forEach((stream, rank) => (ranks[stream] = rank));
    const count = view.pairs.value.length;
    [this.first, this.second, this.#keys] = [new Uint16Array(count), new Uint16Array(count), new Uint32Array(count)];
    for (let i = 0, row = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++, row++) {
        const [a, b] = ranks[i] < ranks[j] ? [i, j] : [j, i];
        [this.first[row], this.second[row], this.#keys[row]] = [a, b, ranks[a] * n + ranks[b]];
      }
    }
  }

  /** Return the rows in an order, of those that are drawn and have each part of the search, apart by commas, in a name. */
  rows(sort: Sort, isFalling: boolean, search = ""): Uint32Array {
    const sorted = this.#order(sort, isFalling);
    const { view } = this;
    const parts = search.split(",").map((part) => part.trim().toLocaleLowerCase()).filter((part) => part !== "");
    const names = view.data.names.map((name) => name.toLocaleLowerCase());
    const found = parts.map((part) => names.map((name) => name.includes(part)));
    const drawn = new Uint8Array(names.length);
    for (const stream of view.streams()) drawn[stream] = 1;
    if (found.length === 0 && drawn.every((one) => one === 1)) return sorted;
    return sorted.filter((row) => {
      const [i, j] = [this.first[row], this.second[row]];
      return drawn[i] === 1 && drawn[j] === 1 && found.every((has) => has[i] || has[j]);
    });
  }

  #order(sort: Sort, isFalling: boolean): Uint32Array {
    const by = `${sort} ${isFalling}`;
    if (this.#sorted?.by === by) return this.#sorted.rows;
    this.#named ??= orderOf(this.#keys, false, new Uint32Array(this.#keys.length).map((_, row) => row));
    const rows = orderOf(sort === "name" ? this.#keys : this.view.pairs[sort], isFalling, this.#named);
    this.#sorted = { by, rows };
    return rows;
  }
}

const DIGIT = 1 << 16;

/** Return rows in the order of their numbers, those of equal numbers as they are: a radix sort of half a million is instant. */
export function orderOf(numbers: ArrayLike<number>, isFalling: boolean, rows: Uint32Array): Uint32Array {
  const values = new Float64Array(rows.length);
  for (let at = 0; at < rows.length; at++) values[at] = numbers[rows[at]] || 0; // -0 is 0
  const words = new Uint32Array(values.buffer);
  // the bits of a positive number rise with it, those of a negative one fall
  for (let at = 0; at < words.length; at += 2) {
    const flip = isFalling ? 0xffffffff : 0;
    const isNegative = words[at + 1] >>> 31 === 1;
    words[at] ^= isNegative ? ~flip : flip;
    words[at + 1] ^= isNegative ? ~flip : flip ^ 0x80000000;
  }
  let order = new Uint32Array(rows.length);
  for (let at = 0; at < order.length; at++) order[at] = at;
  let spare = new Uint32Array(order.length);
  for (let digit = 0; digit < 4; digit++) {
    const [word, shift] = [digit >> 1, 16 * (digit & 1)];
    const starts = new Uint32Array(DIGIT + 1);
    for (let at = word; at < words.length; at += 2) starts[((words[at] >>> shift) & (DIGIT - 1)) + 1]++;
    for (let value = 0; value < DIGIT; value++) starts[value + 1] += starts[value];
    for (let place = 0; place < order.length; place++) {
      const at = order[place];
      spare[starts[(words[2 * at + word] >>> shift) & (DIGIT - 1)]++] = at;
    }
    [order, spare] = [spare, order];
  }
  for (let place = 0; place < order.length; place++) spare[place] = rows[order[place]];
  return spare;
}
