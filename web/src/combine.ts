/** Sums, differences and multiples of releases: WIRE.md, "Sums and multiples". */
import { compareBytes, compareText, equalBytes, type Bytes } from "./bytes.ts";
import { demand, DependentNoiseError, IncompatibleError } from "./errors.ts";
import { commonStep, Ratio } from "./exact.ts";
import { Integers } from "./integers.ts";
import { textOfSteps } from "./mechanisms.ts";
import { encode } from "./protobuf.ts";
import { Release } from "./release.ts";
import { say } from "./say.ts";
import * as sentences from "./sentences.ts";
import type { Guarantee, NoisePart, Step } from "./types.ts";

/** `disjoint`: no unit is in both streams, so ε and δ are the larger ones. `overlapping`: they add up. */
export type Populations = "disjoint" | "overlapping";

const VIEW = new DataView(new ArrayBuffer(8));

/** Return a release times a ratio other than 0: post-processing, with an unchanged guarantee. */
export function scaled(x: Release, factor: Ratio | bigint): Release {
  const by = factor instanceof Ratio ? factor : new Ratio(factor);
  demand(by.numerator !== 0n, "a release times 0 is nothing");
  demand(!x.history?.row, "a row of a schedule is not multiplied");
  const parts = x.message.parts.map((part) => ({ ...part, multiplier: part.multiplier.times(by.magnitude()) }));
  const message = { ...x.message, multiplier: x.multiplier.times(by), parts: ordered(parts) };
  if (by.numerator !== by.denominator) delete message.counts;
  return new Release(message);
}

/** Return the release of both streams together. */
export function combine(x: Release, y: Release, populations: Populations): Release {
  return together(x, y, 1n, populations);
}

/** Return the release of the first stream less the second. */
export function subtract(x: Release, y: Release, populations: Populations): Release {
  return together(x, y, -1n, populations);
}

function together(x: Release, y: Release, sign: bigint, populations: Populations): Release {
  demand(populations === "disjoint" || populations === "overlapping", "populations are disjoint or overlapping");
  demand(!x.history?.row && !y.history?.row, "rows of a schedule are not added");
  const isAlike = equalBytes(encode("Projection", x.projection), encode("Projection", y.projection)) && x.noise.place === y.noise.place;
  if (!isAlike) throw new IncompatibleError("releases of different projections, or with noise at different places, are not added");
  if (x.agreement !== y.agreement) throw new IncompatibleError("releases of different agreements are not added");
  const isSame = equalBytes(encode("Neighbours", x.guarantee.neighbours), encode("Neighbours", y.guarantee.neighbours));
  if (!isSame) throw new IncompatibleError("releases for different neighbours are not added");
  if (x.releaseIds.some((id) => y.releaseIds.includes(id))) throw new DependentNoiseError("the two share a release, and so noise");
  demand(populations !== "disjoint" || !x.dataIds.some((id) => y.dataIds.includes(id)), "the two contain the same data, so their populations are not disjoint");
  const [m, n] = [x.multiplier, new Ratio(sign * y.multiplier.numerator, y.multiplier.denominator)];
  const step = commonStep(m, n);
  const [a, b] = [m.over(step).numerator, n.over(step).numerator];
  const cells = sums(x.cells, y.cells, a, b);
  const [p, q] = [Number(a), Number(b)];
  const isStated = [x, y].every((one) => one.parts.length > 0 || one.releaseIds.length === 1);
  const counts = x.counts !== null && y.counts !== null && sign > 0n && populations === "disjoint" && hasSameWeights(x, y) ? sums(x.counts, y.counts, a, b) : null;
  const clip = populations === "disjoint" && x.clip === y.clip ? x.clip : null;
  const { counts: _, clip: __, history: ___, ...rest } = x.message;
  return new Release({
    ...rest,
    values: cells.toMessage(),
    noise: { place: x.noise.place, k2: p ** 2 * x.noise.k2 + q ** 2 * y.noise.k2, k4: p ** 4 * x.noise.k4 + q ** 4 * y.noise.k4 },
    guarantee: guaranteeOf(x.guarantee, y.guarantee, populations),
    multiplier: step,
    releaseIds: union(x.message.releaseIds, y.message.releaseIds),
    dataIds: union(x.message.dataIds, y.message.dataIds),
    parts: isStated ? ordered([...partsOf(x), ...partsOf(y)]) : [],
    ...(counts === null ? {} : { counts: counts.toMessage() }),
    ...(clip === null ? {} : { clip }),
  });
}

