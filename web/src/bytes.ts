/** Bytes as text, and the other way round. */
import { need } from "./errors.ts";
import { decodeBase64, decodeUtf8, encodeBase64, encodeUtf8 } from "./text.ts";

export type Bytes = Uint8Array<ArrayBuffer>;

const DECODER = typeof TextDecoder === "undefined" ? null : new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const ENCODER = typeof TextEncoder === "undefined" ? null : new TextEncoder();
const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Return UTF-8. */
export function utf8(text: string): Bytes {
  return ENCODER === null ? encodeUtf8(text) : (ENCODER.encode(text) as Bytes);
}

/** Return UTF-8 as text. */
export function textOf(data: Uint8Array): string {
  let found: string | null = null;
  try {
    found = DECODER === null ? decodeUtf8(data) : DECODER.decode(data);
  } catch {
    found = null;
  }
  need(found !== null, "text is not UTF-8");
  return found;
}

/** Return bytes in lower-case hexadecimal. */
export function hex(data: Uint8Array): string {
  let out = "";
  for (const byte of data) out += HEX[byte];
  return out;
}

/** Return the bytes of hexadecimal text. */
export function unhex(text: string): Bytes {
  need(text.length % 2 === 0 && /^[0-9a-fA-F]*$/.test(text), "text is not hexadecimal");
  const out = new Uint8Array(text.length / 2);
  for (let i = 0; i < out.length; i++) out[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return out;
}

/** Return bytes behind one another. */
export function concat(...parts: readonly Uint8Array[]): Bytes {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Return a negative number if `a` comes first, 0 if both are equal, else a positive one. */
export function compareBytes(a: Uint8Array, b: Uint8Array): number {
  const common = Math.min(a.length, b.length);
  for (let i = 0; i < common; i++) if (a[i] !== b[i]) return a[i] - b[i];
  return a.length - b.length;
}

export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Compare texts by code point: the order of UTF-16 units is another one. */
export function compareText(a: string, b: string): number {
  const common = Math.min(a.length, b.length);
  for (let i = 0; i < common; i++) {
    const [x, y] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (x !== y) return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1;
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xe000;
}

/** Return an integer as bytes, little-endian. */
export function littleEndian(value: bigint, size: number): Bytes {
  const out = new Uint8Array(size);
  for (let i = 0; i < size; i++) {
    out[i] = Number(value & 0xffn);
    value >>= 8n;
  }
  return out;
}

/** Return bytes, little-endian, as an integer. */
export function integerOf(data: Uint8Array): bigint {
  let value = 0n;
  for (let i = data.length - 1; i >= 0; i--) value = (value << 8n) | BigInt(data[i]);
  return value;
}

/** Return the standard base64 of bytes. */
export const base64 = encodeBase64;

/** Return the bytes of base64: the standard alphabet, padded, with spare bits 0. */
export function unbase64(text: string): Bytes {
  need(text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text), "text is not base64");
  const out = decodeBase64(text);
  need(base64(out) === text, "base64 with spare bits other than 0");
  return out;
}
