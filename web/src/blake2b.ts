/** BLAKE2b (RFC 7693), keyed and personalised: 64-bit words as pairs of 32-bit ones. */

const IV = new Uint32Array([
  0xf3bcc908, 0x6a09e667, 0x84caa73b, 0xbb67ae85, 0xfe94f82b, 0x3c6ef372, 0x5f1d36f1, 0xa54ff53a, 0xade682d1,
  0x510e527f, 0x2b3e6c1f, 0x9b05688c, 0xfb41bd6b, 0x1f83d9ab, 0x137e2179, 0x5be0cd19,
]);
const SIGMA = new Uint8Array(
  [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
  ].flat(),
);
const BLOCK = 128;
const v = new Uint32Array(32);
const m = new Uint32Array(32);
const mBytes = new Uint8Array(m.buffer);

/** Mix words a, b, c and d with the message words x and y; places are those of the low halves. */
function stir(a: number, b: number, c: number, d: number, x: number, y: number): void {
  let a0 = v[a], a1 = v[a + 1], b0 = v[b], b1 = v[b + 1], c0 = v[c], c1 = v[c + 1], d0 = v[d], d1 = v[d + 1];
  let low = a0 + b0 + m[x];
  a1 = (a1 + b1 + m[x + 1] + Math.floor(low / 0x100000000)) >>> 0;
  a0 = low >>> 0;
  let t0 = d0 ^ a0, t1 = d1 ^ a1;
  d0 = t1 >>> 0; // rotated by 32
  d1 = t0 >>> 0;
  low = c0 + d0;
  c1 = (c1 + d1 + (low >= 0x100000000 ? 1 : 0)) >>> 0;
  c0 = low >>> 0;
  t0 = b0 ^ c0;
  t1 = b1 ^ c1;
  b0 = ((t0 >>> 24) | (t1 << 8)) >>> 0;
  b1 = ((t1 >>> 24) | (t0 << 8)) >>> 0;
  low = a0 + b0 + m[y];
  a1 = (a1 + b1 + m[y + 1] + Math.floor(low / 0x100000000)) >>> 0;
  a0 = low >>> 0;
  t0 = d0 ^ a0;
  t1 = d1 ^ a1;
  d0 = ((t0 >>> 16) | (t1 << 16)) >>> 0;
  d1 = ((t1 >>> 16) | (t0 << 16)) >>> 0;
  low = c0 + d0;
  c1 = (c1 + d1 + (low >= 0x100000000 ? 1 : 0)) >>> 0;
  c0 = low >>> 0;
  t0 = b0 ^ c0;
  t1 = b1 ^ c1;
  b0 = ((t1 >>> 31) | (t0 << 1)) >>> 0;
  b1 = ((t0 >>> 31) | (t1 << 1)) >>> 0;
  v[a] = a0; v[a + 1] = a1; v[b] = b0; v[b + 1] = b1; v[c] = c0; v[c + 1] = c1; v[d] = d0; v[d + 1] = d1;
}

function compress(h: Uint32Array, counted: number, isLast: boolean): void {
  v.set(h, 0);
  v.set(IV, 16);
  v[24] ^= counted >>> 0;
  v[25] ^= Math.floor(counted / 0x100000000);
  if (isLast) {
    v[28] = ~v[28];
    v[29] = ~v[29];
  }
  for (let round = 0; round < 12; round++) {
    const s = round * 16;
    stir(0, 8, 16, 24, SIGMA[s] * 2, SIGMA[s + 1] * 2);
    stir(2, 10, 18, 26, SIGMA[s + 2] * 2, SIGMA[s + 3] * 2);
    stir(4, 12, 20, 28, SIGMA[s + 4] * 2, SIGMA[s + 5] * 2);
    stir(6, 14, 22, 30, SIGMA[s + 6] * 2, SIGMA[s + 7] * 2);
    stir(0, 10, 20, 30, SIGMA[s + 8] * 2, SIGMA[s + 9] * 2);
    stir(2, 12, 22, 24, SIGMA[s + 10] * 2, SIGMA[s + 11] * 2);
    stir(4, 14, 16, 26, SIGMA[s + 12] * 2, SIGMA[s + 13] * 2);
    stir(6, 8, 18, 28, SIGMA[s + 14] * 2, SIGMA[s + 15] * 2);
  }
  for (let i = 0; i < 16; i++) h[i] ^= v[i] ^ v[i + 16];
}

/** What a hash depends on beside the message. */
export interface Blake2bOptions {
  /** At most 64 bytes. */
  readonly key?: Uint8Array;
  /** At most 16 bytes. */
  readonly person?: Uint8Array;
}

/**
 * Return the BLAKE2b digest of `data`.
 *
 * @param size length of the digest in bytes, 1 to 64
 */
export function blake2b(data: Uint8Array, size: number, options: Blake2bOptions = {}): Uint8Array<ArrayBuffer> {
  const key = options.key ?? new Uint8Array(0);
  const parameters = new Uint8Array(64);
  parameters.set([size, key.length, 1, 1]);
  if (options.person !== undefined) parameters.set(options.person, 48);
  const h = new Uint32Array(parameters.buffer);
  for (let i = 0; i < 16; i++) h[i] ^= IV[i];
  let counted = 0;
  if (key.length > 0) {
    mBytes.fill(0);
    mBytes.set(key);
    counted = BLOCK;
    compress(h, counted, data.length === 0);
  }
  if (data.length > 0 || key.length === 0) {
    let at = 0;
    for (; data.length - at > BLOCK; at += BLOCK) {
      mBytes.set(data.subarray(at, at + BLOCK));
      compress(h, (counted += BLOCK), false);
    }
    mBytes.fill(0);
    mBytes.set(data.subarray(at));
    compress(h, counted + data.length - at, true);
  }
  return new Uint8Array(h.buffer.slice(0, size));
}
