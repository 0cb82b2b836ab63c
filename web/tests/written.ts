/** Bytes that this package writes, from bits that are known to tests alone; Python reads them, too (written.json). */
import { blake2b } from "../src/blake2b.ts";
import { littleEndian } from "../src/bytes.ts";
import * as ss from "../src/index.ts";

/** Bits that anybody can compute: for tests alone. */
export function knownBits(seed: bigint): ss.SecretBits {
  let block = 0n;
  let left: Uint8Array = new Uint8Array(0);
  return (into) => {
    for (let at = 0; at < into.length; ) {
      if (left.length === 0) left = blake2b(littleEndian(block++, 8), 64, { key: littleEndian(seed, 8) });
      const size = Math.min(left.length, into.length - at);
      into.set(left.subarray(0, size), at);
      left = left.subarray(size);
      at += size;
    }
  };
}

const ITEMS: readonly (readonly [string, number])[] = [["bread", 3], ["milk", -2], ["Ä🔑", 7], ["", 1]];
const HASHED = '"dim":1152921504606846976,"independence":8';
const SKETCHES: readonly (readonly [name: string, projection: string, epsilon: number, bound: string])[] = [
  ["count-sketch", `{${HASHED},"kind":"count-sketch","resolution":"1/1","seed":7,"sketch_dim":64}`, 1, "8"],
  ["sjlt, resolution of 1/4", `{${HASHED},"kind":"sjlt-block","resolution":"1/4","seed":7,"sketch_dim":64,"sparsity":4}`, 0.3, "9/4"],
  ["a weak guarantee", `{${HASHED},"kind":"count-sketch","resolution":"1/1","seed":9,"sketch_dim":16}`, 30, "1"],
  ["a scale of many digits", `{${HASHED},"kind":"sjlt-graph","resolution":"1/1000","seed":7,"sketch_dim":48,"sparsity":5}`, 0.1, "123"],
];
const VECTORS: readonly (readonly [name: string, mechanism: string])[] = [
  ["PrivUnitG", '{"ball":false,"dim":12,"epsilon":4.0,"kind":"priv-unit-g","precision":"float32"}'],
  ["PrivUnitG in the ball, float16", '{"ball":true,"dim":11,"epsilon":2.5,"kind":"priv-unit-g","precision":"float16"}'],
  ...(["hadamard", "haar"] as const).flatMap((rotation) =>
    [false, true].flatMap((shared) =>
      [false, true].map((unbiased): [string, string] => [
        `ProjUnit, ${rotation}${shared ? ", shared" : ""}${unbiased ? ", unbiased" : ""}`,
        `{"ball":false,"compressed":false,"dim":12,"epsilon":4.0,"kind":"proj-unit","precision":"float32","rotation":"${rotation}","seed":7,"shared":${shared},"sketch_dim":6,"unbiased":${unbiased}}`,
      ]),
    ),
  ),
  ["ProjUnit, Gaussian", '{"ball":false,"compressed":false,"dim":12,"epsilon":4.0,"kind":"proj-unit","precision":"float32","rotation":"gaussian","seed":7,"shared":false,"sketch_dim":6,"unbiased":true}'],
];

const KEYS: readonly (readonly [name: string, keys: readonly (string | bigint)[]])[] = [
  ["one key", ["north"]],
  ["text", ["north", "süd", "Ä🔑", "a key of many letters, so that its length takes more than one of them"]],
  ["integers", [7n, -3n, 9_007_199_254_740_993n]],
  ["many keys", Array.from({ length: 40 }, (_, i) => `key ${i}`)],
];
const AGREEMENT =
  '{"agreement":1,"index":[{"name":"item","type":"text"}],"key":{"name":"shop","type":"TYPE"},"keys":{"public":true},"missing":"refuse",' +
  '"neighbours":{"bound":"1","max_keys":1,"relation":"l1","unit":"customer"},' +
  `"projection":{${HASHED},"kind":"count-sketch","resolution":"1/1","seed":7,"sketch_dim":16},"release":{"epsilon":"1","noise":"laplace"},` +
  '"title":"","unit":{"name":"customer","type":"text"},"value":null}';

/** A vector of length 1. */
export function vectorOf(dim: number): number[] {
  const cells = Array.from({ length: dim }, (_, j) => ((j * 7) % 5) - 1.75 + j / 8);
  const length = Math.sqrt(cells.reduce((sum, cell) => sum + cell * cell, 0));
  return cells.map((cell) => cell / length);
}

/** Return all that is written. */
export function written(): object[] {
  const releases = SKETCHES.map(([name, projection, epsilon, bound], i) => {
    const sketch = new ss.Sketch(ss.readProjection(projection), knownBits(BigInt(i)));
    for (const [item, value] of ITEMS) sketch.add(item, value);
    const release = sketch.release({ epsilon, bound, unit: "purchase" });
    const scale = String(release.guarantee.steps?.[0].noise?.amount);
    return { name, kind: "PrivateSketch", projection, epsilon, bound, items: ITEMS, scale, bytes: ss.hex(release.toBytes()) };
  });
  const tables = KEYS.map(([name, keys], i) => {
    const agreement = AGREEMENT.replace("TYPE", typeof keys[0] === "bigint" ? "integer" : "text");
    const rows = keys.map((key, row) => `"${key}",${row},${row}\n`).join("");
    const table = new ss.AgreedRows(agreement, new TextEncoder().encode(`shop,item,customer\n${rows}`)).release({ bits: knownBits(BigInt(50 + i)) });
    if (table instanceof ss.Release) throw new Error("a table");
    return { name, kind: "PrivateTable", keys: table.labels, releases: table.releases.map((one) => ss.hex(one.toBytes())), bytes: ss.hex(table.toBytes()) };
  });
  const reports = VECTORS.map(([name, mechanism], i) => {
    const fields = ss.readMechanism(mechanism);
    const seed = 100 + i;
    return { name, kind: "LocalReport", mechanism, seed, vector: vectorOf(fields.dim), bytes: ss.hex(ss.randomize(fields, vectorOf(fields.dim), knownBits(BigInt(seed)))) };
  });
  const mechanism = ss.readMechanism(VECTORS[2][1]);
  const server = new ss.MeanAggregator(mechanism);
  for (let i = 0; i < 5; i++) server.add(ss.randomize(mechanism, vectorOf(mechanism.dim), knownBits(BigInt(200 + i))));
  const mean = { name: "a mean of five", kind: "LocalMean", mechanism: VECTORS[2][1], count: 5, mean: [...server.mean()], bytes: ss.hex(server.toBytes()) };
  return [...releases, ...tables, ...reports, mean];
}

export function writtenText(): string {
  return `[\n${written().map((one) => JSON.stringify(one)).join(",\n")}\n]\n`;
}
