/** A person's own rows on the page: what would be left out, and the release that they make. The rows stay here. */
import { type Agreement, AgreedRows, type Dialect, guaranteeText, Release, type Table } from "../index.ts";
import { readDelimited } from "../delimited.ts";
import { button, element, labelled, save } from "./dom.ts";

const DELIMITERS: Readonly<Record<string, string>> = { ",": "comma", ";": "semicolon", "\t": "tab" };
const ENCODINGS = ["utf-8", "windows-1252", "utf-16le"];
const DECIMALS: Readonly<Record<string, string>> = { ".": "point", ",": "comma" };
const REASONS = { missing: "no value", malformed: "not of the agreed type", "other key": "a key that is not listed" } as const;

/** A file of rows, and the release that was made of it, if one was. */
export interface OwnFile {
  readonly name: string;
  readonly bytes: Uint8Array;
  dialect: Dialect;
  made: Release | Table<Release> | null;
}

/** Return how a file with the columns of an agreement is written; null if it is not one. */
export function dialectOf(bytes: Uint8Array, { key, index, unit, value }: Agreement): Dialect | null {
  const names = [key, unit, ...index].flatMap((one) => (one === null ? [] : [one.name])).concat(value ?? []);
  for (const encoding of ENCODINGS) {
    for (const delimiter of Object.keys(DELIMITERS)) {
      try {
        const end = bytes.indexOf(10);
        const { header } = readDelimited(end < 0 ? bytes : bytes.subarray(0, encoding === "utf-16le" ? end + 2 : end + 1), { delimiter, encoding });
        if (names.every((name) => header.includes(name))) return { delimiter, encoding, decimal: "." };
      } catch {
        // another encoding or delimiter
      }
    }
  }
  return null;
}

/** Return the releases that were made, by name. */
export function releasesOf({ name, made }: OwnFile): [string, Release][] {
  if (made === null) return [];
  if (made instanceof Release) return [[`${stem(name)} (yours)`, made]];
  return made.labels.map((label, place) => [`${label} (yours)`, made.releases[place]]);
}

function stem(name: string): string {
  return name.replace(/\.[^.]*$/, "");
}

/** Return the section on a person's own rows. `changed` is called when a release was made. */
export function ownRows(file: OwnFile, agreement: Agreement, shown: (text: string, longest?: number) => string, changed: () => void): HTMLElement {
  const section = element("section", { class: "own" });
  const draw = (): void => {
    const parts: Node[] = [element("h2", {}, `Your rows: ${shown(file.name)}`)];
    try {
      parts.push(...contents(new AgreedRows(agreement, file.bytes, file.dialect), file, shown, draw, changed));
    } catch (error) {
      parts.push(element("p", { class: "warning" }, shown(error instanceof Error ? error.message : "The file cannot be read.", 500)));
      if (file.made === null) parts.push(writing(file, draw));
    }
    if (file.made !== null) parts.push(...released(file.name, file.made, agreement, shown));
    section.replaceChildren(...parts);
  };
  draw();
  return section;
}

function contents(rows: AgreedRows, file: OwnFile, shown: (text: string, longest?: number) => string, draw: () => void, changed: () => void): Node[] {
  const of = rows.units === null ? "" : `, of ${number(rows.units)} units (${shown(rows.agreement.unit!.name)}),`;
  const parts: Node[] = [element("p", {}, `${number(rows.count)} rows; ${number(rows.kept)}${of} are counted.`), ...leftOut(rows, shown), ...told(rows, shown)];
  if (file.made !== null) return parts;
  parts.push(writing(file, draw));
  const leave = element("input", { type: "checkbox", id: "leave-out" });
  const go = button("Make a release", { class: "release" }, () => {
    go.disabled = true;
    said.textContent = "Making the release …";
    setTimeout(() => {
      try {
        file.made = rows.release({ leaveOut: leave.checked });
        changed();
      } catch (error) {
        go.disabled = false;
        said.textContent = shown(error instanceof Error ? error.message : "No release was made.", 500);
      }
    });
  });
  const said = element("p", { role: "status", class: "soft" });
  go.disabled = rows.areRefused;
  leave.addEventListener("change", () => (go.disabled = rows.areRefused && !leave.checked));
  if (rows.areRefused) parts.push(element("p", {}, leave, element("label", { for: "leave-out" }, " leave these rows out; otherwise correct the file, and drop it again")));
  parts.push(element("p", {}, `A release guarantees ${shown(guaranteeText(rows.guarantee), 400)}. The noise comes from this computer's secure generator.`), element("p", {}, go), said);
  return parts;
}

