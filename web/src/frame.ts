/** The frame around a payload: magic, version, length, checksum. */
import { blake2b } from "./blake2b.ts";
import { concat, equalBytes, littleEndian, type Bytes } from "./bytes.ts";
import { need } from "./errors.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { encode, parse } from "./protobuf.ts";
import type { Kind, Messages } from "./types.ts";

/** The magic in bytes 0 to 7 of each kind of file, its fourth byte. */
const MAGICS: Readonly<Record<string, string>> = {
  PrivateSketch: "K",
  SignSketch: "G",
  IndividualSignSketch: "I",
  LocalReport: "R",
  LocalMean: "M",
};

const HEAD = 17, CHECKSUM = 16;

function magicOf(kind: string): Uint8Array {
  return new Uint8Array([0x89, 0x53, 0x53, MAGICS[kind].charCodeAt(0), 0x0d, 0x0a, 0x1a, 0x0a]);
}

/** Return which kind of message a file says it holds, or null. */
export function kindOf(data: Uint8Array): Kind | null {
  for (const kind of Object.keys(MAGICS)) if (equalBytes(data.subarray(0, 8), magicOf(kind))) return kind as Kind;
  return null;
}

/** Return the payload of a frame. */
export function unframed(kind: Kind, data: Uint8Array, maxBytes: number): Uint8Array {
  need(data.length <= maxBytes, `${data.length} bytes, and at most ${maxBytes} are read`);
  need(equalBytes(data.subarray(0, 8), magicOf(kind).subarray(0, data.length)), `not a file of a ${kind}`);
  need(data.length >= HEAD + CHECKSUM, "shorter than a frame");
  need(data[8] === 1, `format version ${data[8]}, and this reader knows 1`);
  const length = new DataView(data.buffer, data.byteOffset).getBigUint64(9, true);
  need(length === BigInt(data.length - HEAD - CHECKSUM), "another payload length than stated: the file is cut off");
  const checksum = blake2b(data.subarray(0, -CHECKSUM), CHECKSUM);
  need(equalBytes(checksum, data.subarray(-CHECKSUM)), "the checksum does not match: the file is damaged");
  return data.subarray(HEAD, -CHECKSUM);
}

/** Return the message in a frame, in canonical form; its fields are not checked yet. */
export function readFrame<K extends Kind>(kind: K, data: Uint8Array, changes: Partial<Limits> = {}): Messages[K] {
  need(data instanceof Uint8Array, "not bytes");
  const limits = limitsWith(changes);
  const payload = unframed(kind, data, limits.maxBytes);
  const message = parse(kind, payload, limits.maxItems);
  need(equalBytes(encode(kind, message), payload), "not in canonical form");
  return message as unknown as Messages[K];
}

/** Return a message in its frame. */
export function writeFrame<K extends Kind>(kind: K, message: Messages[K]): Bytes {
  const payload = encode(kind, message);
  const body = concat(magicOf(kind), new Uint8Array([1]), littleEndian(BigInt(payload.length), 8), payload);
  return concat(body, blake2b(body, CHECKSUM));
}
