/** Guarantees in words, and warnings, as Python's `explain` has them. */
import { equalBytes } from "./bytes.ts";
import { ANY_NUMBER, INDIVIDUAL, scheduleOf } from "./checks.ts";
import { doubleText, integerRoot, Ratio } from "./exact.ts";
import { singleNoise, textOfNoise, textOfSteps } from "./mechanisms.ts";
import { normalBelow, scaledErfc } from "./normal.ts";
import { entriesOf, KINDS, padded, scaleSquared } from "./projection.ts";
import { encode } from "./protobuf.ts";
import type { Release } from "./release.ts";
import { say } from "./say.ts";
import * as sentences from "./sentences.ts";
import type { Signs } from "./signs.ts";
import type { AddedNoise, Guarantee, History, Neighbours, Noise, Projection } from "./types.ts";

const LABELS: Readonly<Record<string, string>> = {
  l1: sentences.LABEL_L1,
  l2: sentences.LABEL_L2,
  "sketch-l2": sentences.LABEL_SKETCH_L2,
  "one-coordinate": sentences.LABEL_ONE_COORDINATE,
};
const WEAK_EPSILON = 20, WEAK_DELTA = 1e-3;
const FALSE_ALARMS = 0.05, TOLERANCE = 1e-6, ROUNDING_VARIANCE = 3;
const BASES: Readonly<Record<string, string>> = {
  enforced: sentences.BASIS_ENFORCED,
  asserted: sentences.BASIS_ASSERTED,
  "": sentences.BASIS_UNKNOWN,
};
const WEAKEST = ["asserted", "", "enforced"];
const CLIPS = { scale: sentences.CLIP_SCALE, equal: sentences.CLIP_EQUAL, average: sentences.CLIP_AVERAGE } as const;
const PLACES = { "": sentences.ON_CELLS, input: sentences.ON_COORDINATES, hadamard: sentences.BETWEEN_STEPS } as const;

/** Sentences under a heading. */
export interface Section {
  readonly heading: string;
  readonly sentences: readonly string[];
}

/** Whether the noise that a release states is enough for its guarantee. */
export interface NoiseCheck {
  readonly verdict: "enough" | "too little" | "not checked";
  readonly reason: string;
}

function thousands(value: number | bigint): string {
  return value.toLocaleString("en-US");
}

function budgetOf(value: number): string {
  return doubleText(value).replace(/\.0$/, "");
}

/** Return the guarantee as one sentence, as Python prints it: of signs that are no differential privacy, that comes first. */
export function guaranteeText(guarantee: Readonly<Guarantee>): string {
  const isIndividual = guarantee.steps === undefined && INDIVIDUAL.includes(guarantee.mechanism);
  const text = statedText(guarantee);
  return isIndividual ? say(sentences.INDIVIDUAL_GUARANTEE, { guarantee: text }) : text;
}

/** Return what a guarantee states, of whatever kind it is. */
function statedText(guarantee: Readonly<Guarantee>): string {
  const { neighbours, conditions, basis } = guarantee;
  const inCells = neighbours.kind === "sketch-l2";
  const many = Math.max(neighbours.maxKeys, 1);
  let keys = many === 1 ? "" : say(sentences.IN_EACH_KEY, { keys: many });
  if (inCells) keys = many === ANY_NUMBER ? "" : many === 1 ? sentences.IN_ONE_KEY : say(sentences.IN_KEYS_TOGETHER, { keys: many });
  const stated = basis === "enforced" && inCells ? sentences.ENFORCED_WHATEVER_ROWS : basis;
  return say(sentences.GUARANTEE, {
    budget: say(sentences.BUDGET, { epsilon: budgetOf(guarantee.epsilon), delta: budgetOf(guarantee.delta) }),
    neighbours: say(sentences.NEIGHBOURS, { unit: neighbours.unit, bound: neighbours.bound, keys: keys === "" ? "" : `${keys} `, relation: LABELS[neighbours.kind] }),
    basis: stated === "" ? "" : `, ${stated}`,
    mechanism: guarantee.mechanism,
    conditions: conditions.length > 0 ? say(sentences.ONLY_IF, { conditions: conditions.join("; ") }) : "",
  });
}

