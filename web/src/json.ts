/** JSON of others: integers are read exactly, names are there once, and depth is limited; and canonical JSON. */
import { compareText, utf8 } from "./bytes.ts";
import { need } from "./errors.ts";
import { doubleText } from "./exact.ts";

/** Integers are bigints, numbers with a fraction or an exponent are doubles. */
export type Json = null | boolean | bigint | number | string | Json[] | JsonObject;
export interface JsonObject {
  [name: string]: Json;
}

const DEEPEST = 32;
const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES: Readonly<Record<string, string>> = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

class Parser {
  at = 0;
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  value(depth: number): Json {
    need(depth <= DEEPEST, "JSON that is nested too deeply");
    this.space();
    const next = this.text[this.at];
    if (next === "{") return this.object(depth);
    if (next === "[") return this.array(depth);
    if (next === '"') return this.string();
    for (const [word, value] of [["null", null], ["true", true], ["false", false]] as const) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return value;
      }
    }
    return this.number();
  }

  space(): void {
    while (" \t\n\r".includes(this.text[this.at] ?? "x")) this.at++;
  }

  taken(token: string): boolean {
    this.space();
    if (this.text[this.at] !== token) return false;
    this.at++;
    return true;
  }

  object(depth: number): JsonObject {
    this.at++;
    const found: JsonObject = Object.create(null);
    if (this.taken("}")) return found;
    do {
      this.space();
      need(this.text[this.at] === '"', "not JSON: a name is missing");
      const name = this.string();
      need(!(name in found), "JSON with a name that is there twice");
      need(this.taken(":"), "not JSON: a colon is missing");
      found[name] = this.value(depth + 1);
    } while (this.taken(","));
    need(this.taken("}"), "not JSON: an object without an end");
    return found;
  }

  array(depth: number): Json[] {
    this.at++;
    const found: Json[] = [];
    if (this.taken("]")) return found;
    do found.push(this.value(depth + 1));
    while (this.taken(","));
    need(this.taken("]"), "not JSON: a list without an end");
    return found;
  }

  string(): string {
    this.at++;
    let found = "";
    for (;;) {
      PLAIN.lastIndex = this.at;
      const [plain] = PLAIN.exec(this.text) as RegExpExecArray;
      found += plain;
      this.at += plain.length;
      const next = this.text[this.at++];
      if (next === '"') return found;
      need(next === "\\", "not JSON: text without an end");
      const escape = this.text[this.at++];
      if (escape === "u") {
        const digits = this.text.slice(this.at, this.at + 4);
        need(/^[0-9a-fA-F]{4}$/.test(digits), "not JSON: a bad escape");
        found += String.fromCharCode(parseInt(digits, 16));
        this.at += 4;
      } else {
        need(escape !== undefined && escape in ESCAPES, "not JSON: a bad escape");
        found += ESCAPES[escape];
      }
    }
  }

  number(): bigint | number {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    need(match !== null, "not JSON: no value");
    this.at += match[0].length;
    if (match[1] === undefined && match[2] === undefined) {
      need(match[0].length <= 64, "JSON with an integer of more than 64 characters");
      return BigInt(match[0]);
    }
    const value = Number(match[0]);
    need(Number.isFinite(value), "JSON with a number beyond doubles");
    return value;
  }
}

/** Return what JSON text holds; WireFormatError if it is none, or longer than `maxBytes`. */
export function parseJson(text: string, maxBytes: number): Json {
  need(text.length <= maxBytes && utf8(text).length <= maxBytes, `JSON of more than ${maxBytes} bytes`);
  const parser = new Parser(text);
  const found = parser.value(0);
  parser.space();
  need(parser.at === text.length, "not JSON: text behind its end");
  return found;
}

/** Return canonical JSON; code points from 7F on are escaped unless `isPlain`. */
export function canonicalJson(value: Json, isPlain = false): string {
  if (value === null || typeof value === "boolean" || typeof value === "bigint") return String(value);
  if (typeof value === "number") return doubleText(value);
  if (typeof value === "string") return quoted(value, isPlain);
  if (Array.isArray(value)) return `[${value.map((one) => canonicalJson(one, isPlain)).join(",")}]`;
  const entries = Object.entries(value).sort(([a], [b]) => compareText(a, b));
  return `{${entries.map(([name, one]) => `${quoted(name, isPlain)}:${canonicalJson(one, isPlain)}`).join(",")}}`;
}

function quoted(text: string, isPlain: boolean): string {
  const escaped = JSON.stringify(text); // escapes lone surrogates and what is below 20, as canonical JSON does
  return isPlain ? escaped : escaped.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Return a field of an object. */
export function field(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) ? value[name] : undefined;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Refuse anything but an object of exactly these fields; return it. */
export function objectOf(value: Json | undefined, what: string, names: readonly string[], optional: readonly string[] = []): JsonObject {
  need(isObject(value), `${what} is no object`);
  const found = Object.keys(value);
  need(names.every((name) => name in value), `${what} lacks one of ${names.join(", ")}`);
  need(found.every((name) => names.includes(name) || optional.includes(name)), `${what} has a field that is not known`);
  return value;
}

export function textField(value: Json | undefined, what: string): string {
  need(typeof value === "string", `${what} is no text`);
  return value;
}

export function integerField(value: Json | undefined, what: string): number {
  need(typeof value === "bigint" && value < 1n << 53n && value > -(1n << 53n), `${what} is no integer`);
  return Number(value);
}

/** Return a number of JSON, with or without a fraction, as a double. */
export function numberField(value: Json | undefined, what: string): number {
  need(typeof value === "number" || typeof value === "bigint", `${what} is no number`);
  return Number(value);
}
