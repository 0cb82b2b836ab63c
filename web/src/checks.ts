/** What the fields of releases and signs may say. */
import { compareBytes, compareText } from "./bytes.ts";
import { need } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { Integers } from "./integers.ts";
import { checkBudget, checkLaw, checkSteps, has, singleNoise, textOfSteps } from "./mechanisms.ts";
import { isPrintable } from "./printable.ts";
import { KINDS, OWN_FIELDS, RANGES } from "./projection.ts";
import { ascends, encode } from "./protobuf.ts";
import type {
  Guarantee, History, IndividualSignSketchMessage, Noise, PrivateSketchMessage, Projection, Schedule, SignSketchMessage,
} from "./types.ts";

const ID = 8, FINGERPRINT = 16;
const LARGE = 1n << 63n;
export const ANY_NUMBER = 2 ** 32 - 1;
const RELATIONS = ["l1", "l2", "sketch-l2", "one-coordinate"];

export function checkProjection(projection: Projection): void {
  need(has(KINDS, projection.kind), "an unknown kind of projection");
  const { fields, fits, mostIndependence = 256 } = KINDS[projection.kind];
  const own = OWN_FIELDS.map(([name]) => name).filter((name) => has(projection, name));
  need(own.length === fields.length && own.every((name) => fields.includes(name)), "fields that the kind does not have, or fewer");
  const { dim, sketchDim: k, resolution, independence = 4 } = projection;
  need(dim >= 1n && dim <= 1n << 60n, "dim out of range");
  need(Number.isInteger(k) && k >= 1 && k <= 2 ** 24, "sketch_dim out of range");
  need(projection.seed >= 0n && projection.seed < 1n << 64n, "seed out of range");
  need(resolution.numerator > 0n && resolution.numerator < LARGE && resolution.denominator < LARGE, "resolution out of range");
  for (const name of own) need(RANGES[name](projection[name as keyof Projection] as never), `${name} out of range`);
  need(independence <= mostIndependence, "independence out of range");
  need(fits === undefined ? k <= 2 ** 16 : fits(projection), "beyond the limits of the kind");
}

function checkNoise(noise: Noise): void {
  const { k2, k4 } = noise;
  need(k2 >= 0 && k2 <= 2 ** 130 && !Object.is(k2, -0), "k2 out of range");
  need(k4 >= -2 * k2 * k2 && k4 <= 2 ** 260 && !Object.is(k4, -0), "k4 out of range");
}

export function checkGuarantee(guarantee: Guarantee): void {
  checkBudget(guarantee);
  const { neighbours, conditions, steps } = guarantee;
  need(RELATIONS.includes(neighbours.kind), "an unknown neighbour relation");
  need(neighbours.bound.numerator > 0n && neighbours.bound.numerator < LARGE && neighbours.bound.denominator < LARGE, "a bound out of range");
  need(neighbours.maxKeys !== 1, "max_keys of 1 is left out");
  need(conditions.length <= 64, "more than 64 conditions");
  const texts = [neighbours.unit, guarantee.mechanism, ...conditions];
  need(texts.every(isPrintable), "a text of no or more than 200 characters, or with some that are not printable");
  need(conditions.every((one, i) => i === 0 || compareText(conditions[i - 1], one) < 0), "conditions out of order or repeated");
  need(["", "enforced", "asserted"].includes(guarantee.basis), "an unknown basis of the bound");
  if (steps === undefined) return;
  checkSteps(steps);
  for (const { noise } of steps) {
    if (noise?.counting === undefined) continue;
    const inCells = neighbours.kind === "sketch-l2" && neighbours.maxKeys < ANY_NUMBER;
    need(neighbours.kind === "l1" || inCells, "counts under neighbours that do not bound them");
    need(!(inCells && noise.counting.slack > 0), "slack without a bound on totals");
  }
  need(guarantee.mechanism === textOfSteps(steps), "another text than that of the steps");
}