function protectedUnit(guarantee: Readonly<Guarantee>): string {
  const { neighbours, basis } = guarantee;
  const { unit, bound } = neighbours;
  const many = Math.max(neighbours.maxKeys, 1);
  const inCells = neighbours.kind === "sketch-l2";
  let [where, change] = ["", ""];
  if (inCells) {
    if (many !== ANY_NUMBER) where = ` ${many === 1 ? sentences.IN_ONE_KEY : say(sentences.IN_KEYS, { keys: many })}`;
    if (basis === "enforced") where += sentences.WHATEVER_ROWS;
    change = say(sentences.CHANGE_SKETCH_L2, { sketches: many === 1 ? sentences.ONE_SKETCH : sentences.ALL_SKETCHES, bound });
  } else if (neighbours.kind === "l2") {
    change = say(sentences.CHANGE_L2, { bound });
  } else if (neighbours.kind === "l1") {
    change = say(sentences.CHANGE_L1, { bound });
  } else {
    change = say(sentences.CHANGE_ONE_COORDINATE, { bound });
  }
  if (many > 1 && !inCells) change += ` ${say(sentences.IN_EACH_KEY, { keys: many })}`;
  const schedule = scheduleOf(guarantee);
  if (schedule !== null && schedule.maxWindows > 1 && !inCells) change += sentences.IN_THESE_WINDOWS;
  if (many > 1 && !inCells) change += sentences.KEYS_TOGETHER;
  return `${say(sentences.PROTECTED, { unit, where, change })}; ${BASES[basis]}`;
}

/** Return a percentage with three digits or more, rounded up, but to 100 only if it is 100. */
function percent(percents: number): string {
  if (percents >= 100) return "100";
  const exact = Ratio.of(percents);
  const leading = percents > 0 ? Math.floor(Math.log10(percents)) : 0;
  for (let digits = 3; ; digits++) {
    const places = Math.max(digits - 1 - leading, 0);
    const scaled = exact.times(new Ratio(10n ** BigInt(places))).ceil();
    if (scaled < 100n * 10n ** BigInt(places)) {
      const text = scaled.toString().padStart(places + 1, "0");
      const found = places > 0 ? `${text.slice(0, -places)}.${text.slice(-places)}` : text;
      return found.includes(".") ? found.replace(/\.?0+$/, "") : found;
    }
  }
}

/** Return what ε and δ mean: the power of a test for membership (Kairouz, Oh and Viswanath 2015, Theorem 2.1). */
function meaning({ epsilon, delta, neighbours }: Readonly<Guarantee>): string {
  let power = 1 - Math.exp(-epsilon) * Math.max(1 - delta - FALSE_ALARMS, 0);
  if (epsilon < 100) power = Math.min(power, Math.exp(epsilon) * FALSE_ALARMS + delta);
  return say(sentences.MEANING, { unit: neighbours.unit, percent: percent(100 * power) });
}

function windowsText(start: number, stop: number): string {
  return stop === start + 1 ? say(sentences.WINDOW, { window: start }) : say(sentences.WINDOWS, { first: start, last: stop - 1 });
}

/** Return which part of its history a release is, in words. */
export function historyText(history: Readonly<History>): string {
  if (history.row) return say(sentences.ROW, { window: history.start });
  const less = history.minusStop > 0 ? say(sentences.LESS_WINDOWS, { windows: windowsText(history.minusStart, history.minusStop) }) : "";
  return `${windowsText(history.start, history.stop)}${less}`;
}

