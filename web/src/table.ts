/** Tables of releases: one release each, of many keys. */
import { equalBytes, hex, type Bytes } from "./bytes.ts";
import { demand, need } from "./errors.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { readColumns, type ColumnKind } from "./parquet.ts";
import { writeColumns } from "./parquet_writing.ts";
import { encode } from "./protobuf.ts";
import { readRelease, type Release } from "./release.ts";
import { readSigns, type Signs } from "./signs.ts";
import type { Guarantee, Projection } from "./types.ts";

/** Text, bytes, or a bigint: an integer, days since 1970-01-01, or nanoseconds since 1970-01-01T00:00Z. */
export type TableKey = string | Uint8Array | bigint;

/** A table of sketches or of signs, checked: all rows have one projection and one guarantee, which covers all keys. */
export class Table<T extends Release | Signs = Release | Signs> {
  readonly kind: "PrivateTable" | "SignTable";
  readonly keyType: ColumnKind;
  readonly keys: readonly TableKey[];
  /** In the order of the keys. */
  readonly releases: readonly T[];

  constructor(kind: "PrivateTable" | "SignTable", keyType: ColumnKind, keys: readonly TableKey[], releases: readonly T[]) {
    this.kind = kind;
    this.keyType = keyType;
    this.keys = keys;
    this.releases = releases;
  }

  get projection(): Readonly<Projection> {
    return this.releases[0].projection;
  }

  /** The guarantee of all keys together: it counts once. */
  get guarantee(): Readonly<Guarantee> {
    return this.releases[0].guarantee;
  }

  get labels(): string[] {
    return this.keys.map((key) => keyText(key, this.keyType));
  }

  /**
   * Return the bytes of a Parquet file, with the columns that readers need.
   *
   * @throws InvalidInputError for keys that are dates or times
   */
  toBytes(): Bytes {
    demand(this.keyType === "text" || this.keyType === "integer" || this.keyType === "bytes", `keys that are ${this.keyType}s are written by the Python library`);
    const name = this.kind === "PrivateTable" ? "sketch" : "signs";
    const keys = { name: "key", values: this.keys as readonly string[] | readonly bigint[] | readonly Uint8Array[] };
    return writeColumns([keys, { name, values: this.releases.map((one) => one.toBytes()) }]);
  }
}

/** Return a key as text: dates and times by ISO 8601, bytes in hexadecimal. */
export function keyText(key: TableKey, type: ColumnKind): string {
  if (typeof key === "string") return key;
  if (key instanceof Uint8Array) return hex(key);
  if (type === "date") return isoText(Number(key) * 86_400_000)?.slice(0, -14) ?? `day ${key}`;
  if (type !== "time") return String(key);
  const [second, rest] = [key / 1_000_000_000n - (key % 1_000_000_000n < 0n ? 1n : 0n), ((key % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n];
  const base = isoText(Number(second) * 1000)?.slice(0, -5);
  if (base === undefined) return `${key} ns`;
  return `${base}${rest > 0n ? `.${String(rest).padStart(9, "0").replace(/0+$/, "")}` : ""}Z`;
}

function isoText(milliseconds: number): string | undefined {
  const date = new Date(milliseconds);
  return Number.isNaN(date.getTime()) ? undefined : date.toISOString();
}

/**
 * Return the table in the bytes of a Parquet file: uncompressed or by Snappy, in data pages of version 1, as the
 * library writes it.
 *
 * @throws WireFormatError if the bytes are no table, or one that WIRE.md does not allow
 */
export function readTable(data: Uint8Array, changes: Partial<Limits> = {}): Table {
  need(data instanceof Uint8Array, "not bytes");
  const limits = limitsWith(changes);
  const columns = readColumns(data, ["key", "sketch", "signs"], limits);
  const name = columns.has("sketch") ? "sketch" : "signs";
  const [keys, column] = [columns.get("key"), columns.get(name)];
  need(keys !== undefined && column !== undefined, "no column of keys, or of releases");
  need(column.kind === "bytes", "releases that are no bytes");
  need(column.values.length > 0, "a table without a row");
  need(!keys.values.includes(null) && !column.values.includes(null), "a null");
  const labels = keys.values.map((key) => (key instanceof Uint8Array ? hex(key) : key));
  need(new Set(labels).size === labels.length, "a key that is there twice");
  const rows = column.values as readonly Uint8Array[];
  const releases: (Release | Signs)[] = rows.map((row) => {
    if (name === "sketch") return readRelease(row, limits);
    const signs = readSigns(row, limits);
    need(signs.kind === "SignSketch", "signs of an individual guarantee in a table");
    return signs;
  });
  const [first] = releases;
  for (const [field, kind] of [["projection", "Projection"], ["guarantee", "Guarantee"], ["history", "History"]] as const) {
    const bytes = releases.map((one) => {
      const value = (one.message as unknown as Record<string, object | undefined>)[field];
      return value === undefined ? null : encode(kind, value);
    });
    need(bytes.every((one) => (one === null || bytes[0] === null ? one === bytes[0] : equalBytes(one, bytes[0]))), `releases of another ${field}`);
  }
  need(releases.every((one) => one.agreement === first.agreement), "releases of another agreement");
  checkKeys(releases);
  return new Table(name === "sketch" ? "PrivateTable" : "SignTable", keys.kind, keys.values as readonly TableKey[], releases);
}

/** Refuse the same data in more releases than one guarantee covers. */
function checkKeys(releases: readonly (Release | Signs)[]): void {
  const found = new Map<string, Set<string>>();
  const most = releases[0].guarantee.neighbours.maxKeys || 1;
  for (const release of releases) {
    const ids = "releaseIds" in release ? release.releaseIds : [release.releaseId];
    for (const data of release.dataIds) {
      const seen = found.get(data) ?? new Set();
      ids.forEach((id) => seen.add(id));
      found.set(data, seen);
      need(seen.size <= most, "the same data in more keys than the guarantee covers");
    }
  }
}
