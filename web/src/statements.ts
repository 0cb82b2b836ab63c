/** Signed statements of files: DSSE envelopes of in-toto statements, with Ed25519 by WebCrypto. */
import { base64, concat, equalBytes, hex, textOf, unbase64, utf8, type Bytes } from "./bytes.ts";
import { need, SignatureError, WireFormatError } from "./errors.ts";
import { field, isObject, objectOf, parseJson, textField, type Json, type JsonObject } from "./json.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { footerEntries, readFooter } from "./parquet.ts";
import { isPrintable } from "./printable.ts";

const KEY_PREFIX = "streamsketch-key-1";
const STATEMENT = "application/vnd.in-toto+json";
const MOST_LINES = 1024;

/** A public key: that of signatures and that of masks, and the party's name. */
export interface PublicKey {
  readonly signing: Bytes;
  readonly agreement: Bytes;
  readonly name: string;
}

/** What a signature states of a file. What the file itself states of its guarantee counts. */
export interface Statement {
  readonly kind: string;
  readonly guarantee: string | null;
  readonly agreement: string | null;
  readonly library: string;
  readonly receipt: { readonly number: bigint; readonly digest: string } | null;
  readonly expires: string | null;
  /** Fingerprint of the signer's key. */
  readonly keyId: string;
  /** The file's SHA-256, hexadecimal, or that without a signature inside. */
  readonly digest: string;
  /** Whether the digest is of a table with spaces in the place of the signature. */
  readonly isInside: boolean;
  /** All that was stated, with fields of later versions. */
  readonly predicate: JsonObject;
}

/** Return the public key in a line of text. */
export function readKey(text: string): PublicKey {
  const match = /^streamsketch-key-1 ([A-Za-z0-9+/=]+)(?: (.+))?$/s.exec(text.trim());
  need(match !== null && text.startsWith(KEY_PREFIX), "no public key");
  const both = unbase64(match[1]);
  need(both.length === 64, "a public key of another length");
  const name = match[2] ?? "";
  need(name === "" || isPrintable(name), "a name that is not printable");
  return { signing: both.slice(0, 32), agreement: both.slice(32), name };
}

/** Return a public key as a line of text. */
export function keyLine(key: PublicKey): string {
  return `${KEY_PREFIX} ${base64(concat(key.signing, key.agreement))}${key.name === "" ? "" : ` ${key.name}`}`;
}

/** Return a key's fingerprint, hexadecimal. */
export async function keyIdOf(key: PublicKey): Promise<string> {
  return sha256(concat(key.signing, key.agreement));
}

export async function sha256(data: Uint8Array): Promise<string> {
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", data as Bytes)));
}

interface Envelope {
  readonly payload: Bytes;
  readonly type: string;
  readonly keyId: string;
  readonly signature: Bytes;
}

/** Return what an envelope holds, before its signature is checked. */
export function readEnvelope(text: string | Json, maxBytes: number): Envelope {
  const value = typeof text === "string" ? parseJson(text, maxBytes) : text;
  const fields = objectOf(value, "an envelope", ["payload", "payloadType", "signatures"]);
  const { signatures } = fields;
  need(Array.isArray(signatures) && signatures.length === 1, "an envelope has one signature");
  const mark = objectOf(signatures[0], "a signature", ["keyid", "sig"]);
  const keyId = textField(mark.keyid, "keyid");
  need(/^[0-9a-f]{64}$/.test(keyId), "a keyid that is no SHA-256");
  const signature = unbase64(textField(mark.sig, "sig"));
  return { payload: unbase64(textField(fields.payload, "payload")), type: textField(fields.payloadType, "payloadType"), keyId, signature };
}

/** Return whether an envelope's signature is the key's. */
export async function isSigned(envelope: Envelope, key: PublicKey): Promise<boolean> {
  const type = utf8(envelope.type);
  const message = concat(utf8(`DSSEv1 ${type.length} `), type, utf8(` ${envelope.payload.length} `), envelope.payload);
  let imported: CryptoKey;
  try {
    imported = await crypto.subtle.importKey("raw", key.signing, { name: "Ed25519" }, false, ["verify"]);
  } catch (error) {
    throw new SignatureError(`Ed25519 is not available here, or the key is none: ${error}`);
  }
  try {
    return await crypto.subtle.verify({ name: "Ed25519" }, imported, envelope.signature, message);
  } catch {
    return false; // a point or a length that is none
  }
}

/**
 * Return what a line of signatures states. Nothing is verified: use `verify`.
 *
 * @throws WireFormatError if the line is no statement
 */
export function readStatement(line: string, changes: Partial<Limits> = {}): Statement {
  return statementOf(readEnvelope(line, limitsWith(changes).maxJsonBytes), limitsWith(changes));
}

