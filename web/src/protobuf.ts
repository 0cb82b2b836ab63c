/** Protobuf by the schemas. What is parsed is written again and compared, so that only canonical bytes are read. */
import { compareBytes, concat, textOf, utf8, type Bytes } from "./bytes.ts";
import { need } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { SCHEMAS, type Field } from "./schemas.ts";

type Fields = Record<string, unknown>;

const FEWER: Readonly<Record<string, number>> = { conditions: 64, steps: 16 };
const VARINT = 0, FIXED = 1, LENGTH = 2;
const WIRE_TYPES: Readonly<Record<string, number>> = {
  bool: VARINT,
  uint32: VARINT,
  uint64: VARINT,
  size: VARINT,
  sint32: VARINT,
  sint64: VARINT,
  double: FIXED,
  fixed64: FIXED,
};
const DEFAULTS: Readonly<Record<string, unknown>> = {
  bool: false,
  uint32: 0,
  size: 0,
  sint32: 0,
  uint64: 0n,
  sint64: 0n,
  fixed64: 0n,
  double: 0,
  string: "",
  bytes: new Uint8Array(0),
};
const VIEW = new DataView(new ArrayBuffer(8));

/** Reads varints, one behind the other. */
export class Cursor {
  at = 0;
  readonly data: Uint8Array;

  constructor(data: Uint8Array) {
    this.data = data;
  }

  /** Return a base-128 integer of at most 64 bits. */
  varint(): bigint {
    let low = 0, high = 0n, factor = 1;
    for (let count = 0; count < 10; count++) {
      need(this.at < this.data.length, "a varint is cut off");
      const byte = this.data[this.at++];
      if (count < 7) {
        low += (byte & 0x7f) * factor;
        factor *= 128;
      } else {
        high |= BigInt(byte & 0x7f) << BigInt(7 * count);
      }
      if (byte < 0x80) {
        const value = BigInt(low) | high;
        need(value < 1n << 64n, "a varint above 64 bits");
        return value;
      }
    }
    need(false, "a varint of more than ten bytes");
  }

  /** Return a base-128 integer below 2^53. */
  small(): number {
    const value = this.varint();
    need(value < 1n << 53n, "an integer above 53 bits");
    return Number(value);
  }

  take(size: number): Uint8Array {
    need(size <= this.data.length - this.at, "a field is cut off");
    this.at += size;
    return this.data.subarray(this.at - size, this.at);
  }
}

/** Return a message's fields by name; optional ones only where they are there. */
export function parse(kind: string, data: Uint8Array, maxItems: number): Fields {
  const schema = SCHEMAS[kind];
  const message: Fields = {};
  const cursor = new Cursor(data);
  while (cursor.at < data.length) {
    const tag = cursor.small();
    const field = schema[Math.floor(tag / 8)];
    need(field !== undefined, "an unknown field");
    const [name, type, rule] = field;
    const wire = WIRE_TYPES[type] ?? LENGTH;
    need(tag % 8 === wire, "another wire type");
    const value = wire === VARINT ? integer(type, cursor.varint()) : decoded(type, cursor.take(wire === FIXED ? 8 : cursor.small()), maxItems);
    if (rule === "repeated" || rule === "listed") {
      const list = (message[name] ??= []) as unknown[];
      need(list.length < Math.min(maxItems, FEWER[name] ?? maxItems), `more entries of ${name} than are read`);
      list.push(value);
    } else {
      need(!(name in message), "a field is there twice");
      message[name] = value;
    }
  }
  for (const [name, type, rule] of Object.values(schema)) {
    if (name in message) continue;
    need(rule !== "always", `${name} is missing`);
    if (rule === "repeated") message[name] = [];
    else if (rule === "default") message[name] = DEFAULTS[type];
  }
  return message;
}

