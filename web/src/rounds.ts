/** Rounds of parties that share one noise, and the release that their contributions add up to. */
import { compareBytes, concat, equalBytes, hex, littleEndian, unhex, utf8, type Bytes } from "./bytes.ts";
import { ANY_NUMBER, checkGuarantee } from "./checks.ts";
import { need } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { Integers } from "./integers.ts";
import { canonicalJson, integerField, numberField, objectOf, parseJson, textField, type JsonObject } from "./json.ts";
import { limitsWith, type Limits } from "./limits.ts";
import { checkBudget, textOfSteps } from "./mechanisms.ts";
import { projectionOf } from "./projection_json.ts";
import { ascends } from "./protobuf.ts";
import { Release } from "./release.ts";
import { say } from "./say.ts";
import * as sentences from "./sentences.ts";
import { isSigned, keyIdOf, readEnvelope, readKey, type PublicKey } from "./statements.ts";
import type { AddedNoise, Guarantee, Projection } from "./types.ts";
import { cumulantsOf } from "./words.ts";

const CONTRIBUTION = "application/vnd.streamsketch.contribution.v1";
const FIELDS = ["projection", "epsilon", "delta", "neighbours", "mechanism", "noise", "parties", "honest", "round"];
const MOST_PARTIES = 1024, IDS = 16, ID = 8;

/** A round, or the round for a key of a table. */
export interface Round {
  readonly projection: Projection;
  readonly guarantee: Guarantee;
  readonly clip: string | null;
  /** Fingerprint of the agreement that all data follow, hexadecimal; null where the round names none. */
  readonly agreement: string | null;
  readonly noise: AddedNoise;
  readonly parties: readonly PublicKey[];
  /** Whether all parties have signed it. */
  readonly isSigned: boolean;
  /** Fingerprint, 32 bytes. */
  readonly name: Bytes;
  readonly session: Bytes;
}

/** What a party sends: its place in the list, its masked numbers as bytes, and its data ids. */
export interface Contribution {
  readonly place: number;
  readonly numbers: BigUint64Array;
  readonly dataIds: readonly Bytes[];
}

async function digest(domain: string, ...parts: readonly Uint8Array[]): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", concat(utf8(`streamsketch.parties.${domain}`), ...parts)));
}

/**
 * Return a round that all parties have signed, or none of them.
 *
 * @param key for the round of a table's key: its tag byte and canonical bytes
 * @throws WireFormatError if it is no round, or a signature does not hold
 */
export async function readRound(text: string, key: Uint8Array | null = null, changes: Partial<Limits> = {}): Promise<Round> {
  const limits = limitsWith(changes);
  const most = limits.maxJsonBytes + MOST_PARTIES * 1024;
  const whole = objectOf(parseJson(text, most), "a round", [...FIELDS, "signatures"], ["format", "counting", "clip", "agreement"]);
  const { signatures, ...rest } = whole;
  const fields: JsonObject = Object.assign(Object.create(null), rest);
  const form = fields.format === undefined ? 1 : integerField(fields.format, "format");
  need(form === 2 || (form === 1 && fields.format === undefined), "a round of another format");
  need(form === 2 || Object.keys(fields).length === FIELDS.length, "a field that its format does not have");
  need(Array.isArray(fields.parties) && fields.parties.length <= MOST_PARTIES, "the parties are a list of at most 1024");
  const parties = fields.parties.map((one) => readKey(textField(one, "a party")));
  for (const half of ["signing", "agreement"] as const) {
    need(parties.length > 1 && new Set(parties.map((one) => hex(one[half]))).size === parties.length, "fewer than two parties, or a key twice");
  }
  const honest = integerField(fields.honest, "honest");
  need(honest >= 2 && honest <= parties.length, "another number of honest parties");
  need(unhex(textField(fields.round, "round")).length === 16, "the id of a round is 16 bytes");
  const own = await nameOf(fields, form);
  const { added, count } = await signed(signatures, parties, own, form);
  let [name, session] = [own, own];
  if (form === 1 && key !== null) {
    const id = hex((await digest("key.1", own, key)).slice(0, 16));
    name = session = await nameOf(Object.assign(Object.create(null), fields, { round: id }), form);
  } else if (form === 2) {
    name = key === null ? own : await digest("key.2", own, key);
    session = await digest("session.2", name, ...added);
  }
  const stated = statedBy(fields, parties.length, honest);
  return { ...stated, parties, isSigned: count > 0, name, session };
}