function mechanismSentences(release: Release): string[] {
  const { guarantee, projection, noise, history, multiplier } = release;
  const counts = { "": projection.sketchDim, input: projection.dim, hadamard: padded(projection.dim) };
  const at = noise.place as keyof typeof PLACES;
  const place = say(history === null ? PLACES[at] : sentences.ON_ROWS, { count: thousands(counts[at]) });
  const steps = guarantee.steps?.map((step) => (step.noise === undefined ? step : { noise: { ...step.noise, place: "" } }));
  const out = [say(sentences.NOISE_ON, { place, mechanism: steps === undefined ? guarantee.mechanism : textOfSteps(steps) })];
  if (release.clip !== null) out.push(say(CLIPS[release.clip as keyof typeof CLIPS], { unit: guarantee.neighbours.unit }));
  if (guarantee.steps?.some((step) => step.noise?.layers === 2)) out.push(sentences.NOISE_FROM_THE_START);
  out.push(...keysSentence(guarantee));
  if (history?.row) {
    out.push(say(sentences.ROW_OF_HISTORY, { part: historyText(history), last: history.start }));
  } else if (history !== null) {
    out.push(say(sentences.RANGE_OF_HISTORY, { part: historyText(history) }));
  }
  if (release.releaseIds.length > 1) out.push(...sumSentences(release));
  if (multiplier.numerator !== 1n || multiplier.denominator !== 1n) out.push(say(sentences.MULTIPLIED, { multiplier }));
  return out;
}

function keysSentence(guarantee: Readonly<Guarantee>): string[] {
  return (guarantee.steps ?? []).flatMap(({ keys }) =>
    keys === undefined ? [] : [say(sentences.CHOSEN_KEYS, { epsilon: general(keys.epsilon), delta: general(keys.delta) })],
  );
}