function checkMultiplier(ratio: Ratio): void {
  need(ratio.numerator !== 0n && ratio.numerator < LARGE && -ratio.numerator < LARGE && ratio.denominator < LARGE, "multiplier out of range");
}

function checkIds(ids: readonly Uint8Array[], atLeast: number): void {
  need(ids.length >= atLeast && ids.every((one) => one.length === ID), "ids of other than 8 bytes, or none");
  need(ascends(ids), "ids repeated or out of order");
}

function checkAgreement(agreement: Uint8Array | undefined): void {
  need(agreement === undefined || agreement.length === FINGERPRINT, "a fingerprint of other than 16 bytes");
}

/** Refuse a PrivateSketch that is not valid; return its cells, and its counts if it has any. */
export function checkSketch(message: PrivateSketchMessage): { cells: Integers; counts: Integers | null } {
  checkProjection(message.projection);
  const { width, cells: data } = message.values;
  need([1, 2, 4, 8].includes(width), "a width other than 1, 2, 4, 8");
  need(data.length === width * message.projection.sketchDim, "another number of cells than sketch_dim");
  const cells = new Integers(message.values);
  need(width === cells.leastWidth(), "cells at more than their least width");
  checkNoise(message.noise);
  const place = message.noise.place;
  need(place === "" || place === "input" || (place === "hadamard" && KINDS[message.projection.kind].hasPlaceBehind === true), "noise at an unknown place");
  checkGuarantee(message.guarantee);
  checkMultiplier(message.multiplier);
  checkIds(message.releaseIds, 1);
  checkIds(message.dataIds, 0);
  checkAgreement(message.agreement);
  checkParts(message);
  need(message.clip === undefined || message.clip === "scale" || message.clip === "equal" || message.clip === "average", "an unknown way to clip");
  need(message.clip === undefined || message.guarantee.neighbours.kind === "sketch-l2", "sketches clipped to a bound on something else");
  checkHistory(message);
  return { cells, counts: message.counts === undefined ? null : checkCounts(message) };
}

function checkParts(message: PrivateSketchMessage): void {
  const { parts } = message;
  if (parts.length === 0) return;
  let count = 0;
  for (const part of parts) {
    checkNoise(part.noise);
    need(part.noise.place === "", "a part with a place of its own");
    checkGuarantee(part.guarantee);
    checkMultiplier(part.multiplier);
    need(part.multiplier.numerator > 0n && part.count > 0, "a part with a multiplier or a count of 0 or less");
    count += part.count;
  }
  need(count === message.releaseIds.length, "another number of parts than releases");
  const whole = parts.map((part) => encode("NoisePart", part));
  need(whole.every((one, i) => i === 0 || compareBytes(whole[i - 1], one) <= 0), "parts out of order");
  const alike = new Set(parts.map((part) => encode("NoisePart", { ...part, count: 0 }).join()));
  need(alike.size === parts.length, "equal parts apart");
}

/** Return the schedule that a single release's guarantee states, or null. */
export function scheduleOf(guarantee: Guarantee): Schedule | null {
  return singleNoise(guarantee.steps)?.schedule ?? null;
}

function checkHistory(message: PrivateSketchMessage): void {
  const singles = message.parts.length > 0 ? message.parts : [message];
  for (const part of singles) {
    const schedule = scheduleOf(part.guarantee);
    need((part.history !== undefined) === (schedule !== null), "a schedule without a history, or the reverse");
    if (part.history === undefined || schedule === null) continue;
    checkWindows(part.history, schedule.horizon);
    const { start, stop, row, minusStart, minusStop } = part.history;
    const isRow = minusStart === 0 && minusStop === 0 && stop === start + 1;
    const isOne = message.multiplier.numerator === 1n && message.multiplier.denominator === 1n;
    need(!row || (isRow && message.parts.length === 0 && isOne), "a row that is none");
  }
  if (message.history === undefined) return;
  need(message.parts.length === 0, "the history of a sum");
  need(message.releaseIds.length === 1 && message.noise.place === "", "a history of more than one release, or of noise before the map");
}

