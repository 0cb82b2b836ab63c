/** Text as the types of an agreement, so that equal rows have equal bytes before they are hashed. */
import { Ratio } from "./exact.ts";
import { Day, type Part } from "./hashing.ts";

const WHOLE = /^[+-]?[0-9]+(?:\.0*)?$/;
const DECIMAL = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)$/;
const LEAST = -(1n << 63n), MOST = (1n << 63n) - 1n;
const VALUE_PLACES = 12, VALUE_DIGITS = 38;
const BOOLEANS = new Map([["true", 1n], ["1", 1n], ["false", 0n], ["0", 0n]]); // an object would also know "constructor"

/** Return a cell as a logical type; undefined if it is not one of it. */
export function cast(text: string, type: string): Part | undefined {
  if (type === "text") return text;
  if (type === "date") return dayOf(text);
  if (type === "boolean") return BOOLEANS.get(text.toLowerCase());
  if (type === "integer") return WHOLE.test(text) ? inRange(BigInt(text.replace(/^\+/, "").replace(/\.0*$/, ""))) : undefined;
  const places = /^decimal\((\d+)\)$/.exec(type);
  if (places === null || !DECIMAL.test(text)) return undefined;
  const scaled = Ratio.parse(text).times(new Ratio(10n ** BigInt(places[1])));
  return scaled.denominator === 1n ? inRange(scaled.numerator) : undefined;
}

/** Return whether cells of a file can be of a type at all. */
export function isInFiles(type: string): boolean {
  return type !== "bytes" && type !== "timestamp";
}

/** Return a value: a plain decimal number of up to 12 places; undefined for other text. */
export function valueOf(text: string): Ratio | undefined {
  if (!DECIMAL.test(text)) return undefined;
  const [whole, fraction = ""] = text.replace(/^[+-]/, "").split(".");
  const isShort = fraction.replace(/0+$/, "").length <= VALUE_PLACES && whole.replace(/^0+/, "").length <= VALUE_DIGITS - VALUE_PLACES;
  return isShort ? Ratio.parse(text) : undefined;
}

function inRange(value: bigint): bigint | undefined {
  return value >= LEAST && value <= MOST ? value : undefined;
}

function dayOf(text: string): Day | undefined {
  try {
    return Day.parse(text);
  } catch {
    return undefined;
  }
}