function nameOf(fields: JsonObject, form: number): Promise<Bytes> {
  return digest(`round.${form}\n`, utf8(canonicalJson(fields, true)));
}

/** Return the random bytes that the parties signed with, in the order of the list; none of them, or all. */
async function signed(signatures: unknown, parties: readonly PublicKey[], name: Bytes, form: number): Promise<{ added: Bytes[]; count: number }> {
  need(Array.isArray(signatures) && signatures.length <= parties.length, "signatures are a list, one of each party");
  const ids = await Promise.all(parties.map(keyIdOf));
  const found = new Map<number, Bytes>();
  for (const one of signatures) {
    const envelope = readEnvelope(one, 0);
    need(envelope.type === `application/vnd.streamsketch.round.v${form}+json`, "an envelope of another type");
    const place = ids.indexOf(envelope.keyId);
    need(place >= 0 && !found.has(place), "signed by somebody else, or twice");
    need(await isSigned(envelope, parties[place]), "the signature does not fit");
    need(envelope.payload.length === 32 * form && equalBytes(envelope.payload.subarray(0, 32), name), "a signature of another round");
    found.set(place, envelope.payload.slice(32));
  }
  need(found.size === 0 || found.size === parties.length, "signed by some alone");
  return { added: found.size > 0 ? parties.map((_, i) => found.get(i) as Bytes) : [], count: found.size };
}

/** Return what the release of a round guarantees, by which noise, all of it in the ranges of a release. */
function statedBy(fields: JsonObject, parties: number, honest: number): Pick<Round, "projection" | "guarantee" | "clip" | "agreement" | "noise"> {
  const relation = objectOf(fields.neighbours, "neighbours", ["relation", "bound", "unit", "max_keys"]);
  const noise = objectOf(fields.noise, "noise", ["kind", "amount"]);
  const maxKeys = integerField(relation.max_keys, "max_keys");
  need(maxKeys >= 1 && maxKeys <= ANY_NUMBER, "max_keys out of range");
  const unit = textField(relation.unit, "unit");
  const added: AddedNoise = { kind: textField(noise.kind, "kind"), amount: ratioOf(noise.amount), layers: 0, place: "", shares: { parties, honest } };
  const isCounted = fields.counting !== undefined;
  if (isCounted) {
    const weights = objectOf(fields.counting, "counting", ["units", "slack"]);
    added.counting = { units: integerField(weights.units, "units"), slack: integerField(weights.slack, "slack") };
  }
  need(fields.mechanism === "auto" || fields.mechanism === added.kind, "another noise than was asked for");
  const clip = fields.clip === undefined ? null : textField(fields.clip, "clip");
  need(clip === null || (["scale", "equal", "average"].includes(clip) && relation.relation === "sketch-l2" && isCounted), "units clipped alike, but not counted");
  const agreement = fields.agreement === undefined ? null : textField(fields.agreement, "agreement");
  need(agreement === null || /^[0-9a-f]{32}$/.test(agreement), "a fingerprint of other than 16 bytes");
  const keeping = honest === parties ? say(sentences.ALL_HONEST, { parties }) : say(sentences.SOME_HONEST, { honest, parties });
  const [epsilon, delta] = [numberField(fields.epsilon, "epsilon"), numberField(fields.delta, "delta")];
  checkBudget({ epsilon, delta });
  const guarantee: Guarantee = {
    epsilon,
    delta: added.kind === "laplace" ? 0 : delta,
    neighbours: { kind: textField(relation.relation, "relation"), bound: ratioOf(relation.bound), unit, maxKeys: maxKeys === 1 ? 0 : maxKeys },
    mechanism: textOfSteps([{ noise: added }]),
    conditions: [keeping, say(isCounted ? sentences.AT_ONE_PARTY : sentences.OVER_ALL_PARTIES, { unit })].sort(),
    steps: [{ noise: added }],
    basis: "asserted",
  };
  checkGuarantee(guarantee);
  return { projection: projectionOf(fields.projection), guarantee, clip, agreement, noise: added };
}

