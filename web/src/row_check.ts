/** What an operator should know of names before any release: spellings, texts that stand for nothing, busy units. */
import { compareText } from "./bytes.ts";
import { say } from "./say.ts";
import * as sentences from "./sentences.ts";
import { spell, type TextRule } from "./spelling.ts";

/** One thing to know of a column: for the operator alone. */
export interface Finding {
  readonly column: string;
  readonly kind: "not in NFC" | "blanks" | "looks missing" | "several spellings" | "rows of units" | "swapped";
  readonly rows: number;
  readonly text: string;
}

/** A column of names: how it is spelt, and how many rows have each text, as the file has it. */
export interface Names {
  readonly column: string;
  readonly rule: TextRule | null;
  readonly rows: ReadonlyMap<string, number>;
}

const NOTHING = { form: null, blanks: null, case: null, invisible: null } as const;
const FORM: TextRule = { ...NOTHING, form: "NFC" };
const BLANKS: TextRule = { ...NOTHING, blanks: "collapse" };
const ALIKE: TextRule = { form: "NFKC", blanks: "collapse", case: "fold", invisible: "drop" };
const TRIMMED: TextRule = { ...NOTHING, blanks: "trim", case: "fold" };
const MISSING = new Set(
  ["NA", "N/A", "#N/A", "#NA", "<NA>", "NULL", "<NULL>", "(null)", "NaN", "-NaN", "NaT", "None", "nil", "\\N", "1.#QNAN", "-1.#IND", "undefined", "-", "--", "?", "n.a.", "unknown"]
    .map((text) => spell(text, TRIMMED)),
);
const SHOWN = 3;
const MANY = 10;

/** Return what is to be known of names, column by column, and of units. */
export function findingsOf(columns: readonly Names[], unit: string | null, units: readonly number[], rows: number): Finding[] {
  const found = columns.flatMap(ofNames);
  if (unit === null || units.length === 0) return found;
  const counts = [...units].sort((a, b) => a - b);
  const most = counts[counts.length - 1];
  const half = counts[(counts.length - 1) >> 1];
  found.push({ column: unit, kind: "rows of units", rows: most, text: `${thousands(counts.length)} units; half have ${thousands(half)} rows or fewer, and one has ${thousands(most)}` });
  const [widest] = columns.filter(({ column }) => column !== unit).sort((a, b) => b.rows.size - a.rows.size);
  if (widest !== undefined && widest.rows.size > MANY * counts.length) {
    const text = say(sentences.IS_IT_THE_UNIT, { column: widest.column, names: thousands(widest.rows.size), units: thousands(counts.length), unit });
    found.push({ column: unit, kind: "swapped", rows, text });
  }
  return found;
}

function ofNames({ column, rule, rows }: Names): Finding[] {
  const found: Finding[] = [];
  const note = (kind: Finding["kind"], texts: Iterable<string>, text: string): void => {
    let sum = 0;
    for (const one of texts) sum += rows.get(one) as number;
    if (sum > 0) found.push({ column, kind, rows: sum, text });
  };
  const names = [...rows.keys()];
  note("not in NFC", names.filter((text) => spell(text, FORM) !== text), rule?.form == null ? sentences.NOT_IN_NFC : sentences.BROUGHT_INTO_NFC);
  note("blanks", names.filter((text) => spell(text, BLANKS) !== text),
    say(sentences.BLANKS, { done: rule?.blanks == null ? sentences.OTHER_BY_BLANKS : sentences.BLANKS_AGREED }));
  const missing = names.filter((text) => MISSING.has(spell(text, TRIMMED)));
  note("looks missing", missing, say(sentences.LOOKS_MISSING, { examples: examples(missing) }));
  const groups = new Map<string, Map<string, string[]>>();
  for (const text of names) {
    const [alike, agreed] = [spell(text, ALIKE), spell(text, rule)];
    const group = groups.get(alike) ?? new Map<string, string[]>();
    group.set(agreed, [...(group.get(agreed) ?? []), text]);
    groups.set(alike, group);
  }
  const several = [...groups.values()].filter((group) => group.size > 1);
  const shown = several.map((group) => [...group.keys()].sort(compareText).slice(0, SHOWN).map(quoted).join(" and ")).sort(compareText);
  note("several spellings", several.flatMap((group) => [...group.values()].flat()),
    say(sentences.SEVERAL_SPELLINGS, { examples: shown.slice(0, SHOWN).join("; "), count: thousands(several.length) }));
  return found;
}

function examples(texts: readonly string[]): string {
  return [...texts].sort(compareText).slice(0, SHOWN).map(quoted).join(", ");
}

function quoted(text: string): string {
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 59)}…` : text);
}

function thousands(value: number): string {
  return value.toLocaleString("en");
}
