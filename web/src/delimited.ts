/** CSV, strictly: a line is a row, and what a strict parser refuses is an error that names the row and no value. */
import { demand } from "./errors.ts";
import * as sentences from "./sentences.ts";

/** How the cells of a file are written. */
export interface Dialect {
  /** The character between cells, by default a comma. */
  readonly delimiter?: string;
  /** The encoding, as `TextDecoder` names it; by default UTF-8. */
  readonly encoding?: string;
  /** The decimal point of numbers. */
  readonly decimal?: "." | ",";
}

/** A file's header, and its rows; row 1 is the header, and empty lines are no rows. */
export interface Delimited {
  readonly header: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

const FIRST_ROW = 2;

/** Return a file's bytes as text. */
function decoded(data: Uint8Array, encoding: string): string {
  let decoder: TextDecoder;
  try {
    decoder = new TextDecoder(encoding, { fatal: true });
  } catch {
    throw new RangeError(`${JSON.stringify(encoding)} is not a known encoding`);
  }
  try {
    return decoder.decode(data);
  } catch {
    demand(false, `the file is not ${encoding.toUpperCase()}: choose its encoding, such as windows-1252 or utf-16le, or save it as UTF-8`);
    return "";
  }
}

/**
 * Return the rows of CSV with a header line.
 *
 * @param data the file's bytes
 * @throws InvalidInputError for a row that is not one line of CSV, or has more or fewer cells than the header
 */
export function readDelimited(data: Uint8Array, { delimiter = ",", encoding = "utf-8" }: Dialect = {}): Delimited {
  demand(/^[^"\r\n]$/.test(delimiter) && delimiter < "\x80", "the delimiter is one ASCII character, not a quote or a line end");
  const text = decoded(data, encoding).replace(/^[\r\n]+/, "");
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  demand(lines.length > 0, `the file ${sentences.NO_HEADER}`);
  const found: string[][] = [];
  for (const line of lines) {
    const row = line.replace(/\r+$/, "");
    if (row === "") continue;
    const number = found.length + 1;
    const cells = cellsOf(row, delimiter);
    demand(cells !== null, `row ${number} ${sentences.NOT_ONE_LINE}`);
    const width = found.length > 0 ? found[0].length : cells.length;
    demand(cells.length === width, `row ${number} has ${cells.length} cells, and the header ${width}`);
    found.push(cells);
  }
  const [header, ...rows] = found;
  return { header, rows };
}

/** Return the number of a row, by its place behind the header. */
export function rowNumber(place: number): number {
  return place + FIRST_ROW;
}

/** Return the cells of a line; null if it is not CSV. */
function cellsOf(line: string, delimiter: string): string[] | null {
  if (!line.includes('"')) return line.includes("\r") ? null : line.split(delimiter);
  const cells: string[] = [];
  for (let at = 0; ; at++) {
    if (line[at] === '"') {
      let end = line.indexOf('"', at + 1);
      while (end >= 0 && line[end + 1] === '"') end = line.indexOf('"', end + 2);
      if (end < 0) return null;
      cells.push(line.slice(at + 1, end).replaceAll('""', '"'));
      at = end + 1;
    } else {
      const end = line.indexOf(delimiter, at);
      const cell = line.slice(at, end < 0 ? line.length : end);
      if (cell.includes("\r")) return null;
      cells.push(cell);
      at += cell.length;
    }
    if (at >= line.length) return cells;
    if (line[at] !== delimiter) return null;
  }
}