function ratioOf(value: JsonObject[string] | undefined): Ratio {
  const text = textField(value, "a ratio");
  need(/^\d{1,19}(?:\/\d{1,19})?$/.test(text) && !/\/0+$/.test(text), "text that is no ratio");
  const found = Ratio.parse(text);
  need(String(found) === text, "a ratio that is not in lowest terms");
  return found;
}

/** Return how many numbers a party sends: cells, and behind them counts. */
export function sizeOfRound({ projection, noise }: Round): number {
  return projection.sketchDim + (noise.counting === undefined ? 0 : noise.counting.slack > 0 ? 2 : 1);
}

/** Return a party's contribution to a round, its signature checked. */
export async function readContribution(round: Round, text: string, changes: Partial<Limits> = {}): Promise<Contribution> {
  const envelope = readEnvelope(text, limitsWith(changes).maxBytes);
  need(envelope.type === CONTRIBUTION, "an envelope of another type");
  const ids = await Promise.all(round.parties.map(keyIdOf));
  const place = ids.indexOf(envelope.keyId);
  need(place >= 0, "a contribution of somebody else");
  need(await isSigned(envelope, round.parties[place]), "the signature does not fit");
  const { payload } = envelope;
  const k = sizeOfRound(round);
  need(payload.length === 40 + 8 * k + IDS * ID, "a contribution of another length");
  need(equalBytes(payload.subarray(0, 32), round.session), "a contribution to another round");
  const view = new DataView(payload.buffer, payload.byteOffset);
  need(view.getUint32(32, true) === place && view.getUint32(36, true) === k, "another place, or another number of cells");
  const dataIds = Array.from({ length: IDS }, (_, i) => payload.slice(40 + 8 * k + ID * i, 40 + 8 * k + ID * (i + 1)));
  need(ascends(dataIds), "ids repeated or out of order");
  return { place, numbers: new BigUint64Array(payload.slice(40, 40 + 8 * k).buffer), dataIds };
}

/**
 * Return the release of a round: the sum of one contribution of each party, in which the masks cancel.
 *
 * @throws WireFormatError if one is missing, or twice, or does not hold
 */
export async function addContributions(round: Round, texts: readonly string[], changes: Partial<Limits> = {}): Promise<Release> {
  need(texts.length === round.parties.length, "not one contribution of each party");
  const read: Contribution[] = [];
  for (const text of texts) read.push(await readContribution(round, text, changes));
  need(new Set(read.map((one) => one.place)).size === read.length, "two contributions of one party");
  const dataIds = read.flatMap((one) => one.dataIds).sort(compareBytes);
  need(ascends(dataIds), "two parties with the same data");
  const numbers = Array.from({ length: sizeOfRound(round) }, (_, i) => BigInt.asIntN(64, read.reduce((sum, one) => sum + one.numbers[i], 0n)));
  const words = concat(...numbers.map((one) => littleEndian(BigInt.asUintN(64, one), 8)));
  const releaseId = (await digest("release", round.session, words)).slice(0, ID);
  const k = round.projection.sketchDim;
  return new Release({
    projection: round.projection,
    values: Integers.of(numbers.slice(0, k)).toMessage(),
    noise: { ...cumulantsOf(round.noise), place: "" },
    guarantee: round.guarantee,
    multiplier: new Ratio(1n),
    releaseIds: [releaseId],
    dataIds,
    parts: [],
    ...(numbers.length > k ? { counts: Integers.of(numbers.slice(k)).toMessage() } : {}),
    ...(round.clip === null ? {} : { clip: round.clip }),
    ...(round.agreement === null ? {} : { agreement: unhex(round.agreement) }),
  });
}

