/** What differs: a dictionary that was dropped or pasted, and the items of it that separate two streams. */
import { InvalidInputError, topDifferences, type Agreement, type Item, type Part, type Release } from "../index.ts";
import type { Differing } from "./data.ts";

export const MOST_ITEMS = 100_000;
const HASHED = 1n << 60n;
const ROWS = 10;

/** Return the rows of CSV text, in which a cell may stand in quotes. */
export function csvRows(text: string): string[][] {
  const rows: string[][] = [[]];
  const cell = /("(?:[^"]|"")*"|(?:[^",\r\n][^,\r\n]*)?)(,|\r\n|\n|\r|$)/gy;
  for (let at = 0; at < text.length; ) {
    cell.lastIndex = at;
    const found = cell.exec(text);
    if (found === null) throw new InvalidInputError("a CSV file with text after a quotation mark");
    const [whole, content, end] = found;
    rows[rows.length - 1].push(content.startsWith('"') ? content.slice(1, -1).replaceAll('""', '"') : content);
    at += whole.length;
    if (end === "," && at === text.length) rows[rows.length - 1].push("");
    if (end !== ",") rows.push([]);
  }
  return rows.filter((row) => row.some((one) => one !== ""));
}

/** Return the rows of a dictionary: of CSV, without its head, or one item a line. */
export function rowsOf(name: string, text: string, columns: readonly string[]): string[][] {
  const plain = text.replace(/^\ufeff/, "");
  if (!/\.csv$/i.test(name)) return plain.split(/\r\n|\n|\r/).filter((line) => line !== "").map((line) => [line]);
  const [head = [], ...rows] = csvRows(plain);
  const places = columns.map((column) => head.indexOf(column));
  return places.length === 0 || places.includes(-1) ? rows : rows.map((row) => places.map((place) => row[place] ?? ""));
}

function partOf(text: string, type: string): Part {
  if (type === "text") return text;
  if (type !== "integer") throw new InvalidInputError(`items are of the type ${type} by the agreement; this page reads text and integers, and streamsketch report --why all of them`);
  if (!/^-?\d{1,19}$/.test(text)) throw new InvalidInputError(`${JSON.stringify(text.slice(0, 40))} is not an integer, as items are by the agreement, or as the releases' projection has no other`);
  return BigInt(text);
}

/** Return the items of a dictionary as the streams were hashed: by their agreement or, without one, as text. */
export function itemsOf(rows: readonly (readonly string[])[], releases: readonly Release[], agreement: Agreement | null): Map<Item, string> {
  const named = releases.find((one) => one.agreement !== null)?.agreement ?? null;
  if (named !== null && agreement?.fingerprint !== named) {
    throw new InvalidInputError(`the releases follow the agreement ${named}, which says as what items were hashed: drop its JSON file, too${agreement === null ? "" : `, not that of ${agreement.fingerprint}`}`);
  }
  const types = agreement !== null ? agreement.index.map((one) => one.type) : [releases[0].projection.dim === HASHED ? "text" : "integer"];
  if (types.length === 0) throw new InvalidInputError("the agreement is of features, which have no dictionary");
  if (rows.length === 0) throw new InvalidInputError("the dictionary has no items: one a line, or in the first column of a CSV file with a head");
  if (rows.length > MOST_ITEMS) throw new InvalidInputError(`the dictionary has ${rows.length} items; this page takes ${MOST_ITEMS}`);
  const found = new Map<Item, string>();
  for (const row of rows) {
    if (row.length < types.length) throw new InvalidInputError(`an item has the parts ${agreement!.index.map((one) => one.name).join(", ")}: drop a CSV file with these columns`);
    const parts = types.map((type, place) => partOf(row[place], type));
    found.set(parts.length === 1 ? parts[0] : parts, row.slice(0, types.length).join(", "));
  }
  return found;
}

/** Return what finds, for a pair of streams, the items that separate them; pairs are kept. */
export function differ(releases: readonly Release[], items: ReadonlyMap<Item, string>, show: (text: string) => string): (i: number, j: number) => Differing {
  const kept = new Map<string, Differing>();
  return (i, j) => {
    const name = `${i} ${j}`;
    let found = kept.get(name);
    if (found === undefined) {
      const { rows, candidates, separated } = topDifferences(releases[i], releases[j], items.keys(), { n: ROWS });
      found = { candidates, separated, of: "sums", rows: rows.map((row) => ({ name: show(items.get(row.item)!), value: row.estimate, error: row.error, low: row.low, high: row.high })) };
      kept.set(name, found);
    }
    return found;
  };
}
