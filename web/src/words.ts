/** Guarantees in words, and warnings, as Python's `explain` has them. */
import { equalBytes } from "./bytes.ts";
import { ANY_NUMBER, scheduleOf } from "./checks.ts";
import { doubleText, integerRoot, Ratio } from "./exact.ts";
import { singleNoise, textOfSteps } from "./mechanisms.ts";
import { normalBelow, scaledErfc } from "./normal.ts";
import { entriesOf, KINDS, padded, scaleSquared } from "./projection.ts";
import { encode } from "./protobuf.ts";
import type { Release } from "./release.ts";
import type { Signs } from "./signs.ts";
import type { AddedNoise, Guarantee, History, Neighbours, Noise, Projection } from "./types.ts";

const LABELS: Readonly<Record<string, string>> = { l1: "L1", l2: "L2", "sketch-l2": "L2 of sketches", "one-coordinate": "one coordinate" };
const FALSE_ALARMS = 0.05, TOLERANCE = 1e-6, ROUNDING_VARIANCE = 3;
const BASES: Readonly<Record<string, string>> = {
  enforced: "each contribution was clipped to that bound",
  asserted: "nothing was clipped to that bound: the releaser asserts that it holds",
  "": "the release does not say whether that bound was enforced or is asserted",
};
const WEAKEST = ["asserted", "", "enforced"];
const CLIPS: Readonly<Record<string, (unit: string) => string>> = {
  scale: (unit) => `The sketch of each ${unit} that was longer than the bound was shortened to it first: estimates are about what was left.`,
  equal: (unit) => `The sketch of each ${unit} was brought to the length of the bound first, so that each counts the same: estimates are about mixes, not amounts.`,
  average: (unit) => `The rows of each ${unit}, or those that the agreement keeps, were averaged first, so that each counts as one row: averages and shares are of ${unit}s, not of rows.`,
};

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

/** Return the guarantee as one sentence, as Python prints it. */
export function guaranteeText(guarantee: Readonly<Guarantee>): string {
  const { neighbours, conditions, basis } = guarantee;
  const inCells = neighbours.kind === "sketch-l2";
  const many = Math.max(neighbours.maxKeys, 1);
  let keys = many === 1 ? "" : `in each of at most ${many} keys `;
  if (inCells) keys = many === ANY_NUMBER ? "" : many === 1 ? "in one key " : `in at most ${many} keys together `;
  const stated = basis === "enforced" && inCells ? "enforced whatever its rows hold" : basis;
  const last = conditions.length > 0 ? `, only if: ${conditions.join("; ")}` : "";
  return `ε = ${budgetOf(guarantee.epsilon)}, δ = ${budgetOf(guarantee.delta)} for one ${neighbours.unit} of at most ${neighbours.bound} ${keys}(${LABELS[neighbours.kind]})${stated === "" ? "" : `, ${stated}`}, by ${guarantee.mechanism}${last}`;
}

function protectedUnit(guarantee: Readonly<Guarantee>): string {
  const { neighbours, basis } = guarantee;
  const { unit, bound } = neighbours;
  const many = Math.max(neighbours.maxKeys, 1);
  const inCells = neighbours.kind === "sketch-l2";
  let change: string;
  if (inCells) {
    const keys = many === ANY_NUMBER ? "" : ` in ${many === 1 ? "one key" : `up to ${many} keys`}`;
    const rows = basis === "enforced" ? ", whatever its rows hold" : "";
    const all = many === 1 ? "sketch" : "sketches of all keys together";
    change = `one ${unit}${keys}${rows}: adding or removing it changes the exact ${all} by an L2 norm of at most ${bound}`;
  } else if (neighbours.kind === "l2") {
    change = `one ${unit}: adding or removing it changes the data by a vector with a Euclidean norm of at most ${bound}`;
  } else if (neighbours.kind === "l1") {
    change = `one ${unit}: adding or removing it changes the data by updates whose absolute values sum to at most ${bound}`;
  } else {
    change = `one ${unit}: it changes one coordinate by at most ${bound}`;
  }
  if (many > 1 && !inCells) change += ` in each of at most ${many} keys`;
  const schedule = scheduleOf(guarantee);
  if (schedule !== null && schedule.maxWindows > 1 && !inCells) change += ", in each of these windows";
  if (many > 1 && !inCells) change += "; the guarantee covers the releases of all keys together";
  return `${change}; ${BASES[basis]}`;
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
  return `no test with a false alarm rate of 5 % detects that a given ${neighbours.unit} is in the data in more than ${percent(100 * power)} % of cases`;
}

