/** Numbers as text, with the same digits as `streamsketch.estimation.format_value`. */
import type { Numbers } from "./data.ts";

/** Return a number with a fixed number of decimals, halves to even, and commas between thousands. */
export function fixed(value: number, decimals: number): string {
  const exact = Math.abs(value).toFixed(Math.min(100, decimals + 50));
  let text = Math.abs(value).toFixed(decimals);
  const rest = exact.slice(exact.indexOf(".") + 1 + decimals);
  if (/^50*$/.test(rest)) {
    const whole = exact.slice(0, exact.indexOf(".") + (decimals === 0 ? 0 : 1 + decimals));
    if (Number(whole.at(-1)) % 2 === 0) text = whole;
  }
  const [before, after] = text.split(".");
  const grouped = before.replace(/\B(?=(\d{3})+$)/g, ",");
  return `${value < 0 || Object.is(value, -0) ? "-" : ""}${grouped}${after === undefined ? "" : `.${after}`}`;
}

/** Return a value rounded to two significant digits of its standard error, or all whole ones without an error; ∞ for an end that does not exist. */
export function formatValue(value: number, error: number): string {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "-∞";
  if (!(error > 1e-9 && error < Infinity)) return Math.abs(value) >= 1e5 && Math.abs(value) < 1e15 ? fixed(value, 0) : plain(value);
  return fixed(value, Math.max(0, 1 - Math.floor(Math.log10(error))));
}

/** Return a number of at most six significant digits. */
export function plain(value: number): string {
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(5).split("e")[1]);
  if (exponent < -5 || exponent >= 6) {
    const [digits, power] = value.toExponential(5).split("e");
    return `${digits.replace(/\.?0+$/, "")}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  }
  const text = fixed(value, 5 - exponent);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Return an estimate, its standard error and its interval. */
export function cells(one: Numbers): [string, string, string] {
  return [formatValue(one.value, one.error), formatValue(one.error, one.error), interval(one)];
}

export function interval(one: Numbers): string {
  return `${formatValue(one.low, one.error)} … ${formatValue(one.high, one.error)}`;
}

/** Return texts of a number for a cell of the heat map, the longest first: with the digits that mean something, and with two. */
export function shortened(one: Numbers, largest: boolean, factor: number): string[] {
  const full = short(one, largest, factor);
  if (largest) return [full];
  const two = plain(Number((one.value / factor).toPrecision(2)));
  return two.length < full.length ? [full, two] : [full];
}

function short(one: Numbers, largest: boolean, factor: number): string {
  const text = largest ? fixed(one.value, 2) : formatValue(one.value / factor, one.error / factor);
  return /^-0(\.0*)?$/.test(text) ? text.slice(1) : text;
}
