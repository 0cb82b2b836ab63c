/** Parquet, as far as tables of releases need it: Thrift, PLAIN and dictionary pages of version 1, Snappy. */
import { textOf, type Bytes } from "./bytes.ts";
import { need } from "./errors.ts";
import { Cursor } from "./protobuf.ts";
import type { Limits } from "./limits.ts";

type Thrift = bigint | boolean | Uint8Array | Thrift[] | Struct | null;
type Struct = Map<number, Thrift>;
export type ColumnKind = "text" | "bytes" | "integer" | "date" | "time";
/** Values are strings, bytes, or bigints: integers, days since 1970, nanoseconds since 1970; null for nulls. */
export interface Column {
  readonly kind: ColumnKind;
  readonly values: readonly (string | Uint8Array | bigint | null)[];
}

const INT32 = 1, INT64 = 2, BYTE_ARRAY = 6;
const DEEPEST = 16;
const CODECS = ["none", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"];

// --- Thrift ----------------------------------------------------------------------------------------------------

class Reader extends Cursor {
  byte(): number {
    need(this.at < this.data.length, "a Parquet structure is cut off");
    return this.data[this.at++];
  }

  signed(): bigint {
    const value = this.varint();
    return value & 1n ? -((value + 1n) >> 1n) : value >> 1n;
  }

  struct(depth = 0): Struct {
    need(depth < DEEPEST, "a Parquet structure that is nested too deeply");
    const fields: Struct = new Map();
    let number = 0;
    for (;;) {
      const head = this.byte();
      if (head === 0) return fields;
      if (head >> 4) number += head >> 4;
      else number = Number(BigInt.asIntN(16, this.signed()));
      fields.set(number, this.value(head & 15, depth + 1));
    }
  }

  value(kind: number, depth: number): Thrift {
    switch (kind) {
      case 1:
      case 2:
        return kind === 1;
      case 3:
        return BigInt(this.byte());
      case 4:
      case 5:
      case 6:
        return this.signed();
      case 7:
        this.take(8);
        return null;
      case 8:
        return this.take(this.small());
      case 9: {
        need(depth < DEEPEST, "a Parquet structure that is nested too deeply");
        const head = this.byte();
        const count = head >> 4 === 15 ? this.small() : head >> 4;
        need(count <= this.data.length - this.at, "a Parquet list that is cut off");
        const found: Thrift[] = [];
        // in a list, a boolean takes a byte
        for (let i = 0; i < count; i++) found.push((head & 15) <= 2 ? this.byte() === 1 : this.value(head & 15, depth + 1));
        return found;
      }
      default:
        need(kind === 12, "a type that Parquet has no use for");
        return this.struct(depth);
    }
  }
}

function integerIn(fields: Struct, number: number, most = 2 ** 53): number {
  const value = fields.get(number);
  need(typeof value === "bigint" && value >= 0n && value < BigInt(most), "a Parquet number that is missing, or out of range");
  return Number(value);
}

function structIn(fields: Struct, number: number): Struct {
  const value = fields.get(number);
  need(value instanceof Map, "a Parquet structure that is missing");
  return value;
}

function listIn(fields: Struct, number: number): Thrift[] {
  const value = fields.get(number);
  need(Array.isArray(value), "a Parquet list that is missing");
  return value;
}

function asStruct(value: Thrift): Struct {
  need(value instanceof Map, "a Parquet structure that is missing");
  return value;
}

// --- files -----------------------------------------------------------------------------------------------------

/** Return a file's metadata, and where it starts. */
export function readFooter(data: Uint8Array, limits: Limits): { footer: Struct; start: number } {
  const magic = (at: number) => textOfBytes(data, at) === "PAR1";
  need(data.length >= 12 && magic(0) && magic(data.length - 4), "no Parquet file");
  const length = new DataView(data.buffer, data.byteOffset).getUint32(data.length - 8, true);
  need(length <= data.length - 12, "a footer that is cut off");
  need(length <= limits.maxFooterBytes, `a footer of ${length} bytes, and at most ${limits.maxFooterBytes} are read`);
  const start = data.length - 8 - length;
  return { footer: new Reader(data.subarray(start, data.length - 8)).struct(), start };
}

function textOfBytes(data: Uint8Array, at: number): string {
  return String.fromCharCode(...data.subarray(at, at + 4));
}

/** Return entries of the footer's key-value metadata with a name. */
export function footerEntries(footer: Struct, name: string): Uint8Array[] {
  if (!footer.has(5)) return [];
  return listIn(footer, 5).map(asStruct).flatMap((entry) => {
    const [key, value] = [entry.get(1), entry.get(2)];
    return key instanceof Uint8Array && value instanceof Uint8Array && textOf(key) === name ? [value] : [];
  });
}

interface Leaf {
  readonly element: Struct;
  readonly name: string;
  readonly place: number;
}

/** Return the flat columns of a schema, with their places among all columns. */
function leavesOf(schema: readonly Thrift[]): Leaf[] {
  need(schema.length > 0, "a Parquet file without a schema");
  const left = [integerIn(asStruct(schema[0]), 5, 2 ** 20)];
  const leaves: Leaf[] = [];
  let place = 0;
  for (const one of schema.slice(1)) {
    const element = asStruct(one);
    need(left.length > 0, "a Parquet schema that does not add up");
    left[left.length - 1]--;
    const children = element.has(5) ? integerIn(element, 5, 2 ** 20) : 0;
    if (children > 0) {
      need(left.length < DEEPEST, "a Parquet schema that is nested too deeply");
      left.push(children);
    } else {
      const name = element.get(4);
      need(name instanceof Uint8Array, "a column without a name");
      if (left.length === 1) leaves.push({ element, name: textOf(name), place });
      place++;
    }
    while (left.length > 0 && left[left.length - 1] === 0) left.pop();
  }
  return leaves;
}

function kindOfLeaf(element: Struct): { kind: ColumnKind; unit: bigint } {
  const logical = element.get(10);
  const [which, details] = logical instanceof Map && logical.size > 0 ? [...logical][0] : [0, null];
  if (which === 8) {
    const units = details instanceof Map ? details.get(2) : null;
    const unit = units instanceof Map && units.size > 0 ? [...units.keys()][0] : 0;
    need(unit >= 1 && unit <= 3, "a timestamp of an unknown unit");
    return { kind: "time", unit: [1_000_000n, 1000n, 1n][unit - 1] };
  }
  const converted = element.get(6);
  if (converted === 9n || converted === 10n) return { kind: "time", unit: converted === 9n ? 1_000_000n : 1000n };
  if (which === 1 || (which === 0 && converted === 0n)) return { kind: "text", unit: 1n };
  if (which === 6 || (which === 0 && converted === 6n)) return { kind: "date", unit: 1n };
  return { kind: element.get(1) === BigInt(BYTE_ARRAY) ? "bytes" : "integer", unit: 1n };
}

/** Return those of the named columns that a Parquet file has, if they are of types that keys and releases have. */
export function readColumns(data: Uint8Array, names: readonly string[], limits: Limits): Map<string, Column> {
  need(data.length <= limits.maxTableBytes, `${data.length} bytes, and at most ${limits.maxTableBytes} are read`);
  const { footer } = readFooter(data, limits);
  const rows = integerIn(footer, 3);
  need(rows <= limits.maxKeys, `${rows} rows, and at most ${limits.maxKeys} are read`);
  const found = new Map<string, Column>();
  const budget = { bytes: limits.maxTableBytes };
  for (const { element, name, place } of leavesOf(listIn(footer, 2))) {
    if (!names.includes(name)) continue;
    need(!found.has(name), `two columns ${name}`);
    const physical = Number(element.get(1) ?? -1n);
    if (physical !== INT32 && physical !== INT64 && physical !== BYTE_ARRAY) continue;
    const { kind, unit } = kindOfLeaf(element);
    const values: (string | Uint8Array | bigint | null)[] = [];
    for (const group of listIn(footer, 4)) {
      const chunk = asStruct(listIn(asStruct(group), 1)[place] ?? null);
      readChunk(data, structIn(chunk, 3), element, physical, rows, budget, (value) => values.push(typed(value, kind, unit)));
    }
    need(values.length === rows, "another number of values than rows");
    found.set(name, { kind, values });
  }
  return found;
}

function typed(value: Uint8Array | bigint | null, kind: ColumnKind, unit: bigint): string | Uint8Array | bigint | null {
  if (value === null) return null;
  if (value instanceof Uint8Array) {
    need(kind === "text" || kind === "bytes", "bytes of another type than they say");
    return kind === "text" ? textOf(value) : value;
  }
  need(kind !== "text" && kind !== "bytes", "integers of another type than they say");
  return value * unit;
}

type Sink = (value: Uint8Array | bigint | null) => void;

function readChunk(data: Uint8Array, meta: Struct, element: Struct, physical: number, rows: number, budget: { bytes: number }, sink: Sink): void {
  const first = integerIn(meta, 9);
  const dictionaryAt = meta.get(11);
  let at = typeof dictionaryAt === "bigint" && dictionaryAt > 0n && dictionaryAt < BigInt(first) ? Number(dictionaryAt) : first;
  let left = integerIn(meta, 5);
  const codec = integerIn(meta, 4, 256);
  need(left <= rows, "more values than rows");
  need(codec < 2, `compressed by ${CODECS[codec] ?? "an unknown codec"}; this reader knows SNAPPY and no compression`);
  let dictionary: (Uint8Array | bigint)[] = [];
  while (left > 0) {
    need(at < data.length, "a page beyond the end of the file");
    const reader = new Reader(data.subarray(at));
    const header = reader.struct();
    const size = integerIn(header, 2, 2 ** 31);
    const stored = reader.take(integerIn(header, 3, 2 ** 31));
    at += reader.at;
    budget.bytes -= size;
    need(budget.bytes >= 0, "more decompressed pages than are read");
    const page = codec === 1 ? snappy(stored, size) : stored;
    need(page.length === size, "a page of another length than stated");
    const type = integerIn(header, 1, 16);
    if (type === 2) {
      const count = integerIn(structIn(header, 7), 1, 2 ** 31);
      need(count <= page.length, "a dictionary of more entries than bytes");
      dictionary = [];
      plain(page, physical, count, (value) => dictionary.push(value));
      continue;
    }
    need(type === 0, "a page of another version; this reader knows data pages of version 1");
    const pageHeader = structIn(header, 5);
    const count = integerIn(pageHeader, 1, 2 ** 31);
    need(count > 0 && count <= left, "a page of another number of values");
    left -= count;
    readPage(page, count, integerIn(pageHeader, 2, 256), element.get(3) === 1n, physical, dictionary, budget, sink);
  }
}

function readPage(page: Uint8Array, count: number, encoding: number, isOptional: boolean, physical: number, dictionary: readonly (Uint8Array | bigint)[], budget: { bytes: number }, sink: Sink): void {
  let levels: Uint32Array | null = null;
  if (isOptional) {
    need(page.length >= 4, "a page that is cut off");
    const size = new DataView(page.buffer, page.byteOffset).getUint32(0, true);
    need(size <= page.length - 4, "a page that is cut off");
    levels = hybrid(page.subarray(4, 4 + size), 1, count);
    page = page.subarray(4 + size);
  }
  const present = levels === null ? count : levels.reduce((sum, level) => sum + level, 0);
  const values: (Uint8Array | bigint)[] = [];
  if (encoding === 0) {
    plain(page, physical, present, (value) => values.push(value));
  } else {
    need(encoding === 2 || encoding === 8, "an encoding that this reader does not know");
    need(page.length > 0 || present === 0, "a page that is cut off");
    const width = page[0] ?? 0;
    need(width <= 32, "a page of places of more than 32 bits");
    for (const place of hybrid(page.subarray(1), width, present)) {
      const value = dictionary[place];
      need(value !== undefined, "a place that the dictionary does not have");
      budget.bytes -= value instanceof Uint8Array ? value.length : 8;
      need(budget.bytes >= 0, "more keys and releases than are read");
      values.push(value);
    }
  }
  let next = 0;
  for (let i = 0; i < count; i++) sink(levels === null || levels[i] ? values[next++] : null);
}

function plain(page: Uint8Array, physical: number, count: number, sink: (value: Uint8Array | bigint) => void): void {
  const view = new DataView(page.buffer, page.byteOffset, page.length);
  let at = 0;
  for (let i = 0; i < count; i++) {
    if (physical === BYTE_ARRAY) {
      need(at + 4 <= page.length, "a value is cut off");
      const size = view.getUint32(at, true);
      need(size <= page.length - at - 4, "a value is cut off");
      sink(page.subarray(at + 4, at + 4 + size));
      at += 4 + size;
    } else {
      const size = physical === INT32 ? 4 : 8;
      need(at + size <= page.length, "a value is cut off");
      sink(size === 4 ? BigInt(view.getInt32(at, true)) : view.getBigInt64(at, true));
      at += size;
    }
  }
}

/** Return integers of so many bits from runs of one value and packed groups of eight. */
function hybrid(data: Uint8Array, width: number, count: number): Uint32Array {
  const out = new Uint32Array(count);
  const cursor = new Cursor(data);
  const size = Math.ceil(width / 8);
  let filled = 0;
  while (filled < count) {
    const head = cursor.small();
    const length = Math.floor(head / 2);
    need(length > 0, "a run of no values");
    if (head % 2 === 1) {
      const packed = cursor.take(length * width);
      const most = Math.min(length * 8, count - filled);
      for (let i = 0, bit = 0; i < most; i++) {
        let value = 0;
        for (let taken = 0; taken < width; ) {
          const from = bit & 7;
          const bits = Math.min(8 - from, width - taken);
          value += ((packed[bit >> 3] >> from) & ((1 << bits) - 1)) * 2 ** taken;
          taken += bits;
          bit += bits;
        }
        out[filled++] = value;
      }
    } else {
      let value = 0;
      cursor.take(size).forEach((byte, i) => (value += byte * 2 ** (8 * i)));
      const most = Math.min(length, count - filled);
      out.fill(value, filled, filled + most);
      filled += most;
    }
  }
  return out;
}

/** Return a page that Snappy compressed. */
function snappy(page: Uint8Array, size: number): Bytes {
  const cursor = new Cursor(page);
  need(cursor.small() === size, "a page of another length than its own");
  need(size <= 32 * page.length + 64, "a page of another length than its own"); // three bytes copy 64 at most
  const out = new Uint8Array(size);
  let filled = 0;
  const little = (bytes: Uint8Array) => bytes.reduce((sum, byte, i) => sum + byte * 2 ** (8 * i), 0);
  while (cursor.at < page.length) {
    const tag = page[cursor.at++];
    if ((tag & 3) === 0) {
      let length = tag >> 2;
      if (length >= 60) length = little(cursor.take(length - 59));
      const literal = cursor.take(length + 1);
      need(filled + literal.length <= size, "a page of another length than its own");
      out.set(literal, filled);
      filled += literal.length;
      continue;
    }
    const extra = [0, 1, 2, 4][tag & 3];
    let offset = little(cursor.take(extra));
    const length = extra === 1 ? ((tag >> 2) & 7) + 4 : (tag >> 2) + 1;
    if (extra === 1) offset += (tag >> 5) << 8;
    need(offset > 0 && offset <= filled, "a copy from before the page");
    need(filled + length <= size, "a page of another length than its own");
    for (let i = 0; i < length; i++, filled++) out[filled] = out[filled - offset];
  }
  need(filled === size, "a page of another length than its own");
  return out;
}