function windowsText(start: number, stop: number): string {
  return stop === start + 1 ? `window ${start}` : `windows ${start} to ${stop - 1}`;
}

/** Return which part of its history a release is, in words. */
export function historyText(history: Readonly<History>): string {
  if (history.row) return `row ${history.start}`;
  const less = history.minusStop > 0 ? ` less ${windowsText(history.minusStart, history.minusStop)}` : "";
  return `${windowsText(history.start, history.stop)}${less}`;
}

function mechanismSentences(release: Release): string[] {
  const { guarantee, projection, noise, history, multiplier } = release;
  const cells = `each of the ${thousands(projection.sketchDim)} cells`;
  const places: Record<string, string> = {
    "": `${cells} of ${history === null ? "the sketch" : "every row"}`,
    input: `each of the ${thousands(projection.dim)} coordinates, before the map`,
    hadamard: `the ${thousands(padded(projection.dim))} coordinates after the Hadamard step, before the sparse matrix`,
  };
  const steps = guarantee.steps?.map((step) => (step.noise === undefined ? step : { noise: { ...step.noise, place: "" } }));
  const out = [`Exact discrete noise on ${places[noise.place]}: ${steps === undefined ? guarantee.mechanism : textOfSteps(steps)}.`];
  if (release.clip !== null) out.push(CLIPS[release.clip](guarantee.neighbours.unit));
  if (guarantee.steps?.some((step) => step.noise?.layers === 2)) out.push("Noise was added before the first update, and fresh noise on release.");
  out.push(...keysSentence(guarantee));
  if (history?.row) {
    out.push(`This is ${historyText(history)} of a history: a weighted sum of windows up to ${history.start}, with its own noise. One guarantee holds for all rows of the history together. Estimates are for ranges of windows, and are computed from all rows.`);
  } else if (history !== null) {
    out.push(`This is ${historyText(history)} of a history, computed from its rows: post-processing, so one guarantee holds for all rows and ranges of the history together.`);
  }
  if (release.releaseIds.length > 1) out.push(...sumSentences(release));
  if (multiplier.numerator !== 1n || multiplier.denominator !== 1n) out.push(`The cells count ${multiplier} times: post-processing, with an unchanged guarantee.`);
  return out;
}

