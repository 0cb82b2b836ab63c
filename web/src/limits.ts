/** How much memory and work readers may spend on bytes of others. Values are those of Python's `Limits`. */
export interface Limits {
  /** Length of one release, of published signs or of a mean, in bytes. */
  readonly maxBytes: number;
  /** Size of a Parquet table, and of its decompressed pages, in bytes. */
  readonly maxTableBytes: number;
  /** Length of a projection, an agreement or a mechanism as JSON, in bytes. */
  readonly maxJsonBytes: number;
  /** Length of a Parquet table's footer, in bytes. */
  readonly maxFooterBytes: number;
  /** Rows of a table. */
  readonly maxKeys: number;
  /** Entries of a repeated field of a message. */
  readonly maxItems: number;
  /** Entries of a random matrix to enumerate. */
  readonly maxEntries: number;
}

/** The limits unless others are given. */
export const LIMITS: Limits = {
  maxBytes: 2 ** 28,
  maxTableBytes: 2 ** 30,
  maxJsonBytes: 2 ** 16,
  maxFooterBytes: 2 ** 22,
  maxKeys: 2 ** 20,
  maxItems: 2 ** 20,
  maxEntries: 2 ** 24,
};

/** Return the limits with some of them changed. */
export function limitsWith(changes: Partial<Limits> = {}): Limits {
  return { ...LIMITS, ...changes };
}