function statementOf(envelope: Envelope, limits: Limits): Statement {
  need(envelope.type === STATEMENT, "an envelope of another type");
  const fields = parseJson(textOf(envelope.payload), limits.maxJsonBytes);
  need(field(fields, "_type") === "https://in-toto.io/Statement/v1", "no statement");
  need(field(fields, "predicateType") === "urn:streamsketch:file:v1", "a statement of something else");
  const subjects = field(fields, "subject");
  need(Array.isArray(subjects) && subjects.length === 1, "a statement of one file");
  const digests = field(subjects[0], "digest");
  need(isObject(digests), "a statement without a digest");
  const isInside = digests.sha256 === undefined;
  const digest = textField(isInside ? digests.sha256WithoutSignature : digests.sha256, "digest");
  const predicate = field(fields, "predicate");
  need(isObject(predicate), "a statement without a predicate");
  const orNull = (name: string) => (predicate[name] === null ? null : textField(predicate[name], name));
  let receipt: Statement["receipt"] = null;
  if (predicate.receipt !== null) {
    const number = field(predicate.receipt, "number");
    need(typeof number === "bigint", "a receipt without a number");
    receipt = { number, digest: textField(field(predicate.receipt, "digest"), "digest") };
  }
  return {
    kind: textField(predicate.kind, "kind"),
    guarantee: orNull("guarantee"),
    agreement: orNull("agreement"),
    library: textField(predicate.library, "library"),
    receipt,
    expires: orNull("expires"),
    keyId: envelope.keyId,
    digest,
    isInside,
    predicate,
  };
}

/** Return the place in time that ISO 8601 text with an offset names, in milliseconds. */
function instant(text: string): number {
  const match = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(:\d\d(?:[.,]\d{1,9})?)?(Z|[+-]\d\d(?::?\d\d)?)$/.exec(text);
  need(match !== null, "an end without an offset, or that is no time");
  const offset = match[4] === "Z" ? "Z" : `${match[4].slice(0, 3)}:${match[4].slice(3).replace(":", "") || "00"}`;
  const found = Date.parse(`${match[1]}T${match[2]}${(match[3] ?? ":00").replace(",", ".")}${offset}`);
  const stated = `${match[1]}T${match[2]}`; // some engines read 30 February and 24:00 as times of the next day
  need(!Number.isNaN(found) && match[1] >= "0001" && new Date(`${stated}Z`).toISOString().startsWith(stated), "an end that is no time");
  return found;
}

/** Return the line of a signature inside a table, and the SHA-256 of the file with spaces in its place. */
async function signatureInside(data: Uint8Array, limits: Limits): Promise<{ line: string; digest: string }> {
  const { footer, start } = readFooter(data, limits);
  const name = "streamsketch.signature";
  need(occurrences(data, utf8(name), start).length === 1, "an entry of a signature that is not there, or twice");
  const [value] = footerEntries(footer, name);
  need(value !== undefined && value.length > 0, "no signature inside");
  const places = occurrences(data, value, start);
  need(places.length === 1, "a signature that is there twice");
  const blank = data.slice();
  blank.fill(0x20, places[0], places[0] + value.length);
  return { line: textOf(value), digest: await sha256(blank) };
}

function occurrences(data: Uint8Array, what: Uint8Array, start: number): number[] {
  const found: number[] = [];
  for (let at = data.indexOf(what[0], start); at >= 0 && found.length < 2; at = data.indexOf(what[0], at + 1)) {
    if (equalBytes(data.subarray(at, at + what.length), what)) found.push(at);
  }
  return found;
}

/**
 * Return what a file is signed to be: the first line that one of the keys signed, that is of these bytes, and that has
 * not expired.
 *
 * @param data the file's bytes
 * @param bundle the text of `FILE.intoto.jsonl`; null for a signature inside a table
 * @param keys whom to believe: public keys, or their lines of text
 * @throws SignatureError if no line holds
 */
export async function verify(
  data: Uint8Array,
  bundle: string | null,
  keys: readonly (PublicKey | string)[],
  options: { readonly now?: Date; readonly limits?: Partial<Limits> } = {},
): Promise<Statement> {
  const limits = limitsWith(options.limits);
  const known = new Map<string, PublicKey>();
  for (const one of keys) {
    const key = typeof one === "string" ? readKey(one) : one;
    known.set(await keyIdOf(key), key);
  }
  let lines: string[], digest: string;
  try {
    if (bundle === null) {
      const inside = await signatureInside(data, limits);
      [lines, digest] = [[inside.line], inside.digest];
    } else {
      need(bundle.length <= limits.maxBytes, "more signatures than are read");
      [lines, digest] = [bundle.split(/\r\n|[\n\r]/).filter((line) => line.trim() !== ""), await sha256(data)];
      need(lines.length <= MOST_LINES, `more than ${MOST_LINES} signatures`);
    }
  } catch (error) {
    throw error instanceof WireFormatError ? new SignatureError(error.message) : error;
  }
  let reason = "there is no signature";
  for (const line of lines) {
    try {
      const envelope = readEnvelope(line, limits.maxJsonBytes);
      const statement = statementOf(envelope, limits);
      const key = known.get(envelope.keyId);
      need(key !== undefined, "signed by another key");
      need(await isSigned(envelope, key), "the signature does not fit");
      need(statement.isInside === (bundle === null) && statement.digest === digest, "a signature of other bytes");
      need(statement.expires === null || instant(statement.expires) > (options.now ?? new Date()).getTime(), "the signature has expired");
      return statement;
    } catch (error) {
      if (!(error instanceof WireFormatError)) throw error;
      reason = error.message;
    }
  }
  throw new SignatureError(`the file is not signed by one of the keys: ${reason}`);
}