function keysSentence(guarantee: Readonly<Guarantee>): string[] {
  return (guarantee.steps ?? []).flatMap(({ keys }) =>
    keys === undefined ? [] : [`The published keys were chosen privately, with ε = ${general(keys.epsilon)}, δ = ${general(keys.delta)} of it.`],
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
  overlapping: "the stated ε and δ are the sums of theirs, which holds for overlapping populations",
  disjoint: "the stated ε and δ are the largest of theirs, which holds for disjoint populations only",
  mixed: "the stated ε and δ are between the largest and the sums of theirs, which holds if some populations are disjoint",
  none: "the stated ε and δ are less than those of one of them, which is not a composition",
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
  const composed = composition === null
    ? "their guarantees, and the populations for which they were composed, are not recorded"
    : COMPOSITIONS[composition];
  const out = [`${count} releases were added or subtracted; ${composed}.`];
  if (composition === "disjoint" || composition === "mixed") {
    const [epsilon, delta] = spentByAll(release.parts);
    out.push(`A person with one ${release.guarantee.neighbours.unit} in each of the ${count} spends up to ε = ${roundedUp(epsilon)}, δ = ${roundedUp(Math.min(delta, 1))} in all.`);
  }
  return out;
}

function notProtected({ guarantee }: Release): string[] {
  const { unit, bound } = guarantee.neighbours;
  const out = [
    `A person with more than one ${unit}: n of them spend n times ε.`,
    "Facts about many: the release is meant to show that two streams are similar.",
    "Another release of the same data, here or elsewhere: it adds to ε.",
  ];
  if (guarantee.basis !== "enforced") out.unshift(`What one ${unit} adds beyond the bound of ${bound}, where that was not clipped.`);
  if (!guarantee.steps?.some((step) => step.keys !== undefined)) out.push("Who takes part, and under which key: the existence of the release shows it.");
  const isPanPrivate = guarantee.steps?.some((step) => step.noise?.layers === 2);
  out.push(isPanPrivate ? "A second intrusion: one intrusion and the release are covered." : "The exact sketch, and any process or pipeline that held it or the secret of the noise.");
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
    ? [{ heading: "Individual", sentences: ["Individual differential privacy, which is not differential privacy: it protects against what is calibrated to this data set alone."] }]
    : [];
  out.push({ heading: "Guarantee", sentences: [`${guaranteeText(guarantee)}.`] }, { heading: "Protected", sentences: [`${protectedUnit(guarantee)}.`] });
  if (guarantee.conditions.length > 0) out.push({ heading: "Only if", sentences: guarantee.conditions.map((one) => `${one}.`) });
  out.push({ heading: "Meaning", sentences: [`${meaning(guarantee)}.`] });
  if ("cells" in release) {
    const { verdict, reason } = checkNoise(release);
    const label = { enough: "The noise is enough", "too little": "WARNING", "not checked": "Not checked" }[verdict];
    out.push({ heading: "How", sentences: mechanismSentences(release) });
    out.push({ heading: "Check", sentences: [`${label}: ${reason}.`, "No file can prove that the noise was drawn this way or that the bound was enforced: you trust the releaser for that."] });
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
    return { ...check, reason: `${check.reason}; its cells were not compared with that noise, which was added before the map` };
  }
  if (check.verdict === "too little") return check;
  const cells = release.cells.toDoubles();
  const norm = cells.reduce((sum, cell) => sum + cell * cell, 0);
  if (norm >= leastNorm(release)) return check;
  return {
    verdict: "too little",
    reason: `the squared norm of its cells is ${general(norm, 4)} grid steps², and with the noise stated at most one release in 1,000,000 has so small a squared norm, whatever its data`,
  };
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
    if (release.releaseIds.length > 1) return { verdict: "not checked", reason: `${release.releaseIds.length} releases went into it, and it does not contain what each of them stated` };
    return checkOne(guarantee, projection, noise, release.history);
  }
  const scale = multiplier.magnitude();
  let [k2, k4] = [0, 0];
  for (const part of parts) {
    const factor = part.multiplier.over(scale);
    if (factor.denominator !== 1n) return { verdict: "too little", reason: "a release inside has a multiplier that is not a whole multiple of the sum's" };
    k2 += part.count * factor.toNumber() ** 2 * part.noise.k2;
    k4 += part.count * factor.toNumber() ** 4 * part.noise.k4;
  }
  if (!agrees(noise, { k2, k4 })) {
    return { verdict: "too little", reason: `the estimates assume a noise of variance ${general(noise.k2, 4)}, and those of the releases inside add up to ${general(k2, 4)}` };
  }
  const contradiction = contradictionOf(guarantee, parts.map((part) => part.guarantee));
  if (contradiction !== null) return { verdict: "too little", reason: contradiction };
  if (compositionOf(release) === "none") return { verdict: "too little", reason: "it states less ε or δ than a release inside" };
  const checks = parts.map((part) => checkOne(part.guarantee, projection, { ...part.noise, place: noise.place }, part.history ?? null));
  for (const verdict of ["too little", "not checked"] as const) {
    const found = checks.flatMap((check, i) => (check.verdict === verdict ? [i] : []));
    if (found.length === 0) continue;
    const count = found.reduce((sum, i) => sum + parts[i].count, 0);
    return { verdict, reason: `${count} of the ${inside(release)}: ${checks[found[0]].reason}` };
  }
  if (checks.length === 1) return { verdict: "enough", reason: `each of the ${inside(release)}: ${checks[0].reason}` };
  return { verdict: "enough", reason: `each of the ${inside(release)} states enough for its own guarantee` };
}

/** Return what a sum states otherwise than the releases inside; null where it is what they state. */
function contradictionOf(sum: Readonly<Guarantee>, inside: readonly Readonly<Guarantee>[]): string | null {
  const neighbours = encode("Neighbours", sum.neighbours);
  if (!inside.every((one) => equalBytes(encode("Neighbours", one.neighbours), neighbours))) return "a release inside is for other neighbours than the sum";
  if (!inside.every((one) => one.conditions.every((condition) => sum.conditions.includes(condition)))) {
    return "a release inside holds under a condition that the sum does not state";
  }
  if (inside.some((one) => WEAKEST.indexOf(one.basis) < WEAKEST.indexOf(sum.basis))) {
    return "the bound of a release inside rests on less than the sum states: asserted is less than enforced";
  }
  return null;
}

function inside(release: Release): string {
  const count = release.releaseIds.length;
  return count === 1 ? "1 release inside" : `${count} releases inside`;
}

