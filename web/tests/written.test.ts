/** What this package writes is what Python reads: `npm run write` writes written.json again. */
import assert from "node:assert/strict";
import test from "node:test";
import { NoiseTable } from "../src/noise.ts";
import * as ss from "./api.ts";
import { knownBits, written } from "./written.ts";
import json from "./written.json";

const table = json as unknown as Record<string, any>[];

test("the bytes that Python reads are current", () => {
  assert.deepEqual(JSON.parse(JSON.stringify(written())), table);
});

test("what is written is read", () => {
  for (const one of table) {
    const data = ss.unhex(one.bytes);
    if (one.kind === "PrivateSketch") assert.equal(ss.checkNoise(ss.readRelease(data)).verdict, "enough", one.name);
    else if (one.kind === "PrivateTable") assert.deepEqual(ss.readTable(data).labels, one.keys);
    else if (one.kind === "LocalReport") ss.readReport(data, ss.readMechanism(one.mechanism));
    else assert.equal(ss.MeanAggregator.read(data).count, one.count);
  }
});

/** How often a sample was drawn, and how often it should be, n of `count`: five standard deviations are missed once in 10^6. */
function agree(samples: readonly bigint[], chance: (n: number) => number, most: number): void {
  for (let n = -most; n <= most; n++) {
    const wanted = samples.length * chance(n);
    const found = samples.filter((one) => one === BigInt(n)).length;
    assert.ok(Math.abs(found - wanted) < 5 * Math.sqrt(wanted) + 1, `${n}: ${found}, ${wanted}`);
  }
}

test("discrete Laplace noise has the distribution that it states", () => {
  for (const [t, s] of [[5, 2], [40, 1]]) {
    const r = Math.exp(-s / t);
    agree(new NoiseTable("laplace", new ss.Ratio(BigInt(t), BigInt(s))).draw(20_000, knownBits(1n)), (n) => ((1 - r) / (1 + r)) * r ** Math.abs(n), 6);
  }
});

test("discrete Gaussian noise has the distribution that it states", () => {
  for (const variance of [3, 5000]) {
    const weight = (n: number): number => Math.exp((-n * n) / (2 * variance));
    let all = 0;
    for (let n = -1000; n <= 1000; n++) all += weight(n);
    agree(new NoiseTable("gaussian", new ss.Ratio(BigInt(variance))).draw(20_000, knownBits(2n)), (n) => weight(n) / all, 6);
  }
});

test("noise is one function of its bits, however many are read at a time", () => {
  const late = (): ss.SecretBits => {
    const known = knownBits(3n);
    let ones = 501; // words of ones draw nothing, and an odd number of bytes cuts one in two
    return (into) => {
      const first = Math.min(ones, into.length);
      into.fill(255, 0, first);
      known(into.subarray(first));
      ones -= first;
    };
  };
  for (const table of [new NoiseTable("gaussian", new ss.Ratio(5000n)), new NoiseTable("laplace", new ss.Ratio(3n))]) {
    const whole = table.draw(3000, late());
    for (const size of [1, 5, 40]) assert.deepEqual(table.draw(size, late()), whole.slice(0, size));
  }
});

test("noise that is too wide is refused", () => {
  assert.throws(() => new NoiseTable("laplace", new ss.Ratio((1n << 32n) + 1n)), ss.InvalidInputError);
  assert.throws(() => new NoiseTable("gaussian", new ss.Ratio(1n << 49n)), ss.InvalidInputError);
});

test("two releases by the system's bits differ, and share their data ids", () => {
  const projection = ss.readProjection('{"dim":1152921504606846976,"independence":8,"kind":"count-sketch","resolution":"1/1","seed":7,"sketch_dim":64}');
  const sketch = new ss.Sketch(projection);
  sketch.add(["a", 7]);
  const [x, y] = [0, 1].map(() => sketch.release({ epsilon: 1, bound: 10, unit: "event" }));
  assert.notEqual(ss.hex(x.message.values.cells), ss.hex(y.message.values.cells));
  assert.notEqual(x.releaseIds[0], y.releaseIds[0]);
  assert.deepEqual(x.dataIds, y.dataIds);
  assert.ok(ss.squaredDistance(x, y).value < 1e6);
});

test("bounds, units and vectors that are not valid are refused", () => {
  const projection = ss.readProjection('{"dim":100,"independence":8,"kind":"count-sketch","resolution":"1/1","seed":7,"sketch_dim":64}');
  const sketch = new ss.Sketch(projection);
  for (const options of [{ bound: "1/2" }, { epsilon: 0 }, { epsilon: NaN }, { unit: "" }, { unit: "a\nb" }, { bound: -1 }]) {
    assert.throws(() => sketch.release({ epsilon: 1, bound: 1, unit: "event", ...options }), ss.StreamsketchError);
  }
  const mechanism = ss.readMechanism('{"ball":false,"dim":3,"epsilon":4.0,"kind":"priv-unit-g","precision":"float32"}');
  for (const vector of [[1, 0], [1, 1, 0], [NaN, 0, 0], [0, 0, 0]]) assert.throws(() => ss.randomize(mechanism, vector), ss.InvalidInputError);
});