/** Return a number with up to six digits, as Python's format `g` has it. */
export function general(value: number, digits = 6): string {
  if (value === 0) return "0";
  const power = Number(value.toExponential(digits - 1).split("e")[1]);
  if (power >= -4 && power < digits) return String(Number(value.toPrecision(digits)));
  const [mantissa, exponent] = Number(value.toPrecision(digits)).toExponential().split("e");
  return `${mantissa}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}

const COMPOSITIONS: Readonly<Record<string, string>> = {
  overlapping: sentences.COMPOSED_OVERLAPPING,
  disjoint: sentences.COMPOSED_DISJOINT,
  mixed: sentences.COMPOSED_MIXED,
  none: sentences.COMPOSED_BELOW,
};

/** Return which composition of its parts a sum's guarantee is; null where they are not recorded. */
export function compositionOf({ guarantee, parts }: Release): "overlapping" | "disjoint" | "mixed" | "none" | null {
  if (parts.length === 0) return null;
  const isLeast = (epsilon: number, delta: number) => guarantee.epsilon >= epsilon * (1 - 1e-9) && guarantee.delta >= delta * (1 - 1e-9);
  const largest = [Math.max(...parts.map((part) => part.guarantee.epsilon)), Math.max(...parts.map((part) => part.guarantee.delta))];
  const summed = spentByAll(parts);
  if (isLeast(summed[0], summed[1])) return "overlapping";
  if (!isLeast(largest[0], largest[1])) return "none";
  const isClose = (a: number, b: number) => Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));
  return isClose(guarantee.epsilon, largest[0]) && isClose(guarantee.delta, largest[1]) ? "disjoint" : "mixed";
}

function spentByAll(parts: Release["parts"]): readonly [number, number] {
  return [
    parts.reduce((sum, part) => sum + part.count * part.guarantee.epsilon, 0),
    parts.reduce((sum, part) => sum + part.count * part.guarantee.delta, 0),
  ];
}

/** Return an ε or δ with up to six digits, rounded up. */
function roundedUp(budget: number): string {
  const text = general(budget);
  if (Number(text) >= budget * (1 - 1e-12)) return text;
  const power = Math.floor(Math.log10(budget)) - 5;
  const step = power >= 0 ? new Ratio(10n ** BigInt(power)) : new Ratio(1n, 10n ** BigInt(-power));
  return general(new Ratio(Ratio.of(budget).over(step).ceil()).times(step).toNumber());
}

function sumSentences(release: Release): string[] {
  const count = release.releaseIds.length;
  const composition = compositionOf(release);
  const out = [say(sentences.COMBINED, { releases: count, composed: composition === null ? sentences.COMPOSED_UNKNOWN : COMPOSITIONS[composition] })];
  if (composition === "disjoint" || composition === "mixed") {
    const [epsilon, delta] = spentByAll(release.parts);
    const budget = say(sentences.BUDGET, { epsilon: roundedUp(epsilon), delta: roundedUp(Math.min(delta, 1)) });
    out.push(say(sentences.COST_OF_ALL, { unit: release.guarantee.neighbours.unit, releases: count, budget }));
  }
  return out;
}

function notProtected({ guarantee }: Release): string[] {
  const { unit, bound } = guarantee.neighbours;
  const out = [
    say(sentences.MORE_UNITS, { unit }),
    say(sentences.FACTS_ABOUT_MANY, { alike: "streams" }),
    sentences.ANOTHER_RELEASE,
  ];
  if (guarantee.basis !== "enforced") out.unshift(say(sentences.BEYOND_BOUND, { unit, bound }));
  if (!guarantee.steps?.some((step) => step.keys !== undefined)) out.push(sentences.WHO_TAKES_PART);
  const isPanPrivate = guarantee.steps?.some((step) => step.noise?.layers === 2);
  out.push(isPanPrivate ? sentences.SECOND_INTRUSION : sentences.EXACT_SKETCH);
  return out;
}

/**
 * Return what a release or signs guarantee, to whom, and what they do not, in sentences under short headings.
 *
 * Of releases the headings are Guarantee, Protected, Only if (where there are conditions), Meaning, How, Check and Not
 * protected; of signs Guarantee, Protected, Only if and Meaning. An individual guarantee says so first: it is weaker
 * than differential privacy.
 */
export function guaranteeInWords(release: Release | Signs): Section[] {
  const { guarantee } = release;
  const isIndividual = "method" in release.message;
  const out: Section[] = isIndividual
    ? [{ heading: "Individual", sentences: [`${sentences.INDIVIDUAL_ALONE}: it protects against what is calibrated to this data set alone.`] }]
    : [];
  out.push({ heading: "Guarantee", sentences: [`${statedText(guarantee)}.`] }, { heading: "Protected", sentences: [`${protectedUnit(guarantee)}.`] });
  if (guarantee.conditions.length > 0) out.push({ heading: "Only if", sentences: guarantee.conditions.map((one) => `${one}.`) });
  out.push({ heading: "Meaning", sentences: [`${meaning(guarantee)}.`] });
  if ("cells" in release) {
    const { verdict, reason } = checkNoise(release);
    const label = { enough: sentences.NOISE_IS_ENOUGH, "too little": sentences.WARNING, "not checked": sentences.NOT_CHECKED }[verdict];
    out.push({ heading: "How", sentences: mechanismSentences(release) });
    out.push({ heading: "Check", sentences: [`${label}: ${reason}.`, sentences.NOT_SHOWN] });
    out.push({ heading: "Not protected", sentences: notProtected(release) });
  }
  return out;
}

// --- whether the noise is enough -------------------------------------------------------------------------------

/** Return the cumulants of one draw of a noise, in grid steps. */
export function cumulantsOf(noise: AddedNoise): { k2: number; k4: number } {
  const amount = noise.amount.toNumber();
  const draws = noise.shares === undefined ? Math.max(noise.layers, 1) : noise.shares.parties / noise.shares.honest;
  if (noise.kind === "laplace") {
    const r = Math.exp(-1 / amount);
    const k2 = (2 * r) / Math.expm1(-1 / amount) ** 2;
    return { k2: draws * k2, k4: draws * (k2 + 3 * k2 * k2) };
  }
  if (amount >= 4) return { k2: draws * amount, k4: 0 };
  let [total, second, fourth] = [0, 0, 0];
  for (let n = -40; n <= 40; n++) {
    const weight = Math.exp((-n * n) / (2 * amount));
    total += weight;
    second += n * n * weight;
    fourth += n ** 4 * weight;
  }
  return { k2: (draws * second) / total, k4: draws * (fourth / total - 3 * (second / total) ** 2) };
}

function agrees(stated: Noise, used: { k2: number; k4: number }): boolean {
  const isClose = (a: number, b: number, least: number) => Math.abs(a - b) <= Math.max(TOLERANCE * Math.max(Math.abs(a), Math.abs(b)), least);
  return isClose(stated.k2, used.k2, 0) && isClose(stated.k4, used.k4, TOLERANCE * used.k2 ** 2);
}

/** Return Δ1(A) = Δ2(A)² of maps of signs, where they are known without reading the matrix; null for others. */
function sensitivityOfSigns(projection: Readonly<Projection>): number | null {
  return KINDS[projection.kind].values === "signs" ? entriesOf(projection) : null;
}

/** How far one unit can move what is published: in ℓ1 and in squared ℓ2, in grid steps, and how many numbers at most. */
export interface Moved {
  readonly l1: bigint;
  readonly squared: bigint;
  readonly moved: bigint;
}

/** Return how far one unit can move the sketches and counts of all its keys; a text if that is not known. */
export function sensitivityOf(projection: Readonly<Projection>, neighbours: Readonly<Neighbours>, noise: Pick<AddedNoise, "place" | "counting">): Moved | string {
  const keys = BigInt(Math.max(neighbours.maxKeys, 1));
  let l1: bigint, squared: bigint, moved = BigInt(projection.sketchDim) * keys;
  if (neighbours.kind === "sketch-l2") {
    const unit = scaleSquared(projection).times(projection.resolution).times(projection.resolution);
    squared = neighbours.bound.times(neighbours.bound).over(unit).floor();
    moved = moved < squared ? moved : squared;
    l1 = integerRoot(moved * squared);
  } else if (neighbours.kind === "l2") {
    return "this reader does not bound the spectral norm of a map";
  } else {
    const entries = noise.place === "" ? sensitivityOfSigns(projection) : noise.place === "input" ? 1 : Number(padded(projection.dim));
    if (entries === null) return `the sensitivity of a map of kind ${projection.kind} takes reading its matrix, which this reader does not do`;
    const quotient = neighbours.bound.over(projection.resolution);
    const steps = neighbours.kind === "l1" ? quotient.floor() : quotient.ceil();
    l1 = BigInt(entries) * steps * keys;
    squared = BigInt(entries) * steps * steps * keys;
  }
  if (squared < 1n) return "the bound is below one grid step";
  if (noise.counting !== undefined) {
    const weight = BigInt(noise.counting.units);
    l1 += keys * weight;
    squared += keys * weight * weight;
    moved += keys * (noise.counting.slack > 0 ? 2n : 1n);
  }
  return { l1, squared, moved };
}

/**
 * Compare the noise that a release states with its guarantee, and with what estimates assume.
 *
 * Checked are Laplace and Gaussian noise on maps of signs (SJLT, CountSketch, Rademacher, OPORP, SRHT, identity), and
 * any map under bounds in sketch space; Python checks all maps, and schedules. Cells whose norm is too small for the noise
 * stated contradict it, whatever the map.
 */
export function checkNoise(release: Release): NoiseCheck {
  const check = checkStated(release);
  if (release.noise.place !== "") {
    if (check.verdict !== "enough") return check;
    return { ...check, reason: say(sentences.NOT_COMPARED, { reason: check.reason }) };
  }
  if (check.verdict === "too little") return check;
  const cells = release.cells.toDoubles();
  const norm = cells.reduce((sum, cell) => sum + cell * cell, 0);
  if (norm >= leastNorm(release)) return check;
  return { verdict: "too little", reason: say(sentences.SHORT_CELLS, { norm: general(norm, 4), releases: "1,000,000" }) };
}

interface CellNoise {
  readonly kind: string;
  readonly amount: number;
  readonly variance: number;
  readonly factor: number;
  readonly draws: number;
}

const LEAST_NORMS = new Map<string, number>();

/** Return the squared norm below which cells contradict the noise stated; 0 where no bound is known. */
function leastNorm(release: Release): number {
  const { parts, multiplier, guarantee, noise, releaseIds, projection } = release;
  if (parts.length === 0 && releaseIds.length > 1) return 0;
  const singles = parts.length > 0 ? parts : [{ guarantee, noise, multiplier: multiplier.magnitude(), count: 1 }];
  const noises: CellNoise[] = [];
  for (const part of singles) {
    const added = singleNoise(part.guarantee.steps);
    if (added === null || !agrees(part.noise, cumulantsOf(added)) || (added.kind === "gaussian" && added.amount.toNumber() < 1)) continue;
    const { k2 } = cumulantsOf({ kind: added.kind, amount: added.amount, layers: 0, place: "" });
    const draws = added.shares === undefined ? Math.max(added.layers, 1) : added.shares.parties / added.shares.honest;
    noises.push({ kind: added.kind, amount: added.amount.toNumber(), variance: k2, factor: part.multiplier.over(multiplier.magnitude()).toNumber(), draws: draws * part.count });
  }
  noises.sort((a, b) => b.draws * b.factor ** 2 * b.variance - a.draws * a.factor ** 2 * a.variance);
  const used = noises.slice(0, 8);
  const name = JSON.stringify([used, projection.sketchDim]);
  let found = LEAST_NORMS.get(name);
  if (found === undefined) {
    if (LEAST_NORMS.size > 256) LEAST_NORMS.clear();
    LEAST_NORMS.set(name, (found = leastSquaredNorm(used, projection.sketchDim)));
  }
  return found;
}

/** Return a bound that ‖noise + anything‖² is below once in 10⁶ releases at most: Chernoff's (Python's `norm.py`). */
function leastSquaredNorm(noises: readonly CellNoise[], cells: number): number {
  const variance = noises.reduce((sum, one) => sum + one.draws * one.factor ** 2 * one.variance, 0);
  if (variance === 0) return 0;
  let best = 0;
  for (let i = 0; i < 80; i++) {
    const rate = (1e-4 * 1e6 ** (i / 79)) / variance;
    const spread = Math.sqrt(2 * rate);
    const step = Math.min(0.5, 0.1 / (Math.sqrt(variance) * spread));
    let total = 0;
    const last = Math.ceil(10 / step);
    for (let j = 0; j <= last; j++) {
      const place = step * j;
      let log = (-place * place) / 2;
      for (const one of noises) log += one.draws * logCharacteristic(one, place * one.factor * spread);
      total += Math.exp(log) * (j === 0 ? 1 : 2);
    }
    const expectation = (step * total) / Math.sqrt(2 * Math.PI) + 1e-22;
    best = Math.max(best, (Math.log(1e-6) - cells * Math.log(Math.min(expectation, 1))) / rate);
  }
  return best;
}

function logCharacteristic(noise: CellNoise, angle: number): number {
  if (noise.kind === "laplace") return -Math.log1p(2 * noise.variance * Math.sin(angle / 2) ** 2);
  const turn = 2 * Math.PI;
  const wrapped = angle - turn * Math.round(angle / turn);
  const half = noise.amount / 2;
  let [others, atZero] = [0, 0];
  for (const period of [-2, -1, 1, 2]) {
    others += Math.exp(-half * 2 * turn * period * ((turn / 2) * period + wrapped));
    atZero += Math.exp(-half * (turn * period) ** 2);
  }
  return -half * wrapped * wrapped + Math.log1p(others) - Math.log1p(atZero);
}

function checkStated(release: Release): NoiseCheck {
  const { parts, projection, multiplier, guarantee, noise } = release;
  if (parts.length === 0) {
    if (release.releaseIds.length > 1) return { verdict: "not checked", reason: say(sentences.NO_PARTS, { releases: release.releaseIds.length }) };
    return checkOne(guarantee, projection, noise, release.history);
  }
  const scale = multiplier.magnitude();
  let [k2, k4] = [0, 0];
  for (const part of parts) {
    const factor = part.multiplier.over(scale);
    if (factor.denominator !== 1n) return { verdict: "too little", reason: sentences.NOT_WHOLE };
    k2 += part.count * factor.toNumber() ** 2 * part.noise.k2;
    k4 += part.count * factor.toNumber() ** 4 * part.noise.k4;
  }
  if (!agrees(noise, { k2, k4 })) {
    return { verdict: "too little", reason: say(sentences.OTHER_SUM, { stated: general(noise.k2, 4), used: general(k2, 4) }) };
  }
  const contradiction = contradictionOf(guarantee, parts.map((part) => part.guarantee));
  if (contradiction !== null) return { verdict: "too little", reason: contradiction };
  if (compositionOf(release) === "none") return { verdict: "too little", reason: sentences.LESS_THAN_A_PART };
  const checks = parts.map((part) => checkOne(part.guarantee, projection, { ...part.noise, place: noise.place }, part.history ?? null));
  for (const verdict of ["too little", "not checked"] as const) {
    const found = checks.flatMap((check, i) => (check.verdict === verdict ? [i] : []));
    if (found.length === 0) continue;
    const count = found.reduce((sum, i) => sum + parts[i].count, 0);
    return { verdict, reason: say(sentences.SOME_INSIDE, { count, inside: inside(release), reason: checks[found[0]].reason }) };
  }
  if (checks.length === 1) return { verdict: "enough", reason: say(sentences.EACH_INSIDE, { inside: inside(release), reason: checks[0].reason }) };
  return { verdict: "enough", reason: say(sentences.EACH_IS_ENOUGH, { inside: inside(release) }) };
}

/** Return what a sum states otherwise than the releases inside; null where it is what they state. */
function contradictionOf(sum: Readonly<Guarantee>, inside: readonly Readonly<Guarantee>[]): string | null {
  const neighbours = encode("Neighbours", sum.neighbours);
  if (!inside.every((one) => equalBytes(encode("Neighbours", one.neighbours), neighbours))) return sentences.OTHER_NEIGHBOURS;
  if (!inside.every((one) => one.conditions.every((condition) => sum.conditions.includes(condition)))) {
    return sentences.CONDITION_MISSING;
  }
  if (inside.some((one) => WEAKEST.indexOf(one.basis) < WEAKEST.indexOf(sum.basis))) {
    return sentences.WEAKER_BASIS;
  }
  return null;
}

function inside(release: Release): string {
  const releases = release.releaseIds.length;
  return releases === 1 ? sentences.ONE_INSIDE : say(sentences.RELEASES_INSIDE, { releases });
}

function checkOne(guarantee: Readonly<Guarantee>, projection: Readonly<Projection>, stated: Readonly<Noise>, history: Readonly<History> | null): NoiseCheck {
  if (guarantee.steps === undefined) return { verdict: "not checked", reason: sentences.ONLY_TEXT };
  const noise = singleNoise(guarantee.steps);
  if (noise === null) return { verdict: "not checked", reason: sentences.NO_SINGLE_NOISE };
  if (noise.place !== stated.place) return { verdict: "too little", reason: "its mechanism adds noise at another place than its estimates assume" };
  const used = cumulantsOf(noise);
  if (noise.schedule === undefined && !agrees(stated, used)) {
    const reason = say(sentences.OTHER_NOISE, {
      noise: say(sentences.NOISE_OF_MECHANISM, { noise: textOfNoise(noise) }),
      stated2: general(stated.k2), stated4: general(stated.k4), used2: general(used.k2), used4: general(used.k4),
    });
    return { verdict: "too little", reason };
  }
  if (history !== null) return { verdict: "not checked", reason: "this reader does not compute the sensitivity of a schedule" };
  const sensitivity = sensitivityOf(projection, guarantee.neighbours, noise);
  if (typeof sensitivity === "string") return { verdict: "not checked", reason: sensitivity };
  const keys = guarantee.steps.find((step) => step.keys !== undefined)?.keys;
  const less = keys === undefined ? "" : say(sentences.LESS_FOR_KEYS, { epsilon: general(keys.epsilon) });
  const left = `${say(sentences.STATED_EPSILON, { epsilon: general(guarantee.epsilon) })}${less}`;
  const [epsilon, delta] = [guarantee.epsilon - (keys?.epsilon ?? 0), guarantee.delta - (keys?.delta ?? 0)];
  if (epsilon <= 0 || delta < 0) return { verdict: "too little", reason: say(sentences.NOTHING_LEFT, { stated: left }) };
  let spent: number, reason: string;
  if (noise.kind === "laplace") {
    spent = new Ratio(sensitivity.l1).over(noise.amount).toNumber();
    reason = say(sentences.LAPLACE_LOSS, { scale: parameterText(noise.amount), sensitivity: thousands(sensitivity.l1), epsilon: general(spent, 4) });
  } else {
    const spare = noise.amount.toNumber() - ROUNDING_VARIANCE;
    if (delta === 0) return { verdict: "too little", reason: sentences.GAUSSIAN_WITHOUT_DELTA };
    if (spare <= 0) return { verdict: "not checked", reason: say(sentences.GAUSSIAN_NARROW, { noise: textOfNoise(noise) }) };
    const sigma = Math.sqrt(spare / Number(sensitivity.squared));
    spent = gaussianEpsilon(sigma, delta);
    if (gaussianLogDelta(epsilon, sigma) <= Math.log(delta) + TOLERANCE) spent = Math.min(spent, epsilon);
    reason = say(sentences.GAUSSIAN_LOSS, {
      variance: parameterText(noise.amount), sensitivity: general(Math.sqrt(Number(sensitivity.squared))),
      epsilon: general(spent, 4), delta: general(delta, 4),
    });
  }
  if (spent <= epsilon * (1 + TOLERANCE)) return { verdict: "enough", reason: say(sentences.WITHIN, { reason, stated: left }) };
  return { verdict: "too little", reason: say(sentences.MORE_THAN, { reason, stated: left }) };
}

function parameterText(amount: Ratio): string {
  return amount.denominator === 1n ? `${amount}` : general(amount.toNumber());
}

/** Return the logarithm of the least δ for which N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1. */
export function gaussianLogDelta(epsilon: number, sigma: number): number {
  const [below, above] = [epsilon * sigma - 1 / (2 * sigma), epsilon * sigma + 1 / (2 * sigma)];
  if (below < 0) {
    const second = (Math.exp(epsilon - (above * above) / 2) * scaledErfc(above / Math.SQRT2)) / 2;
    const gap = normalBelow(-below) - second;
    return gap > 0 ? Math.log(gap) : -1e9;
  }
  const gap = scaledErfc(below / Math.SQRT2) - scaledErfc(above / Math.SQRT2);
  return gap > 0 ? Math.log(gap / 2) - (below * below) / 2 : -1e9;
}

/** Return the least ε for which N(0, σ²) is (ε, δ)-DP at ℓ2 sensitivity 1, rounded up (Balle and Wang 2018, Theorem 8). */
function gaussianEpsilon(sigma: number, delta: number): number {
  const excess = (epsilon: number) => gaussianLogDelta(epsilon, sigma) - Math.log(delta);
  if (excess(0) <= 0) return 0;
  let [low, high] = [0, 1];
  while (excess(high) > 0 && high < 1e9) high *= 2;
  for (let i = 0; i < 80; i++) {
    const middle = (low + high) / 2;
    if (excess(middle) > 0) low = middle;
    else high = middle;
  }
  return high * (1 + TOLERANCE);
}

/**
 * Return what to warn a reader of: a guarantee that hardly protects, an asserted bound, noise that is too little for
 * the guarantee or other than estimates assume, conditions, and an individual guarantee.
 */
export function warnings(release: Release | Signs): string[] {
  const { guarantee } = release;
  const out: string[] = [];
  if ("method" in release.message) out.push(sentences.INDIVIDUAL);
  if (guarantee.epsilon > WEAK_EPSILON) out.push(`${say(sentences.LARGE_EPSILON, { epsilon: budgetOf(guarantee.epsilon), weak: WEAK_EPSILON })}.`);
  if (guarantee.delta >= WEAK_DELTA) {
    out.push(`${say(sentences.LARGE_DELTA, { delta: budgetOf(guarantee.delta), units: thousands(Math.round(1 / guarantee.delta)) })}.`);
  }
  if (guarantee.conditions.length > 0) out.push(say(sentences.HOLDS_ONLY_IF, { conditions: guarantee.conditions.join("; ") }));
  if ("cells" in release) {
    const { verdict, reason } = checkNoise(release);
    if (verdict === "too little") out.push(say(sentences.TOO_LITTLE_NOISE, { reason }));
  }
  if (guarantee.basis === "asserted") out.push(say(sentences.NOTHING_CLIPPED, { bound: guarantee.neighbours.bound }));
  return out;
}
