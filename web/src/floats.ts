/** Doubles taken apart, and halves. */
import { roundToEven } from "./matrix.ts";

const VIEW = new DataView(new ArrayBuffer(8));

/** Return m in [½, 1) and e with value = m·2^e, for value > 0. */
export function frexp(value: number): readonly [mantissa: number, exponent: number] {
  VIEW.setFloat64(0, value);
  const exponent = (VIEW.getUint16(0) >> 4) & 0x7ff;
  if (exponent === 0) {
    const [mantissa, less] = frexp(value * 2 ** 64);
    return [mantissa, less - 64];
  }
  VIEW.setUint16(0, (VIEW.getUint16(0) & 0x800f) | (1022 << 4));
  return [VIEW.getFloat64(0), exponent - 1022];
}

/** Return a positive number rounded to 32 significant bits, so that machines agree. */
export function agreed(value: number): number {
  const [mantissa, exponent] = frexp(value);
  return roundToEven(mantissa * 2 ** 32) * 2 ** (exponent - 32);
}

/** Return the bits of the nearest IEEE binary16. */
export function halfBits(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(size)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  const exponent = size < 2 ** -14 ? -14 : frexp(size)[1] - 1;
  const steps = roundToEven(size * 2 ** (10 - exponent)); // 1024 … 2048 for normal numbers
  return sign | (size < 2 ** -14 ? steps : ((exponent + 15) << 10) + steps - 1024);
}

/** Return the number of the bits of an IEEE binary16. */
export function halfOf(bits: number): number {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 0 ? fraction * 2 ** -24 : exponent === 31 ? (fraction ? NaN : Infinity) : (1024 + fraction) * 2 ** (exponent - 25);
  return bits & 0x8000 ? -size : size;
}
