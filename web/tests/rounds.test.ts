/** Rounds and contributions of the conformance kit; the parties' masks are computed here, from keys that are public. */
import assert from "node:assert/strict";
import test from "node:test";
import { canonicalBytes } from "../src/hashing.ts";
import { sizeOfRound } from "../src/rounds.ts";
import { concat, utf8, type Bytes } from "../src/bytes.ts";
import * as ss from "./api.ts";
import { KIT, plain, type Case } from "./kit.ts";

/** Return the first words of ChaCha20's stream, of counter and nonce 0 (RFC 8439). */
function chacha20(key: Uint8Array, words: number): BigUint64Array {
  const first = new Uint32Array(16);
  first.set([0x61707865, 0x3320646e, 0x79622d32, 0x6b206574]);
  first.set(new Uint32Array(key.slice().buffer), 4);
  const out = new Uint32Array(16 * Math.ceil(words / 8));
  const turn = (value: number, by: number) => (value << by) | (value >>> (32 - by));
  for (let block = 0; block < out.length / 16; block++) {
    first[12] = block;
    const state = first.slice();
    const quarter = (a: number, b: number, c: number, d: number) => {
      for (const [one, other, third, by] of [[a, b, d, 16], [c, d, b, 12], [a, b, d, 8], [c, d, b, 7]]) {
        state[one] += state[other];
        state[third] = turn(state[third] ^ state[one], by);
      }
    };
    for (let round = 0; round < 10; round++) {
      for (let i = 0; i < 4; i++) quarter(i, i + 4, i + 8, i + 12);
      for (let i = 0; i < 4; i++) quarter(i, 4 + ((i + 1) % 4), 8 + ((i + 2) % 4), 12 + ((i + 3) % 4));
    }
    out.set(state.map((word, i) => word + first[i]), 16 * block);
  }
  return new BigUint64Array(out.buffer).slice(0, words);
}

async function shared(secret: Bytes, other: Bytes): Promise<ArrayBuffer> {
  const wrapped = concat(ss.unhex("302e020100300506032b656e04220420"), secret);
  const own = await crypto.subtle.importKey("pkcs8", wrapped, { name: "X25519" }, false, ["deriveBits"]);
  const theirs = await crypto.subtle.importKey("raw", other, { name: "X25519" }, false, []);
  return crypto.subtle.deriveBits({ name: "X25519", public: theirs } as EcdhKeyDeriveParams, own, 256);
}

/** Return what a party adds to its numbers. */
async function masks(round: ss.Round, place: number, secret: Bytes): Promise<bigint[]> {
  const total = new Array<bigint>(sizeOfRound(round)).fill(0n);
  for (const [i, other] of round.parties.entries()) {
    if (i === place) continue;
    const [first, second] = [Math.min(i, place), Math.max(i, place)];
    const info = concat(utf8("streamsketch.parties.mask.1"), round.parties[first].agreement, round.parties[second].agreement);
    const key = await crypto.subtle.importKey("raw", await shared(secret, other.agreement), "HKDF", false, ["deriveBits"]);
    const derived = await crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt: round.session, info }, key, 256);
    chacha20(new Uint8Array(derived), total.length).forEach((word, at) => (total[at] += place < i ? word : -word));
  }
  return total;
}

const KEYS: Record<string, (item: any) => ss.Part> = { text: String, bytes: ss.unhex, integer: BigInt, date: ss.Day.parse, nanoseconds: (item) => new ss.Nanoseconds(BigInt(item)) };

function keyOf(one: Case): Uint8Array | null {
  return one.key === null ? null : canonicalBytes(KEYS[one.key.type](one.key.items[0]));
}

for (const one of KIT.contributions) {
  test(`contributions: ${one.name}`, async () => {
    const texts: string[] = one.contributions.map((each: Case) => each.bytes);
    if ("reason" in one) {
      return assert.rejects(async () => ss.addContributions(await ss.readRound(one.round, keyOf(one)), texts), ss.WireFormatError);
    }
    const round = await ss.readRound(one.round, keyOf(one));
    assert.equal(ss.hex(round.name), one.fingerprint);
    assert.equal(ss.hex(round.session), one.session);
    for (const [i, stated] of (one.contributions as Case[]).entries()) {
      const sent = await ss.readContribution(round, stated.bytes);
      assert.equal(sent.place, i);
      assert.deepEqual(plain(sent.dataIds), stated.data_ids);
      if (one.secrets === undefined) continue;
      const added = await masks(round, i, ss.unhex(one.secrets[i][1]));
      assert.deepEqual([...sent.numbers].map((number, at) => String(BigInt.asIntN(64, number - added[at]))), stated.cells);
    }
    const found = await ss.addContributions(round, texts);
    const release = ss.readRelease(ss.unhex(one.release));
    const { noise, ...rest } = found.message;
    const { noise: _, ...stated } = release.message;
    assert.deepEqual(plain(rest), plain(stated));
    assert.ok(Math.abs(noise.k2 - release.noise.k2) <= 1e-10 * release.noise.k2, `${noise.k2} is not ${release.noise.k2}`);
    assert.ok(Math.abs(noise.k4 - release.noise.k4) <= 1e-10 * release.noise.k2 ** 2, `${noise.k4} is not ${release.noise.k4}`);
    assert.equal(ss.readRelease(found.toBytes()).releaseIds[0], release.releaseIds[0]);
  });
}
