/** Secret bits: from the operating system's generator, by crypto.getRandomValues. Nothing else may be used but in tests. */
const MOST_AT_ONCE = 65536;

/** Fills bytes with secret, uniform ones. */
export type SecretBits = (into: Uint8Array<ArrayBuffer>) => void;

/** The operating system's generator. */
export const systemBits: SecretBits = (into) => {
  for (let at = 0; at < into.length; at += MOST_AT_ONCE) crypto.getRandomValues(into.subarray(at, at + MOST_AT_ONCE));
};

/** Return secret words as pairs of halves, low half first. */
export function secretWords(bits: SecretBits, count: number): Uint32Array {
  const bytes = new Uint8Array(8 * count);
  bits(bytes);
  const view = new DataView(bytes.buffer);
  return Uint32Array.from({ length: 2 * count }, (_, i) => view.getUint32(4 * i, true));
}