function integer(type: string, value: bigint): unknown {
  if (type === "uint64") return value;
  if (type === "sint64") return value & 1n ? -((value + 1n) >> 1n) : value >> 1n;
  if (type === "size") {
    need(value < 1n << 53n, "an integer above 53 bits");
    return Number(value);
  }
  need(value < 1n << 32n, "above 32 bits");
  const number = Number(value);
  if (type === "uint32") return number;
  if (type === "sint32") return number % 2 ? -(number + 1) / 2 : number / 2;
  need(number < 2, "neither true nor false");
  return number === 1;
}

function decoded(type: string, data: Uint8Array, maxItems: number): unknown {
  switch (type) {
    case "bytes":
      return data.slice();
    case "string":
      return textOf(data);
    case "double":
      return new DataView(data.buffer, data.byteOffset, 8).getFloat64(0, true);
    case "fixed64":
      return new DataView(data.buffer, data.byteOffset, 8).getBigUint64(0, true);
    case "Ratio": {
      const { numerator, denominator } = parse("Ratio", data, maxItems) as { numerator: bigint; denominator: bigint };
      need(denominator > 0n, "a ratio with denominator 0");
      return new Ratio(numerator, denominator);
    }
    default:
      return parse(type, data, maxItems);
  }
}

/** Return a message's canonical bytes. */
export function encode(kind: string, message: object): Bytes {
  return concat(...encoded(kind, message as Fields));
}

const ORDERED: Record<string, readonly [number, Field][]> = {};
for (const [kind, schema] of Object.entries(SCHEMAS)) {
  ORDERED[kind] = Object.entries(schema).map(([number, field]) => [Number(number), field] as [number, Field]);
}

function encoded(kind: string, message: Fields): Uint8Array[] {
  const out: Uint8Array[] = [];
  for (const [number, [name, type, rule]] of ORDERED[kind]) {
    const value = message[name];
    if (value === undefined) continue;
    for (const one of rule === "repeated" || rule === "listed" ? (value as unknown[]) : [value]) {
      if (rule === "default" && isDefault(type, one)) continue;
      const wire = WIRE_TYPES[type] ?? LENGTH;
      out.push(varintBytes(BigInt(number * 8 + wire)));
      const data = fieldBytes(type, one);
      if (wire === LENGTH) out.push(varintBytes(BigInt(data.length)));
      out.push(data);
    }
  }
  return out;
}

function isDefault(type: string, value: unknown): boolean {
  if (type === "bytes" || type === "string") return (value as string | Uint8Array).length === 0;
  return Object.is(value, DEFAULTS[type]);
}

function fieldBytes(type: string, value: unknown): Uint8Array {
  switch (type) {
    case "bytes":
      return value as Uint8Array;
    case "string":
      return utf8(value as string);
    case "double":
      VIEW.setFloat64(0, value as number, true);
      return new Uint8Array(VIEW.buffer.slice(0));
    case "fixed64":
      VIEW.setBigUint64(0, value as bigint, true);
      return new Uint8Array(VIEW.buffer.slice(0));
    case "sint32":
    case "sint64": {
      const number = BigInt(value as number | bigint);
      return varintBytes(number >= 0n ? 2n * number : -2n * number - 1n);
    }
    case "bool":
      return varintBytes(value ? 1n : 0n);
    case "uint32":
    case "uint64":
    case "size":
      return varintBytes(BigInt(value as number | bigint));
    default:
      return encode(type, value as Fields);
  }
}

/** Return a base-128 integer. */
export function varintBytes(value: bigint): Bytes {
  if (value < 128n) return new Uint8Array([Number(value)]);
  const out: number[] = [];
  for (; value > 127n; value >>= 7n) out.push(Number(value & 127n) | 128);
  out.push(Number(value));
  return new Uint8Array(out);
}

/** Return whether lists of bytes ascend and are distinct. */
export function ascends(items: readonly Uint8Array[]): boolean {
  return items.every((item, i) => i === 0 || compareBytes(items[i - 1], item) < 0);
}
