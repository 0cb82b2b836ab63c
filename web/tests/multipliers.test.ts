/** A release says the same in finer steps: no estimate depends on how it is written. */
import assert from "node:assert/strict";
import test from "node:test";
import * as ss from "./api.ts";
import { KIT, named, type Case } from "./kit.ts";

const read = (name: string) => ss.readRelease(ss.unhex(named("releases", name).bytes));

/** Return the same release in steps half as large. */
function finer(release: ss.Release): ss.Release {
  const { message } = release;
  const own = { noise: { ...message.noise, place: "" }, guarantee: message.guarantee, multiplier: message.multiplier.magnitude(), count: 1 };
  const parts = message.parts.length > 0 || message.history !== undefined ? message.parts : [own];
  const doubled = (numbers: ss.Integers) => ss.Integers.of(numbers.toArray().map((one) => 2n * one)).toMessage();
  return new ss.Release({
    ...message,
    values: doubled(release.cells),
    noise: { ...message.noise, k2: 4 * message.noise.k2, k4: 16 * message.noise.k4 },
    multiplier: message.multiplier.over(new ss.Ratio(2n)),
    parts,
    ...(release.counts === null ? {} : { counts: doubled(release.counts) }),
  });
}

function checkSame(found: ss.Estimate, plain: ss.Estimate, name: string): void {
  const numbers = (one: ss.Estimate) => [one.value, one.projectionVariance, one.noiseVariance, ...[one.interval(), one.intervalAmong(7)].flatMap(({ low, high }) => [low, high])];
  numbers(found).forEach((number, i) => {
    const wanted = numbers(plain)[i];
    assert.ok(number === wanted || Math.abs(number - wanted) <= 1e-9 * Math.abs(wanted), `${name}: ${number} for ${wanted}`);
  });
}

// Sums over entries are left out: their variances are smoothed over steps (WIRE.md), and sums have the largest.
const OF_ONE: Record<string, (x: ss.Release) => ss.Estimate> = {
  squaredNorm: ss.squaredNorm, meanNorm: ss.meanNorm, units: ss.units, total: ss.total,
  mean: (x) => ss.frequency(x, 3n, { estimator: "mean" }), auto: (x) => ss.frequency(x, 5n),
  missedBy: (x) => ss.missedBy(x, [1n, 5n]),
};
const OF_TWO: Record<string, (x: ss.Release, y: ss.Release) => ss.Estimate> = {
  squaredDistance: ss.squaredDistance, innerProduct: ss.innerProduct, cosine: ss.cosine, profileDistance: ss.profileDistance,
  meanDistance: ss.meanDistance, meanProduct: ss.meanProduct, less: (x, y) => ss.frequency(x, 1n, { less: y }),
};

/** Return an estimate, or null where it is not defined. */
function estimateOf(estimate: () => ss.Estimate): ss.Estimate | null {
  try {
    return estimate();
  } catch (error) {
    if (error instanceof ss.StreamsketchError) return null;
    throw error;
  }
}

function check(name: string, plain: () => ss.Estimate, others: (() => ss.Estimate)[]): boolean {
  const expected = estimateOf(plain);
  for (const other of others) {
    const found = estimateOf(other);
    assert.equal(found === null, expected === null, `${name}: defined for one of two`);
    if (found !== null && expected !== null) checkSame(found, expected, name);
  }
  return expected !== null;
}

// cells that doubles tell apart, and no counts but of histories, as others have the multiplier 1
const hasDigits = (one: Case) => one.cells.every((cell: string) => Math.abs(Number(cell)) < 2 ** 40);
const inSteps = KIT.releases.filter((one) => hasDigits(one) && !one.history?.row && (one.parts.length > 0 || one.release_ids.length === 1) && (one.counts === undefined || /range|crowd/.test(one.name)));

test("an estimate of a release is that of the same release in finer steps", () => {
  const seen = new Map<string, number>();
  for (const { name } of inSteps) {
    const release = read(name);
    for (const [what, estimator] of Object.entries(OF_ONE)) {
      if (check(`${what} of ${name}`, () => estimator(release), [() => estimator(finer(release)), () => estimator(finer(finer(release)))])) seen.set(what, (seen.get(what) ?? 0) + 1);
    }
  }
  for (const what of Object.keys(OF_ONE)) assert.ok((seen.get(what) ?? 0) >= 2, `${what} was hardly defined`);
});

test("an estimate of two releases is that of one of them in finer steps", () => {
  const pairs = [...inSteps.filter(({ name }) => name.endsWith(", x")).map(({ name }) => [name, `${name.slice(0, -1)}y`]), ["a multiple", "another multiple"]];
  const crowds = ["a range of a crowd", "a range of a crowd of another town"];
  const seen = new Set<string>();
  for (const [first, second] of [...pairs, crowds, [crowds[1], crowds[0]]]) {
    const [x, y] = [read(first), read(second)];
    for (const [what, estimator] of Object.entries(OF_TWO)) {
      const others = [() => estimator(finer(x), y), () => estimator(x, finer(y)), () => estimator(finer(x), finer(finer(y)))];
      if (check(`${what} of ${first} and ${second}`, () => estimator(x, y), others)) seen.add(what);
    }
  }
  assert.deepEqual([...seen].sort(), Object.keys(OF_TWO).sort());
});

test("a test of sameness is that of the same releases in finer steps", () => {
  const [x, y] = [read("a part, x"), read("a part, y")];
  for (const tolerance of [0, 300]) {
    const plain = ss.sameness(x, y, tolerance);
    for (const found of [ss.sameness(finer(x), y, tolerance), ss.sameness(finer(x), finer(finer(y)), tolerance)]) {
      assert.ok(Math.abs(found - plain) <= 1e-6 * plain, `${found} for ${plain}`);
    }
  }
});
