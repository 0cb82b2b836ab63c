/** Text in one spelling, as an agreement states it (WIRE.md, Text): the same bits as in every other reader. */
import { need } from "./errors.ts";
import { objectOf, textField, type Json, type JsonObject } from "./json.ts";
import { FOLDED, UNASSIGNED, UNICODE } from "./unicode14.ts";

/** The steps of a rule for text; null where a step is not taken. */
export interface TextRule {
  readonly form: "NFC" | "NFKC" | null;
  readonly blanks: "trim" | "collapse" | null;
  readonly case: "fold" | null;
  readonly invisible: "drop" | null;
}

const STEPS: Readonly<Record<string, readonly string[]>> = { form: ["NFC", "NFKC"], blanks: ["trim", "collapse"], case: ["fold"], invisible: ["drop"] };
const BLANK = "[\\t-\\r \\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]+";
const RUNS = new RegExp(BLANK, "gu");
const ENDS = new RegExp(`^${BLANK}|${BLANK}$`, "gu");
const INVISIBLE = /[\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/gu;

const point = (code: number): string => `\\u{${code.toString(16)}}`;
let unassigned: RegExp | null = null;
let folded: Map<string, string> | null = null;

/** Return the pattern of runs of code points that Unicode 14.0 does not assign, as one group. */
function unassignedRuns(): RegExp {
  if (unassigned !== null) return unassigned;
  let last = 0;
  const ranges = UNASSIGNED.split(" ").map((part) => {
    const [ahead, more] = part.split(",");
    const first = last + parseInt(ahead, 36);
    last = first + (more === undefined ? 0 : parseInt(more, 36));
    return `${point(first)}-${point(last)}`;
  });
  unassigned = new RegExp(`([${ranges.join("")}]+)`, "u");
  return unassigned;
}

/** Return text with Unicode's full case folding: JavaScript has lower case, which is another. */
function fold(text: string): string {
  folded ??= new Map(
    FOLDED.split(" ").flatMap((part): [string, string][] => {
      const [first, count, step, ...to] = part.split(",").map((number) => parseInt(number, 36));
      if (count === 0) return [[String.fromCodePoint(first), String.fromCodePoint(step, ...to)]];
      return Array.from({ length: count }, (_, i) => [String.fromCodePoint(first + i * step), String.fromCodePoint(to[0] + i * step)]);
    }),
  );
  const table = folded;
  return Array.from(text, (letter) => table.get(letter) ?? letter).join("");
}

/** Return assigned code points, folded and normalised (Unicode, D145 and D146). */
function letters(text: string, rule: TextRule): string {
  if (rule.case === null) return rule.form === null ? text : text.normalize(rule.form);
  if (rule.form === null) return fold(text);
  const once = fold(text.normalize("NFD"));
  return rule.form === "NFC" ? once.normalize("NFC") : fold(once.normalize("NFKD")).normalize("NFKC");
}

/** Return text in the spelling of a rule; with null as it is. */
export function spell(text: string, rule: TextRule | null): string {
  if (rule === null) return text;
  let found = rule.invisible === null ? text : text.replace(INVISIBLE, "");
  if (rule.form !== null || rule.case !== null) {
    found = found.split(unassignedRuns()).map((part, place) => (place % 2 === 1 ? part : letters(part, rule))).join("");
  }
  if (rule.blanks === "collapse") found = found.replace(RUNS, " ");
  return rule.blanks === null ? found : found.replace(ENDS, "");
}

/** Return the rule for columns of units: form NFC, where there is a form, and blanks; null if that is no step. */
export function ruleOfUnits(rule: TextRule | null): TextRule | null {
  if (rule === null || (rule.form === null && rule.blanks === null)) return null;
  return { form: rule.form === null ? null : "NFC", blanks: rule.blanks, case: null, invisible: null };
}

/** Return the rule of an agreement's JSON. */
export function textRuleOf(value: Json | undefined): TextRule | null {
  if (value === undefined) return null;
  const fields: JsonObject = objectOf(value, "text", ["unicode"], Object.keys(STEPS));
  need(textField(fields.unicode, "the version of Unicode") === UNICODE, `a rule for text of another Unicode than ${UNICODE}`);
  const found: Record<string, string | null> = {};
  for (const [name, known] of Object.entries(STEPS)) {
    found[name] = fields[name] === undefined ? null : textField(fields[name], name);
    need(found[name] === null || known.includes(found[name]), `an unknown step of ${name}`);
  }
  need(Object.keys(fields).length > 1, "a rule for text without a step");
  return found as unknown as TextRule;
}