function checkOne(guarantee: Readonly<Guarantee>, projection: Readonly<Projection>, stated: Readonly<Noise>, history: Readonly<History> | null): NoiseCheck {
  if (guarantee.steps === undefined) return { verdict: "not checked", reason: "its mechanism is stated only as text" };
  const noise = singleNoise(guarantee.steps);
  if (noise === null) return { verdict: "not checked", reason: "its mechanism is not a single noise, so one sensitivity does not apply" };
  if (noise.place !== stated.place) return { verdict: "too little", reason: "its mechanism adds noise at another place than its estimates assume" };
  const used = cumulantsOf(noise);
  if (noise.schedule === undefined && !agrees(stated, used)) {
    return {
      verdict: "too little",
      reason: `the estimates assume another noise than the ${textOfSteps([{ noise: { kind: noise.kind, amount: noise.amount, layers: 0, place: "" } }])} of its mechanism: the stated cumulants are ${general(stated.k2)} and ${general(stated.k4)}, those of that noise ${general(used.k2)} and ${general(used.k4)}`,
    };
  }
  if (history !== null) return { verdict: "not checked", reason: "this reader does not compute the sensitivity of a schedule" };
  const sensitivity = sensitivityOf(projection, guarantee.neighbours, noise);
  if (typeof sensitivity === "string") return { verdict: "not checked", reason: sensitivity };
  const keys = guarantee.steps.find((step) => step.keys !== undefined)?.keys;
  const left = `the stated ε = ${general(guarantee.epsilon)}${keys === undefined ? "" : `, less ${general(keys.epsilon)} for the keys`}`;
  const [epsilon, delta] = [guarantee.epsilon - (keys?.epsilon ?? 0), guarantee.delta - (keys?.delta ?? 0)];
  if (epsilon <= 0 || delta < 0) return { verdict: "too little", reason: `nothing is left for noise of ${left}` };
  let spent: number, reason: string;
  if (noise.kind === "laplace") {
    spent = new Ratio(sensitivity.l1).over(noise.amount).toNumber();
    reason = `scale ${parameterText(noise.amount)} at ℓ1 sensitivity ${thousands(sensitivity.l1)} gives ε = ${general(spent, 4)}`;
  } else {
    const spare = noise.amount.toNumber() - ROUNDING_VARIANCE;
    if (delta === 0) return { verdict: "too little", reason: "Gaussian noise gives no ε at δ = 0" };
    if (spare <= 0) return { verdict: "not checked", reason: `discrete Gaussian, variance ${noise.amount} is narrower than any that the theorem here covers` };
    const sigma = Math.sqrt(spare / Number(sensitivity.squared));
    spent = gaussianEpsilon(sigma, delta);
    if (gaussianLogDelta(epsilon, sigma) <= Math.log(delta) + TOLERANCE) spent = Math.min(spent, epsilon);
    reason = `variance ${parameterText(noise.amount)} at ℓ2 sensitivity ${general(Math.sqrt(Number(sensitivity.squared)))} gives ε = ${general(spent, 4)} at δ = ${general(delta, 4)}`;
  }
  if (spent <= epsilon * (1 + TOLERANCE)) return { verdict: "enough", reason: `${reason}, within ${left}` };
  return { verdict: "too little", reason: `${reason}, more than ${left}` };
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
  if ("method" in release.message) out.push("Its guarantee is individual differential privacy, which is not differential privacy.");
  if (guarantee.epsilon > 20) {
    out.push(`ε = ${budgetOf(guarantee.epsilon)} hardly protects anybody: an attacker's odds that a unit is in the data may change by a factor of e^ε, and e^20 is 485 million. 0.1 to 10 is usual.`);
  }
  if (guarantee.delta >= 1e-3) {
    out.push(`δ = ${budgetOf(guarantee.delta)} permits a release that reveals one unit in ${thousands(Math.round(1 / guarantee.delta))} outright. Choose a δ far below 1 / number of units, such as 1e-9.`);
  }
  if (guarantee.conditions.length > 0) out.push(`It holds only if: ${guarantee.conditions.join("; ")}.`);
  if ("cells" in release) {
    const { verdict, reason } = checkNoise(release);
    if (verdict === "too little") {
      out.push(`It states too little noise for its guarantee, so neither its guarantee nor the error bars of estimates from it can be relied on: ${reason}.`);
    }
  }
  if (guarantee.basis === "asserted") out.push(`Nothing was clipped to the bound of ${guarantee.neighbours.bound}: the releaser asserts that it holds.`);
  return out;
}
