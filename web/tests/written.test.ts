/** What this package writes is what Python reads: `npm run write` writes written.json again. */
import assert from "node:assert/strict";
import test from "node:test";
import { ExactDraws } from "../src/secret.ts";
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
    else if (one.kind === "LocalReport") ss.readReport(data, ss.readMechanism(one.mechanism));
    else assert.equal(ss.MeanAggregator.read(data).count, one.count);
  }
});

test("discrete Laplace noise has the distribution that it states", () => {
  const draws = new ExactDraws(knownBits(1n));
  const [count, t, s] = [20_000, 5, 2];
  const found = new Map<bigint, number>();
  for (let i = 0; i < count; i++) {
    const noise = draws.laplace(t, s);
    found.set(noise, (found.get(noise) ?? 0) + 1);
  }
  const r = Math.exp(-s / t);
  for (let n = -6; n <= 6; n++) {
    const wanted = ((1 - r) / (1 + r)) * r ** Math.abs(n);
    const deviation = Math.sqrt(count * wanted * (1 - wanted));
    assert.ok(Math.abs((found.get(BigInt(n)) ?? 0) - count * wanted) < 5 * deviation, `${n}: ${found.get(BigInt(n))}`);
  }
});

test("uniform integers reach every value, and no other", () => {
  const draws = new ExactDraws(knownBits(2n));
  const found = new Set(Array.from({ length: 500 }, () => draws.below(7)));
  assert.deepEqual([...found].sort(), [0, 1, 2, 3, 4, 5, 6]);
  const wide = Array.from({ length: 200 }, () => draws.below(2 ** 50 + 1));
  assert.ok(wide.every((one) => Number.isInteger(one) && one >= 0 && one <= 2 ** 50) && wide.some((one) => one > 2 ** 49));
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
