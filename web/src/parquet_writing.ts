/** Parquet, as far as tables of releases need it: two columns in one page each, as they are. */
import { concat, littleEndian, utf8, type Bytes } from "./bytes.ts";
import { varintBytes } from "./protobuf.ts";

const I32 = 5, I64 = 6, BINARY = 8, LIST = 9, STRUCT = 12; // Thrift's compact types
const BYTE_ARRAY = 6n, INT64 = 2n, REQUIRED = 0n, PLAIN = 0n, RLE = 3n, DATA_PAGE = 0n;
const MAGIC = utf8("PAR1");

/** A column of text, bytes, or integers of 64 bits. */
export interface WrittenColumn {
  readonly name: string;
  readonly values: readonly string[] | readonly Uint8Array[] | readonly bigint[];
}

type Field = readonly [number: number, type: number, value: Bytes];

function zigzag(value: bigint): Bytes {
  return varintBytes(value < 0n ? -value * 2n - 1n : value * 2n);
}

/** Return a struct of Thrift's compact protocol, its fields by ascending number. */
function struct(...fields: readonly Field[]): Bytes {
  let last = 0;
  const parts = fields.flatMap(([number, type, value]) => {
    const head = Uint8Array.of(((number - last) << 4) | type);
    last = number;
    return [head, value];
  });
  return concat(...parts, Uint8Array.of(0));
}

function list(type: number, items: readonly Bytes[]): Bytes {
  return concat(items.length < 15 ? Uint8Array.of((items.length << 4) | type) : concat(Uint8Array.of(0xf0 | type), varintBytes(BigInt(items.length))), ...items);
}

const text = (value: string): Bytes => concat(varintBytes(BigInt(utf8(value).length)), utf8(value));
const i32 = (number: number, value: bigint): Field => [number, I32, zigzag(value)];
const i64 = (number: number, value: number): Field => [number, I64, zigzag(BigInt(value))];

function isText(values: WrittenColumn["values"]): values is readonly string[] {
  return typeof values[0] === "string";
}

function isIntegers(values: WrittenColumn["values"]): values is readonly bigint[] {
  return typeof values[0] === "bigint";
}

function pageOf({ values }: WrittenColumn): Bytes {
  if (isIntegers(values)) return concat(...values.map((value) => littleEndian(BigInt.asUintN(64, value), 8)));
  const rows = isText(values) ? values.map(utf8) : values;
  return concat(...rows.flatMap((row) => [littleEndian(BigInt(row.length), 4), row]));
}

function elementOf({ name, values }: WrittenColumn): Bytes {
  const utf: Field[] = isText(values) ? [i32(6, 0n), [10, STRUCT, struct([1, STRUCT, struct()])]] : [];
  return struct(i32(1, isIntegers(values) ? INT64 : BYTE_ARRAY), i32(3, REQUIRED), [4, BINARY, text(name)], ...utf);
}

/** Return a Parquet file of columns of one length, at least one row. */
export function writeColumns(columns: readonly WrittenColumn[]): Bytes {
  const rows = columns[0].values.length;
  const parts: Bytes[] = [MAGIC];
  let at = MAGIC.length;
  const chunks = columns.map((column) => {
    const page = pageOf(column);
    const header = struct(i32(1, DATA_PAGE), i32(2, BigInt(page.length)), i32(3, BigInt(page.length)),
      [5, STRUCT, struct(i32(1, BigInt(rows)), i32(2, PLAIN), i32(3, RLE), i32(4, RLE))]);
    const size = header.length + page.length;
    const meta = struct(
      i32(1, isIntegers(column.values) ? INT64 : BYTE_ARRAY), [2, LIST, list(I32, [zigzag(PLAIN), zigzag(RLE)])], [3, LIST, list(BINARY, [text(column.name)])],
      i32(4, 0n), i64(5, rows), i64(6, size), i64(7, size), i64(9, at),
    );
    const chunk = struct(i64(2, at), [3, STRUCT, meta]);
    parts.push(header, page);
    at += size;
    return { chunk, size };
  });
  const group = struct([1, LIST, list(STRUCT, chunks.map(({ chunk }) => chunk))], i64(2, chunks.reduce((sum, { size }) => sum + size, 0)), i64(3, rows));
  const root = struct([4, BINARY, text("schema")], i32(5, BigInt(columns.length)));
  const footer = struct(i32(1, 1n), [2, LIST, list(STRUCT, [root, ...columns.map(elementOf)])], i64(3, rows), [4, LIST, list(STRUCT, [group])], [6, BINARY, text("streamsketch")]);
  return concat(...parts, footer, littleEndian(BigInt(footer.length), 4), MAGIC);
}
