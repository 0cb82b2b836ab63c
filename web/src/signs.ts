/** Published signs of sketches. */
import { hex, type Bytes } from "./bytes.ts";
import { checkSigns } from "./checks.ts";
import { need } from "./errors.ts";
import { kindOf, readFrame, writeFrame } from "./frame.ts";
import type { Limits } from "./limits.ts";
import type { FlipLaw, Guarantee, IndividualSignSketchMessage, Projection, SignSketchMessage } from "./types.ts";

/** Signs that are read from bytes and checked, of either kind. */
export class Signs {
  readonly kind: "SignSketch" | "IndividualSignSketch";
  readonly message: Readonly<SignSketchMessage | IndividualSignSketchMessage>;
  /** Hexadecimal. */
  readonly releaseId: string;
  /** Hexadecimal; none are stated with an individual guarantee. */
  readonly dataIds: readonly string[];

  /** Check a message. Use `readSigns` for bytes. */
  constructor(message: SignSketchMessage | IndividualSignSketchMessage) {
    checkSigns(message);
    this.kind = "law" in message ? "SignSketch" : "IndividualSignSketch";
    this.message = message;
    this.releaseId = hex(message.releaseId);
    this.dataIds = "dataIds" in message ? message.dataIds.map(hex) : [];
  }

  get projection(): Readonly<Projection> {
    return this.message.projection;
  }

  get guarantee(): Readonly<Guarantee> {
    return this.message.guarantee;
  }

  /** Bit i mod 8 of byte i div 8 is 1 where the sign of cell i is +. */
  get bits(): Bytes {
    return this.message.signs;
  }

  /** With what probability signs were flipped; null for individual guarantees. */
  get law(): Readonly<FlipLaw> | null {
    return "law" in this.message ? this.message.law : null;
  }

  /** Method of an individual guarantee, else null. */
  get method(): string | null {
    return "method" in this.message ? this.message.method : null;
  }

  get agreement(): string | null {
    return this.message.agreement === undefined ? null : hex(this.message.agreement);
  }

  /** Return the sign of cell i, 1 or -1. */
  at(i: number): 1 | -1 {
    return (this.bits[i >> 3] >> (i & 7)) & 1 ? 1 : -1;
  }

  toBytes(): Bytes {
    return "law" in this.message ? writeFrame("SignSketch", this.message) : writeFrame("IndividualSignSketch", this.message);
  }
}

/**
 * Return the signs in the bytes of a `.signs` file, of either kind: `guarantee` of individual differential privacy is
 * not differential privacy, so look at `kind`.
 *
 * @throws WireFormatError if the bytes do not follow the exchange format
 */
export function readSigns(data: Uint8Array, limits: Partial<Limits> = {}): Signs {
  const kind = kindOf(data);
  need(kind === "SignSketch" || kind === "IndividualSignSketch", "not a file of signs");
  return new Signs(readFrame(kind, data, limits));
}