function sums(x: Integers, y: Integers, a: bigint, b: bigint): Integers {
  const found = x.toArray().map((value, i) => a * value + b * y.at(i));
  demand(found.every((value) => BigInt.asIntN(64, value) === value), "a cell of the sum exceeds 63 bits");
  return Integers.of(found);
}

function hasSameWeights(x: Release, y: Release): boolean {
  return x.counting !== null && x.counting.units === y.counting?.units && x.counting.slack === y.counting?.slack;
}

function union(x: readonly Bytes[], y: readonly Bytes[]): Bytes[] {
  return [...x, ...y].sort(compareBytes).filter((one, i, all) => i === 0 || compareBytes(all[i - 1], one) !== 0);
}

function partsOf(x: Release): NoisePart[] {
  if (x.parts.length > 0) return [...x.parts];
  const { history } = x.message;
  return [{ noise: { ...x.noise, place: "" }, guarantee: x.guarantee, multiplier: x.multiplier.magnitude(), count: 1, ...(history === undefined ? {} : { history }) }];
}

/** Return parts with alike ones counted together, ascending by their bytes. */
function ordered(parts: readonly NoisePart[]): NoisePart[] {
  const found = new Map<string, NoisePart>();
  for (const part of parts) {
    const name = encode("NoisePart", { ...part, count: 0 }).join();
    found.set(name, { ...part, count: part.count + (found.get(name)?.count ?? 0) });
  }
  return [...found.values()].sort((a, b) => compareBytes(encode("NoisePart", a), encode("NoisePart", b)));
}

function guaranteeOf(x: Guarantee, y: Guarantee, populations: Populations): Guarantee {
  const combined = populations === "disjoint" ? Math.max : sumRoundedUp;
  const delta = combined(x.delta, y.delta);
  demand(delta < 1, say(sentences.DELTA_ABOVE_1, { delta }));
  const { steps: _, ...rest } = x;
  return {
    ...rest,
    epsilon: combined(x.epsilon, y.epsilon),
    delta,
    ...mechanismOf(x, y),
    conditions: conditionsOf(x, y, populations),
    basis: ["asserted", "", "enforced"].find((one) => one === x.basis || one === y.basis) as string,
  };
}

/** Return the conditions of both; that populations are disjoint is one more, as nobody checks it. */
function conditionsOf(x: Guarantee, y: Guarantee, populations: Populations): string[] {
  const named = (unit: string) => `no ${unit} ${sentences.APART_IN_STREAMS}`;
  const text = named(x.neighbours.unit);
  const asserted = populations === "disjoint" ? [Array.from(text).length <= 200 ? text : named("privacy unit")] : [];
  return [...new Set([...x.conditions, ...y.conditions, ...asserted])].sort(compareText);
}

/** Return the least double whose decimal is not below the sum of two budgets, as decimals. */
function sumRoundedUp(x: number, y: number): number {
  const exact = Ratio.written(x).add(Ratio.written(y));
  let sum = x + y; // within two steps of it
  while (Ratio.written(sum).compare(exact) >= 0 && sum > 0) sum = stepped(sum, -1n);
  while (Ratio.written(sum).compare(exact) < 0) sum = stepped(sum, 1n);
  return sum;
}

/** Return a double some steps further, both of them above 0, or 0. */
function stepped(value: number, steps: bigint): number {
  VIEW.setFloat64(0, value);
  VIEW.setBigUint64(0, VIEW.getBigUint64(0) + steps);
  return VIEW.getFloat64(0);
}

function mechanismOf(x: Guarantee, y: Guarantee): { mechanism: string; steps?: Step[] } {
  const given = [x, y].map((one) => one.steps ?? [{ text: one.mechanism }]);
  const isAlike = equalBytes(encode("Guarantee", { ...x, steps: given[0] }).slice(), encode("Guarantee", { ...x, steps: given[1] }));
  const steps: Step[] = [];
  for (const step of isAlike ? given[0] : given.flat()) {
    const last = steps[steps.length - 1];
    if (step.text !== undefined && last?.text !== undefined) steps[steps.length - 1] = { text: `${last.text}; ${step.text}` };
    else steps.push(step);
  }
  const mechanism = textOfSteps(steps);
  if (Array.from(mechanism).length > 200 || steps.length > 16) return { mechanism: sentences.SEVERAL_MECHANISMS };
  return steps.every((step) => step.text !== undefined) ? { mechanism } : { mechanism, steps };
}