/** Return what a release that was made guarantees, whatever agreement is open by now. */
export function promiseOf(made: Release | Table<Release>, { fingerprint }: Agreement): { readonly guarantee: string; readonly unit: string; readonly isOther: boolean } {
  const { guarantee, agreement } = made instanceof Release ? made : made.releases[0];
  return { guarantee: guaranteeText(guarantee), unit: guarantee.neighbours.unit, isOther: agreement !== fingerprint };
}

function released(file: string, made: Release | Table<Release>, agreement: Agreement, shown: (text: string, longest?: number) => string): Node[] {
  const { guarantee, unit, isOther } = promiseOf(made, agreement);
  const name = `${stem(file)}${made instanceof Release ? ".sketch" : ".parquet"}`;
  const other = isOther ? " It was made under another agreement than the one that is open now." : "";
  return [
    element("p", { role: "status" }, element("strong", {}, "Released."), ` ${shown(guarantee, 400)}.${other} The release may leave this computer; the rows may not. It is compared with the other files below.`),
    element("p", {}, button(`Save ${shown(name)}`, {}, () => save(name, new Blob([made.toBytes()])))),
    element("p", { class: "soft" }, `Keep this file, and publish it as it is. A second release of the same rows would reveal more of each ${shown(unit)}: their ε add up, and this page keeps no ledger.`),
  ];
}

function leftOut({ dropped }: AgreedRows, shown: (text: string) => string): Node[] {
  if (dropped.length === 0) return [element("p", {}, "No row is left out.")];
  const lines = dropped.map(({ reason, column, count, rows }) => [REASONS[reason], shown(column), number(count), `${rows.map(number).join(", ")}${count > rows.length ? ", …" : ""}`]);
  return [tableOf("Rows that are left out", ["why", "column", "rows", "row numbers"], lines)];
}

function told({ findings, count }: AgreedRows, shown: (text: string, longest?: number) => string): Node[] {
  if (findings.length === 0) return [];
  const lines = findings.map(({ column, kind, rows, text }) => [kind, shown(column), `${number(rows)} (${((100 * rows) / Math.max(count, 1)).toPrecision(2)}\u00a0%)`, shown(text, 400)]);
  return [tableOf("What to know of the names", ["what", "column", "rows", "remark"], lines)];
}

function tableOf(caption: string, heads: readonly string[], lines: readonly (readonly string[])[]): HTMLElement {
  const head = element("tr", {}, ...heads.map((text) => element("th", { scope: "col", class: "name" }, text)));
  const rows = lines.map(([first, ...rest]) => element("tr", {}, element("th", { scope: "row", class: "name" }, first), ...rest.map((text) => element("td", { class: "name" }, text))));
  const table = element("table", { class: "plain" }, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table);
}

/** Return the controls of how a file is written. */
function writing(file: OwnFile, draw: () => void): HTMLElement {
  const choice = (name: keyof Dialect, options: readonly (readonly [string, string])[]): HTMLSelectElement => {
    const found = element("select", {}, ...options.map(([value, text]) => element("option", { value }, text)));
    found.value = file.dialect[name] ?? options[0][0];
    found.addEventListener("change", () => {
      file.dialect = { ...file.dialect, [name]: found.value };
      draw();
    });
    return found;
  };
  return element("p", { class: "writing" },
    labelled("cells are separated by a", choice("delimiter", Object.entries(DELIMITERS))),
    labelled("encoding", choice("encoding", ENCODINGS.map((one) => [one, one.toUpperCase()]))),
    labelled("decimal", choice("decimal", Object.entries(DECIMALS))));
}

function number(value: number): string {
  return value.toLocaleString("en");
}