function checkWindows(windows: History, horizon: number): void {
  need(windows.id.length === ID, "the id of a history of other than 8 bytes");
  need(windows.start < windows.stop && windows.stop <= horizon, "windows out of range");
  if (windows.minusStart === 0 && windows.minusStop === 0) return;
  need(windows.minusStart < windows.minusStop && windows.minusStop <= horizon, "windows out of range");
  need(windows.minusStart !== windows.start || windows.minusStop !== windows.stop, "windows subtracted from themselves");
}

/** Return the weights of counts that all releases inside state alike, or null. */
export function weightsOf(message: PrivateSketchMessage): { units: number; slack: number } | null {
  const guarantees = message.parts.length > 0 ? message.parts.map((part) => part.guarantee) : [message.guarantee];
  const stated = guarantees.map((guarantee) => singleNoise(guarantee.steps)?.counting ?? null);
  const [first] = stated;
  return first !== null && stated.every((one) => one !== null && one.units === first.units && one.slack === first.slack) ? first : null;
}

function checkCounts(message: PrivateSketchMessage): Integers {
  const counts = message.counts as { width: number; cells: Uint8Array<ArrayBuffer> };
  need([1, 2, 4, 8].includes(counts.width), "counts of a width other than 1, 2, 4, 8");
  const { numerator, denominator } = message.multiplier;
  const halved = numerator === 1n && (denominator & (denominator - 1n)) === 0n;
  const ranges = message.history !== undefined || message.parts.some((part) => part.history !== undefined);
  need((numerator === 1n && denominator === 1n) || (halved && ranges), "counts of a multiple");
  need(message.noise.place === "", "counts beside other noise");
  need(!message.history?.minusStop, "counts of a difference");
  const weights = weightsOf(message);
  need(weights !== null, "counts whose weights are not stated, or not alike");
  need(counts.cells.length === counts.width * (weights.slack ? 2 : 1), "another number of counts than weights");
  const found = new Integers(counts);
  need(counts.width === found.leastWidth(), "counts at more than their least width");
  return found;
}

export const INDIVIDUAL = ["iDP-SignRP-G", "iDP-SignRP-RR", "iDP-SignOPORP", "iDP-SignOPORP-G"];

/** Refuse published signs of either kind that are not valid. */
export function checkSigns(message: SignSketchMessage | IndividualSignSketchMessage): void {
  checkProjection(message.projection);
  const { projection, guarantee, signs } = message;
  const k = projection.sketchDim;
  need(signs.length === Math.ceil(k / 8), "another number of signs than sketch_dim");
  need(k % 8 === 0 || signs[signs.length - 1] >> (k % 8) === 0, "bits after the last sign");
  checkGuarantee(guarantee);
  need(message.releaseId.length === ID, "a release id of other than 8 bytes");
  checkAgreement(message.agreement);
  if ("law" in message) {
    checkLaw(message.law);
    const bounded = guarantee.steps?.some((step) => step.flips?.normBound !== undefined) ?? false;
    need(!bounded || guarantee.conditions.length > 0, "conditions are missing");
    checkIds(message.dataIds, 0);
    return;
  }
  const { method } = message;
  need(INDIVIDUAL.includes(method), "an unknown method");
  need(guarantee.mechanism === method, "another mechanism than the method");
  need(guarantee.steps === undefined, "the method is the record");
  need(guarantee.conditions.length === 0 && guarantee.neighbours.maxKeys === 0, "conditions or max_keys of an individual guarantee");
  need(guarantee.delta > 0 === method.endsWith("-G"), "a delta that the method does not have");
  need(guarantee.neighbours.kind !== "sketch-l2", "neighbours that the method does not have");
  const ofBins = method.startsWith("iDP-SignOPORP");
  need(!ofBins || (projection.kind === "oporp" && guarantee.neighbours.kind === "one-coordinate"), "a method for oporp and one coordinate");
}
