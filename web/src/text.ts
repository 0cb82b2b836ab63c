/** UTF-8 and base64 by arithmetic alone: warehouses have the language, and neither TextDecoder nor atob. */

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/** Return UTF-8; halves of pairs of code units become U+FFFD, as TextEncoder has it. */
export function encodeUtf8(text: string): Uint8Array<ArrayBuffer> {
  const out: number[] = [];
  for (const one of text) {
    let point = one.codePointAt(0) as number;
    if (point >= 0xd800 && point < 0xe000) point = 0xfffd;
    if (point < 0x80) out.push(point);
    else if (point < 0x800) out.push(0xc0 | (point >> 6), 0x80 | (point & 63));
    else if (point < 0x10000) out.push(0xe0 | (point >> 12), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
    else out.push(0xf0 | (point >> 18), 0x80 | ((point >> 12) & 63), 0x80 | ((point >> 6) & 63), 0x80 | (point & 63));
  }
  return Uint8Array.from(out);
}

/** Return UTF-8 as text; null if it is none. */
export function decodeUtf8(data: Uint8Array): string | null {
  let out = "";
  for (let i = 0; i < data.length; ) {
    const first = data[i++];
    const more = first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : -1;
    if (more < 0 || i + more > data.length) return null;
    let point = more === 0 ? first : first & (63 >> more);
    for (let left = more; left > 0; left--, i++) {
      if ((data[i] & 0xc0) !== 0x80) return null;
      point = (point << 6) | (data[i] & 63);
    }
    if (point < [0, 0x80, 0x800, 0x10000][more] || point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) return null;
    out += String.fromCodePoint(point);
  }
  return out;
}

/** Return the standard base64 of bytes, padded. */
export function encodeBase64(data: Uint8Array): string {
  let out = "";
  for (let i = 0; i < data.length; i += 3) {
    const bits = (data[i] << 16) | ((data[i + 1] ?? 0) << 8) | (data[i + 2] ?? 0);
    const letters = [18, 12, 6, 0].map((shift) => ALPHABET[(bits >> shift) & 63]);
    out += i + 2 < data.length ? letters.join("") : i + 1 < data.length ? `${letters.slice(0, 3).join("")}=` : `${letters.slice(0, 2).join("")}==`;
  }
  return out;
}

const PLACES = new Int8Array(128).fill(-1);
Array.from(ALPHABET).forEach((letter, i) => (PLACES[letter.charCodeAt(0)] = i));

/** Return the bytes of base64 that was looked over before: letters of the alphabet, and padding. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const letters = text.replace(/=+$/, "");
  const out = new Uint8Array(Math.floor((letters.length * 3) / 4));
  let [bits, held, at] = [0, 0, 0];
  for (let i = 0; i < letters.length; i++) {
    bits = ((bits << 6) | PLACES[letters.charCodeAt(i)]) & 0xffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      out[at++] = (bits >> held) & 255;
    }
  }
  return out;
}
