/** Bytes changed at random: readers refuse them, or read them; they never fail in another way, and soon end. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { blake2b } from "../src/blake2b.ts";
import { concat, littleEndian } from "../src/bytes.ts";
import { writeFrame } from "../src/frame.ts";
import { varintBytes } from "../src/protobuf.ts";
import { KIT } from "./kit.ts";
import json from "./agreements.json";

/** A small generator of numbers below 2^32, the same everywhere: for tests alone. */
class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  word(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let z = this.#state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return (z ^ (z >>> 15)) >>> 0;
  }

  below(size: number): number {
    return this.word() % size;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)];
  }
}

/** How many times as much is tried: `TIMES=50 npm test -- hostile`, with `SEED=1` for other bytes. */
const { TIMES = "1", SEED = "7" } = (globalThis as { process?: { env: Record<string, string> } }).process?.env ?? {};
const NUMBERS = [0n, 1n, 2n, 7n, 64n, 255n, 1n << 16n, 1n << 24n, (1n << 31n) - 1n, 1n << 32n, 1n << 60n, (1n << 63n) - 1n, (1n << 64n) - 1n];
const TEXTS = ["", "x", "\u0000", "\u001b[2J", "\u202e", "é", "1/0", "9".repeat(90), "l1", "gaussian", "constructor", "__proto__", "toString"];

function changedBytes(data: Uint8Array, chance: Chance): Uint8Array {
  let changed = Uint8Array.from(data);
  for (let i = chance.pick([1, 1, 2, 5]); i > 0; i--) {
    const place = chance.below(changed.length + 1);
    const size = chance.pick([1, 1, 2, 4, 8, 40]);
    const [head, tail, rest] = [changed.subarray(0, place), changed.subarray(place), changed.subarray(Math.min(place + size, changed.length))];
    const piece = chance.pick([
      Uint8Array.from({ length: size }, () => chance.below(256)),
      new Uint8Array(size).fill(chance.pick([0, 255, 128, 127])),
      littleEndian(chance.pick(NUMBERS), 8).subarray(0, chance.pick([1, 2, 4, 8])),
    ]);
    const way = chance.below(4);
    if (way === 0 && place < changed.length) changed[place] ^= 1 << chance.below(8);
    else if (way === 1) changed = concat(head, rest);
    else if (way === 2) changed = concat(head, piece, tail);
    else changed = concat(head, piece, rest);
  }
  return chance.below(20) > 0 ? changed : changed.slice(0, chance.below(changed.length + 1));
}

type Field = [number: number, wire: number, value: bigint | Uint8Array];

function fieldsOf(payload: Uint8Array): Field[] | null {
  const fields: Field[] = [];
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; at < payload.length && shift < 70n; shift += 7n) {
      value |= BigInt(payload[at] & 127) << shift;
      if (payload[at++] < 128) return value;
    }
    return -1n;
  };
  while (at < payload.length) {
    const tag = varint();
    if (tag < 8n || tag > 1n << 20n) return null;
    const wire = Number(tag & 7n);
    if (wire === 0) {
      fields.push([Number(tag >> 3n), wire, varint()]);
      continue;
    }
    const size = wire === 1 ? 8 : wire === 2 ? Number(varint()) : -1;
    if (size < 0 || at + size > payload.length) return null;
    fields.push([Number(tag >> 3n), wire, payload.slice(at, at + size)]);
    at += size;
  }
  return fields;
}

/** Return a payload with fields dropped, repeated, swapped, or of other values, deep inside, too. */
function changedMessage(payload: Uint8Array, chance: Chance): Uint8Array {
  const fields = fieldsOf(payload);
  if (fields === null || fields.length === 0) return changedBytes(payload, chance);
  const place = chance.below(fields.length);
  const [number, wire, value] = fields[place];
  const way = chance.below(10);
  if (way === 0) fields.splice(place, 1);
  else if (way === 1) for (let i = chance.pick([1, 3, 100]); i > 0; i--) fields.splice(place, 0, fields[place]);
  else if (way === 2) fields.reverse();
  else if (way === 3) fields[place] = [chance.pick([1, number + 1, 15, 2 ** 20]), wire, value];
  else if (typeof value === "bigint") fields[place] = [number, wire, BigInt.asUintN(64, chance.pick([value + 1n, value - 1n, value << 1n, chance.pick(NUMBERS)]))];
  else if (wire === 1) fields[place] = [number, wire, concat(changedBytes(value, chance), new Uint8Array(8)).slice(0, 8)];
  else if (chance.below(5) === 0) fields[place] = [number, wire, new TextEncoder().encode(chance.pick(TEXTS))];
  else fields[place] = [number, wire, (chance.below(10) < 7 ? changedMessage : changedBytes)(value, chance)];
  return concat(...fields.flatMap(([one, kind, said]) => {
    const tag = varintBytes(BigInt(one * 8 + kind));
    if (typeof said === "bigint") return [tag, varintBytes(said < 0n ? 0n : said)];
    return kind === 2 ? [tag, varintBytes(BigInt(said.length)), said] : [tag, said];
  }));
}

/** Return a file with a changed payload, and a checksum that fits. */
function changedFile(data: Uint8Array, chance: Chance): Uint8Array {
  if (chance.below(10) === 0) return changedBytes(data, chance);
  const payload = changedMessage(data.subarray(17, -16), chance);
  const body = concat(data.subarray(0, 9), littleEndian(BigInt(payload.length), 8), payload);
  return concat(body, blake2b(body, 16));
}

