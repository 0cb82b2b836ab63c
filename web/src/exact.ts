/** Exact ratios of integers, and doubles as text. */
import { demand } from "./errors.ts";

const VIEW = new DataView(new ArrayBuffer(8));

export function abs(value: bigint): bigint {
  return value < 0n ? -value : value;
}

export function gcd(a: bigint, b: bigint): bigint {
  [a, b] = [abs(a), abs(b)];
  while (b !== 0n) [a, b] = [b, a % b];
  return a;
}

export function bitLength(value: bigint): number {
  if (value === 0n) return 0;
  const digits = abs(value).toString(16);
  return 4 * digits.length - Math.clz32(parseInt(digits[0], 16)) + 28;
}

/** Return a / b rounded down, for b > 0. */
export function floorDivide(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return quotient * b > a ? quotient - 1n : quotient;
}

/** Return the integer square root. */
export function integerRoot(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt((bitLength(value) + 1) >> 1);
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/** A ratio in lowest terms, with a positive denominator. */
export class Ratio {
  readonly numerator: bigint;
  readonly denominator: bigint;

  constructor(numerator: bigint, denominator = 1n) {
    demand(denominator !== 0n, "a ratio with denominator 0");
    const common = gcd(numerator, denominator) * (denominator < 0n ? -1n : 1n);
    this.numerator = numerator / common;
    this.denominator = denominator / common;
  }

  /** Return the exact value of a double. */
  static of(value: number): Ratio {
    demand(Number.isFinite(value), `${value} has no exact value`);
    if (Number.isInteger(value)) return new Ratio(BigInt(value));
    VIEW.setFloat64(0, value);
    const bits = VIEW.getBigUint64(0);
    const raw = Number((bits >> 52n) & 0x7ffn);
    const mantissa = (bits & 0xfffffffffffffn) | (raw > 0 ? 1n << 52n : 0n);
    const exponent = Math.max(raw, 1) - 1075;
    const signed = bits >> 63n ? -mantissa : mantissa;
    return exponent >= 0 ? new Ratio(signed << BigInt(exponent)) : new Ratio(signed, 1n << BigInt(-exponent));
  }

  /** Return the decimal that a double prints as: 0.1 is a tenth. */
  static written(value: number): Ratio {
    return Ratio.parse(String(value));
  }

  /** Return the lesser of a double and of the decimal that it prints as, to which exact noise is calibrated. */
  static least(value: number): Ratio {
    const [exact, decimal] = [Ratio.of(value), Ratio.written(value)];
    return exact.compare(decimal) < 0 ? exact : decimal;
  }

  /** Return the ratio of text such as `3`, `3/4` or `0.25`. */
  static parse(text: string): Ratio {
    const found = /^([+-]?\d+)\/(\d+)$/.exec(text);
    if (found !== null) return new Ratio(BigInt(found[1]), BigInt(found[2]));
    const decimal = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,5}))?$/.exec(text);
    demand(decimal !== null && (decimal[2] + (decimal[3] ?? "")).length > 0, `${JSON.stringify(text)} is no ratio`);
    const fraction = decimal[3] ?? "";
    const digits = BigInt(decimal[2] + fraction) * (decimal[1] === "-" ? -1n : 1n);
    const power = Number(decimal[4] ?? 0) - fraction.length;
    return power >= 0 ? new Ratio(digits * 10n ** BigInt(power)) : new Ratio(digits, 10n ** BigInt(-power));
  }

  add(other: Ratio): Ratio {
    return new Ratio(
      this.numerator * other.denominator + other.numerator * this.denominator,
      this.denominator * other.denominator,
    );
  }

  subtract(other: Ratio): Ratio {
    return this.add(other.negated());
  }

  times(other: Ratio): Ratio {
    return new Ratio(this.numerator * other.numerator, this.denominator * other.denominator);
  }

  over(other: Ratio): Ratio {
    return new Ratio(this.numerator * other.denominator, this.denominator * other.numerator);
  }

  negated(): Ratio {
    return new Ratio(-this.numerator, this.denominator);
  }

  magnitude(): Ratio {
    return this.numerator < 0n ? this.negated() : this;
  }

  compare(other: Ratio): number {
    const gap = this.numerator * other.denominator - other.numerator * this.denominator;
    return gap < 0n ? -1 : gap > 0n ? 1 : 0;
  }

  equals(other: Ratio): boolean {
    return this.numerator === other.numerator && this.denominator === other.denominator;
  }

  floor(): bigint {
    return floorDivide(this.numerator, this.denominator);
  }

  ceil(): bigint {
    return -floorDivide(-this.numerator, this.denominator);
  }

  /** Return the nearest double, ties to even. */
  toNumber(): number {
    const [n, d] = [abs(this.numerator), this.denominator];
    if (n < 1n << 53n && d < 1n << 53n) return Number(this.numerator) / Number(d); // one rounding
    if (n === 0n) return 0;
    const least = bitLength(n) - bitLength(d) - 66; // 65 bits or more, and one that says whether more is left
    const shift = Math.max(least, -1074 - 2);
    const [top, bottom] = shift < 0 ? [n << BigInt(-shift), d] : [n, d << BigInt(shift)];
    const quotient = top / bottom;
    const found = Number(quotient * bottom === top ? quotient : quotient | 1n);
    const half = Math.trunc(shift / 2);
    return (this.numerator < 0n ? -found : found) * 2 ** half * 2 ** (shift - half);
  }

  /** Return `n/d`, also where d is 1. */
  toPair(): string {
    return `${this.numerator}/${this.denominator}`;
  }

  /** Return `n/d`, or `n` where d is 1. */
  toString(): string {
    return this.denominator === 1n ? `${this.numerator}` : this.toPair();
  }
}

/** Return a double as canonical JSON has it: as Python prints it. */
export function doubleText(value: number): string {
  if (Object.is(value, -0)) return "-0.0";
  const [digits, exponent] = value.toExponential().split("e");
  const power = Number(exponent);
  if (power >= -4 && power < 16) {
    const text = String(value);
    return text.includes(".") ? text : `${text}.0`;
  }
  return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

/** Return the largest positive ratio of which both are integer multiples. */
export function commonStep(p: Ratio, q: Ratio): Ratio {
  return new Ratio(gcd(p.numerator * q.denominator, q.numerator * p.denominator), p.denominator * q.denominator);
}
