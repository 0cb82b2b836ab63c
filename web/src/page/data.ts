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
  /** What sizes are, "squared norm" by default. */
  readonly size?: string;
  /** Of each stream, to sort by and in words. */
  readonly sizes: readonly (readonly [number, string])[];
  /** Of windows: the keys, the windows in time order, and both of each stream. */
  readonly windows: { readonly keys: readonly string[]; readonly names: readonly string[]; readonly of: readonly (readonly [number, number])[] } | null;
  readonly scale: { readonly nearest: number; readonly farthest: number; readonly logarithmic: boolean };
  readonly pairs: { readonly bytes: 4 | 8; readonly base64: string };
  /** What separates each pair, where a dictionary was given: `rows` items of each. */
  readonly differing?: {
    readonly of: "sums" | "averages";
    readonly candidates: number;
    readonly separated: readonly number[];
    readonly items: readonly string[];
    readonly rows: number;
    readonly base64: string;
  } | null;
}

/** What separates two streams: items of a dictionary, the largest difference first. */
export interface Differing {
  readonly rows: readonly (Numbers & { readonly name: string })[];
  /** How many items the dictionary has; the intervals of all of them hold at once. */
  readonly candidates: number;
  readonly separated: number;
  readonly of: "sums" | "averages";
}

/** Return where a pair i < j of n streams is, row by row. */
function placeOf(n: number, i: number, j: number): number {
  return i * n - (i * (i + 1)) / 2 + j - i - 1;
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
    return i < j ? placeOf(this.n, i, j) : placeOf(this.n, j, i);
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

/** Return columns of numbers from a zlib stream of their bytes: the first bytes of a column's numbers, then the second … */
async function columnsOf(base64: string, count: number, sizes: readonly number[]): Promise<Uint8Array[]> {
  const bytes = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = count * sizes.reduce((sum, size) => sum + size, 0);
  if (planes.length !== length) throw new RangeError(`${count} rows need ${length} bytes, not ${planes.length}`);
  let start = 0;
  return sizes.map((size) => {
    const found = new Uint8Array(count * size);
    for (let byte = 0; byte < size; byte++) {
      for (let place = 0; place < count; place++) found[place * size + byte] = planes[start + byte * count + place];
    }
    start += count * size;
    return found;
  });
}

/** Return the numbers that `Pairs.packed` in Python wrote. */
export async function unpack(n: number, { bytes: size, base64 }: PageData["pairs"]): Promise<PairTable> {
  const columns = await columnsOf(base64, (n * (n - 1)) / 2, [size, size, size, size]);
  const [value, error, low, high] = columns.map(({ buffer }) => (size === 4 ? new Float32Array(buffer) : new Float64Array(buffer)));
  return new PairTable(n, value, error, low, high);
}

/** Return what separates the streams i < j, as `pair_facts` in Python wrote it. */
export async function unpackDiffering(n: number, found: NonNullable<PageData["differing"]>): Promise<(i: number, j: number) => Differing> {
  const count = ((n * (n - 1)) / 2) * found.rows;
  const columns = await columnsOf(found.base64, count, [4, 4, 4, 4, 4]);
  const places = new Uint32Array(columns[0].buffer);
  const [value, error, low, high] = columns.slice(1).map(({ buffer }) => new Float32Array(buffer));
  return (i, j) => {
    const pair = placeOf(n, i, j);
    const rows = Array.from({ length: found.rows }, (_, row) => {
      const at = pair * found.rows + row;
      return { name: found.items[places[at]], value: value[at], error: error[at], low: low[at], high: high[at] };
    });
    return { rows, candidates: found.candidates, separated: found.separated[pair], of: found.of };
  };
}
