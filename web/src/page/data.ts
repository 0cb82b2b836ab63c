/** What the page shows: written once, by Python or from files that were dropped on it. */

/** An estimate with its standard error and 95 % interval. */
export interface Numbers {
  readonly value: number;
  readonly error: number;
  readonly low: number;
  readonly high: number;
}

/** The facts of a page, as JSON. */
export interface PageData {
  readonly version: 1;
  readonly title: string;
  /** By which version, and when. */
  readonly made: string;
  /** The guarantee in a few words. */
  readonly guarantee: string;
  readonly by: string;
  /** What is compared, in the singular: "cosine". */
  readonly quantity: string;
  /** Whether the largest value is the nearest. */
  readonly largest: boolean;
  /** By what the numbers of the heat map are divided, and the word for it. */
  readonly factor: number;
  readonly unit: string;
  /** Whether intervals hold for all pairs at once. */
  readonly together: boolean;
  readonly names: readonly string[];
  /** False where noise decides which streams are near: nothing is ranked. */
  readonly ranked: boolean;
  /** Streams so that similar ones are side by side. */
  readonly similar: readonly number[];
  /** The tree: each row joins two groups at a height; streams are 0 to n - 1, row i makes group n + i. */
  readonly tree: readonly (readonly [number, number, number])[];
  readonly groups: readonly (readonly number[])[];
  /** Of each stream, to sort by and in words. */
  readonly sizes: readonly (readonly [number, string])[];
  /** Of windows: the keys, the windows in time order, and both of each stream. */
  readonly windows: { readonly keys: readonly string[]; readonly names: readonly string[]; readonly of: readonly (readonly [number, number])[] } | null;
  readonly scale: { readonly nearest: number; readonly farthest: number; readonly logarithmic: boolean };
  readonly pairs: { readonly bytes: 4 | 8; readonly base64: string };
}

/** The estimates between n streams: of i < j, row by row. */
export class PairTable {
  constructor(
    readonly n: number,
    readonly value: Float32Array | Float64Array,
    readonly error: Float32Array | Float64Array,
    readonly low: Float32Array | Float64Array,
    readonly high: Float32Array | Float64Array,
  ) {
    if (value.length !== (n * (n - 1)) / 2) throw new RangeError(`${n} streams have ${(n * (n - 1)) / 2} pairs, not ${value.length}`);
  }

  /** Return where the numbers of a pair are. */
  place(i: number, j: number): number {
    const [first, second] = i < j ? [i, j] : [j, i];
    return first * this.n - (first * (first + 1)) / 2 + second - first - 1;
  }

  at(i: number, j: number): Numbers {
    const place = this.place(i, j);
    return { value: this.value[place], error: this.error[place], low: this.low[place], high: this.high[place] };
  }

  /** Whether a pair cannot be distinguished from 0: its interval holds 0. */
  unclear(i: number, j: number): boolean {
    const place = this.place(i, j);
    return !(this.low[place] > 0 || this.high[place] < 0);
  }
}

/** Return the numbers that `Pairs.packed` in Python wrote. */
export async function unpack(n: number, packed: PageData["pairs"]): Promise<PairTable> {
  const text = atob(packed.base64);
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const size = packed.bytes;
  const count = (n * (n - 1)) / 2;
  if (planes.length !== 4 * count * size) throw new RangeError(`${n} streams need ${4 * count * size} bytes, not ${planes.length}`);
  const arrays = [0, 1, 2, 3].map((which) => {
    const found = new Uint8Array(count * size);
    const start = which * count * size;
    for (let byte = 0; byte < size; byte++) {
      for (let place = 0; place < count; place++) found[place * size + byte] = planes[start + byte * count + place];
    }
    return size === 4 ? new Float32Array(found.buffer) : new Float64Array(found.buffer);
  });
  return new PairTable(n, arrays[0], arrays[1], arrays[2], arrays[3]);
}
