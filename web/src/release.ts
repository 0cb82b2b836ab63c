/** A published, differentially private sketch. */
import { hex, unhex, type Bytes } from "./bytes.ts";
import { checkSketch, weightsOf } from "./checks.ts";
import { demand } from "./errors.ts";
import type { Ratio } from "./exact.ts";
import { readFrame, writeFrame } from "./frame.ts";
import type { Integers } from "./integers.ts";
import type { Limits } from "./limits.ts";
import type { Guarantee, History, Noise, NoisePart, PrivateSketchMessage, Projection } from "./types.ts";

/** A release, read from bytes and checked. It is public, and nothing changes it. */
export class Release {
  readonly message: Readonly<PrivateSketchMessage>;
  /** The published integers, `projection.sketchDim` of them, in grid steps. */
  readonly cells: Integers;
  /** One or two weighted numbers beside the cells, where units are counted. */
  readonly counts: Integers | null;
  /** Hexadecimal; releases that share one share noise. */
  readonly releaseIds: readonly string[];
  /** Hexadecimal; releases that share one contain the same data, at least in part. */
  readonly dataIds: readonly string[];

  /** Check a message. Use `readRelease` for bytes. */
  constructor(message: PrivateSketchMessage) {
    const { cells, counts } = checkSketch(message);
    this.message = message;
    this.cells = cells;
    this.counts = counts;
    this.releaseIds = message.releaseIds.map(hex);
    this.dataIds = message.dataIds.map(hex);
  }

  get projection(): Readonly<Projection> {
    return this.message.projection;
  }

  get guarantee(): Readonly<Guarantee> {
    return this.message.guarantee;
  }

  get noise(): Readonly<Noise> {
    return this.message.noise;
  }

  get multiplier(): Ratio {
    return this.message.multiplier;
  }

  /** What each release in a sum stated; empty for a single release. */
  get parts(): readonly NoisePart[] {
    return this.message.parts;
  }

  /** Fingerprint of the agreement that the data followed, hexadecimal; null where none is known. */
  get agreement(): string | null {
    return this.message.agreement === undefined ? null : hex(this.message.agreement);
  }

  /** Return the same release with the fingerprint of an agreement, or none: you assert that the data followed it. */
  withAgreement(fingerprint: string | null): Release {
    const { agreement: _, ...rest } = this.message;
    if (fingerprint === null) return new Release(rest);
    demand(/^[0-9a-f]{32}$/.test(fingerprint), "the fingerprint of an agreement is 32 hexadecimal digits");
    return new Release({ ...rest, agreement: unhex(fingerprint) });
  }

  /** `scale` or `equal`: how units were clipped to a bound in sketch space; null for others. */
  get clip(): string | null {
    return this.message.clip ?? null;
  }

  /** Which part of a stream's history it is; null for other releases. */
  get history(): Readonly<History> | null {
    return this.message.history ?? null;
  }

  /** Weights of the counts, in grid steps; null where units are not counted. */
  get counting(): { readonly units: number; readonly slack: number } | null {
    return this.counts === null ? null : weightsOf(this.message);
  }

  /** Return the file's bytes. Equal releases have equal bytes. */
  toBytes(): Bytes {
    return writeFrame("PrivateSketch", this.message);
  }
}

/**
 * Return the release in the bytes of a `.sketch` file.
 *
 * The work and the memory are proportional to the length of the bytes.
 *
 * @throws WireFormatError if the bytes do not follow the exchange format
 */
export function readRelease(data: Uint8Array, limits: Partial<Limits> = {}): Release {
  return new Release(readFrame("PrivateSketch", data, limits));
}