function use(release: ss.Release): void {
  ss.guaranteeInWords(release);
  ss.warnings(release);
  if (!release.history?.row) ss.squaredNorm(release).interval();
}

const LIMITS = { maxEntries: 1 << 12 };
const READERS: [name: string, files: string[], read: (data: Uint8Array) => unknown, count: number][] = [
  ["releases", KIT.releases.filter((one) => one.bytes.length < 6000).map((one) => one.bytes), (data) => use(ss.readRelease(data)), 700],
  ["signs", KIT.signs.filter((one) => one.bytes.length < 6000).map((one) => one.bytes), (data) => ss.guaranteeInWords(ss.readSigns(data)), 400],
  ["means", KIT.local.filter((one) => !/PrivUnit$|Gaussian/.test(one.name)).map((one) => one.mean.bytes), (data) => ss.MeanAggregator.read(data), 150],
  ["tables", KIT.tables.map((one) => one.bytes), (data) => ss.readTable(data), 400],
];

for (const [name, files, read, count] of READERS) {
  test(`changed ${name} are refused or read`, () => {
    const chance = new Chance(Number(SEED));
    let refused = 0;
    for (let i = 0; i < count * Number(TIMES); i++) {
      const data = ss.unhex(chance.pick(files));
      const changed = name === "tables" ? changedBytes(data, chance) : changedFile(data, chance);
      try {
        read(changed);
      } catch (error) {
        if (!(error instanceof ss.StreamsketchError)) throw new Error(`${ss.hex(changed).slice(0, 2000)}`, { cause: error });
        refused++;
      }
    }
    assert.ok(refused > count / 3, `${refused} of ${count} were refused`);
  });
}

test("changed JSON is refused or read", () => {
  const chance = new Chance(Number(SEED));
  const texts = [...json.map((one: any) => one.json), KIT.local[3].mechanism, KIT.projections[0].json];
  for (let i = 0; i < 500 * Number(TIMES); i++) {
    const text = new TextDecoder().decode(changedBytes(new TextEncoder().encode(chance.pick(texts)), chance));
    for (const read of [ss.readAgreement, ss.readProjection, ss.readMechanism]) {
      try {
        read(text);
      } catch (error) {
        if (!(error instanceof ss.StreamsketchError)) throw new Error(text, { cause: error });
      }
    }
  }
});

test("changed statements never hold", async () => {
  const chance = new Chance(9);
  const one = KIT.statements.find((each) => each.name === "a release") as any;
  for (let i = 0; i < 60; i++) {
    const bundle = new TextDecoder().decode(changedBytes(new TextEncoder().encode(one.bundle.trim()), chance));
    if (bundle.trim() === one.bundle.trim()) continue;
    try {
      await ss.verify(ss.unhex(one.file), bundle, [one.signer]);
      assert.ok(bundle.split(/[\n\r]/).some((line) => line.trim() === one.bundle.trim()), bundle);
    } catch (error) {
      if (!(error instanceof ss.SignatureError)) throw new Error(bundle, { cause: error });
    }
  }
  for (let i = 0; i < 30; i++) {
    const file = changedBytes(ss.unhex(one.file), chance);
    if (ss.hex(file) !== one.file) await assert.rejects(() => ss.verify(file, one.bundle, [one.signer]), ss.SignatureError);
  }
});

test("a mechanism that is large takes no more work than its bytes", () => {
  for (const one of KIT.local.filter((each) => /SQKR|ProjUnit|RePrivHS/.test(each.name))) {
    const data = ss.unhex(one.mean.bytes);
    const message = ss.MeanAggregator.read(data);
    const large = { ...message.mechanism, dim: 2 ** 22, ...(message.mechanism.sketchDim === undefined ? {} : { sketchDim: 2 ** 9 }) };
    const { totals, stepExponent, count } = message;
    const bytes = writeFrame("LocalMean", { mechanism: large, count, stepExponent, totals: ss.Integers.of(totals).toMessage() });
    assert.throws(() => ss.MeanAggregator.read(bytes), ss.WireFormatError, one.name);
  }
});

test("lengths that a file claims allocate nothing", () => {
  const claims = concat(ss.unhex(KIT.releases[0].bytes).slice(0, 9), littleEndian((1n << 64n) - 1n, 8), new Uint8Array(16));
  assert.throws(() => ss.readRelease(claims), ss.WireFormatError);
  const payload = concat(...Array.from({ length: 5000 }, () => new Uint8Array([0x3a, 0])));
  const body = concat(ss.unhex(KIT.releases[0].bytes).slice(0, 9), littleEndian(BigInt(payload.length), 8), payload);
  assert.throws(() => ss.readRelease(concat(body, blake2b(body, 16)), { maxItems: 1000 }), ss.WireFormatError);
  assert.throws(() => ss.readRelease(new Uint8Array(100), { maxBytes: 99 }), ss.WireFormatError);
  assert.throws(() => ss.readTable(ss.unhex(KIT.tables[0].bytes), { maxKeys: 2 }), ss.WireFormatError);
  assert.throws(() => ss.readRelease("text" as unknown as Uint8Array), ss.WireFormatError);
  const [release] = KIT.releases.filter((one) => one.name === "rademacher, x").map((one) => ss.readRelease(ss.unhex(one.bytes)));
  assert.throws(() => ss.frequency(release, 1n, { limits: LIMITS.maxEntries > 4 ? { maxEntries: 4 } : LIMITS }), ss.InvalidInputError);
});
