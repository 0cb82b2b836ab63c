/** Local mechanisms: their fields, and the numbers that follow from them (WIRE.md, "Local reports and means"). */
import { blake2b } from "./blake2b.ts";
import { integerOf, utf8 } from "./bytes.ts";
import { need } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { agreed, frexp } from "./floats.ts";
import { canonicalJson, integerField, numberField, objectOf, parseJson, textField, type Json, type JsonObject } from "./json.ts";
import { LIMITS } from "./limits.ts";
import { rowsOf, saltOf, streamOf } from "./local_words.ts";
import { has } from "./mechanisms.ts";
import { chiSquaredQuantile, logGamma, normalBelow, upperQuantile } from "./normal.ts";
import { padded } from "./projection.ts";
import type { LocalMechanism } from "./types.ts";

export const FIELDS: Readonly<Record<string, readonly string[]>> = {
  "priv-unit": ["precision"],
  "priv-unit-g": ["precision"],
  "comp-priv-unit-g": ["seed"],
  "proj-unit": ["precision", "sketchDim", "rotation", "shared", "unbiased", "compressed", "seed"],
  "priv-hs": ["seed"],
  "re-priv-hs": ["seed", "repetitions"],
  sqkr: ["rotation", "seed"],
  gaussian: ["delta"],
};
const NAMES: Readonly<Record<string, string>> = { sketchDim: "sketch_dim" };
const OPTIONAL = [...new Set(Object.values(FIELDS).flat())];
const ROTATIONS: Readonly<Record<string, readonly string[]>> = { "proj-unit": ["hadamard", "haar", "gaussian"], sqkr: ["gaussian", "hadamard"] };
export const FLOATS: Readonly<Record<string, { readonly size: number; readonly share: number; readonly underflow: number }>> = {
  float32: { size: 4, share: 2 ** -24, underflow: 2 ** -150 },
  float16: { size: 2, share: 2 ** -11, underflow: 2 ** -25 },
};
const TAIL = 2.5e-10, LOG_MILLION = 13.815510557964274, ROOT_PI = 1.7724538509055159, LARGEST_NORMAL = 9.3;
const SERIES = [-1 / 8, 1 / 128, 5 / 1024, -21 / 32768, -399 / 262144, 869 / 4194304, 39325 / 33554432, -334477 / 2147483648];
const WORDS = 1n << 64n;

// --- fields ----------------------------------------------------------------------------------------------------

/** Refuse a mechanism with a field out of range. */
export function checkMechanism(mechanism: LocalMechanism): void {
  const { kind, dim, epsilon, ball } = mechanism;
  need(has(FIELDS, kind), "an unknown kind of mechanism");
  const own = OPTIONAL.filter((name) => has(mechanism, name));
  need(own.length === FIELDS[kind].length && own.every((name) => FIELDS[kind].includes(name)), "fields that the kind does not have, or lacks");
  need(dim >= (ball ? 1 : 2) && dim <= 2 ** 24, "dim out of range");
  need(epsilon >= 2 ** -10 && epsilon <= (isCompressed(mechanism) ? 20 : 256), "epsilon out of range");
  need(has(FLOATS, mechanism.precision ?? "float32"), "an unknown precision");
  need(mechanism.rotation === undefined || (ROTATIONS[kind] ?? []).includes(mechanism.rotation), "an unknown rotation");
  const repetitions = mechanism.repetitions ?? 1;
  need(repetitions >= 1 && repetitions <= 256, "repetitions out of range");
  const delta = mechanism.delta ?? 0.1;
  need(delta >= 1e-30 && delta <= 0.1, "delta out of range");
  const d = sphereDim(mechanism);
  if (kind === "proj-unit") {
    const k = mechanism.sketchDim as number;
    need(k >= 1 && k <= paddedDim(mechanism), "sketch_dim out of range");
    need(!mechanism.shared || mechanism.rotation !== "gaussian", "a shared Gaussian map");
    const most = { hadamard: 2 ** 24, haar: 2 ** 12, gaussian: 2 ** 16 }[mechanism.rotation as "haar"];
    const rows = mechanism.shared && mechanism.rotation === "haar" ? d : k;
    need(rows <= most && (mechanism.rotation !== "haar" || rows * d <= 2 ** 30), "a matrix too large");
  }
  need(kind !== "sqkr" || mechanism.rotation === "gaussian" || d <= 2 ** 22, "dim out of range");
  if (mechanism.precision === "float16") need(capOf(mechanism).scale * (kind === "priv-unit" ? 1 : 64) <= 65504, "beyond float16");
}

/** Return the mechanism of JSON text, checked. */
export function readMechanism(text: string): LocalMechanism {
  const names = OPTIONAL.map((name) => NAMES[name] ?? name);
  const fields = objectOf(parseJson(text, LIMITS.maxJsonBytes), "a mechanism", ["kind", "dim", "epsilon", "ball"], names);
  const flag = (name: string) => {
    need(typeof fields[name] === "boolean", `${name} is neither true nor false`);
    return fields[name] as boolean;
  };
  const read: Record<string, (value: Json) => unknown> = {
    precision: (value) => textField(value, "precision"),
    rotation: (value) => textField(value, "rotation"),
    delta: (value) => numberField(value, "delta"),
    sketchDim: (value) => integerField(value, "sketch_dim"),
    repetitions: (value) => integerField(value, "repetitions"),
    shared: () => flag("shared"),
    unbiased: () => flag("unbiased"),
    compressed: () => flag("compressed"),
    seed: (value) => {
      need(typeof value === "bigint" && value >= 0n && value < WORDS, "seed out of range");
      return value;
    },
  };
  const mechanism: LocalMechanism = {
    kind: textField(fields.kind, "kind"),
    dim: integerField(fields.dim, "dim"),
    epsilon: numberField(fields.epsilon, "epsilon"),
    ball: flag("ball"),
  };
  for (const name of OPTIONAL) {
    const value = fields[NAMES[name] ?? name];
    if (value !== undefined) (mechanism as unknown as Record<string, unknown>)[name] = read[name](value);
  }
  checkMechanism(mechanism);
  return mechanism;
}

/** Return a mechanism's canonical JSON. */
export function mechanismJson(mechanism: LocalMechanism): string {
  const fields: JsonObject = { kind: mechanism.kind, dim: BigInt(mechanism.dim), epsilon: mechanism.epsilon, ball: mechanism.ball };
  for (const name of FIELDS[mechanism.kind]) {
    const value = mechanism[name as "delta"] as Json;
    fields[NAMES[name] ?? name] = typeof value === "number" && name !== "delta" ? BigInt(value) : value;
  }
  return canonicalJson(fields);
}

/** Return the 64 bits by which reports name their mechanism. */
export function mechanismFingerprint(mechanism: LocalMechanism): bigint {
  return integerOf(blake2b(utf8(mechanismJson(mechanism)), 8, { person: utf8("streamsketch.ldp") }));
}

// --- sizes -----------------------------------------------------------------------------------------------------

/** Return D: dim, and one coordinate more for vectors in a ball. */
export function sphereDim(mechanism: LocalMechanism): number {
  return mechanism.dim + (mechanism.ball ? 1 : 0);
}

/** Return whether a report holds a word for its values. */
export function isCompressed(mechanism: LocalMechanism): boolean {
  return mechanism.kind === "comp-priv-unit-g" || mechanism.compressed === true;
}

/** Return whether it is Algorithm 6. */
export function completes(mechanism: LocalMechanism): boolean {
  return mechanism.unbiased === true && (mechanism.shared === true || mechanism.rotation === "hadamard");
}

/** Return of how many coordinates the Gaussian cap is. */
export function innerDim(mechanism: LocalMechanism): number {
  return mechanism.kind === "proj-unit" ? (mechanism.sketchDim as number) + (completes(mechanism) ? 1 : 0) : sphereDim(mechanism);
}

/** Return N of a proj-unit. */
export function paddedDim(mechanism: LocalMechanism): number {
  const d = sphereDim(mechanism);
  return mechanism.rotation === "hadamard" ? Number(padded(BigInt(d))) : d;
}

/** Return N' and the places of sqkr's Hadamard frame. */
export function frameOf(mechanism: LocalMechanism): readonly [size: number, places: readonly number[]] {
  const d = sphereDim(mechanism);
  const size = Number(padded(BigInt(4 * d)));
  if (d > 32) return [size, rowsOf(streamOf(0n, saltOf(mechanism.seed as bigint, "kashin/places")), size, d)];
  const places = [0];
  const taken = new Set<number>();
  while (places.length < d) {
    const last = places[places.length - 1];
    for (let i = 0; i < places.length - 1; i++) for (let j = 0; j < i; j++) taken.add(places[i] ^ places[j] ^ last);
    let next = last + 1;
    while (taken.has(next)) next++;
    places.push(next);
  }
  return [Math.max(size, 2 ** (32 - Math.clz32(places[places.length - 1]))), places];
}

/** Return how many values a report has. */
export function countOf(mechanism: LocalMechanism): number {
  const { kind, epsilon } = mechanism;
  const d = sphereDim(mechanism);
  if (isCompressed(mechanism)) return 1;
  if (kind === "proj-unit") return mechanism.sketchDim as number;
  if (kind === "priv-hs" || kind === "re-priv-hs") return mechanism.repetitions ?? 1;
  return kind === "sqkr" ? Math.min(Math.max(Math.floor(epsilon), 1), 4 * d) : d;
}

/** Return m, the number of totals. */
export function totalsOf(mechanism: LocalMechanism): number {
  if (mechanism.kind === "proj-unit" && mechanism.shared) return paddedDim(mechanism);
  const d = sphereDim(mechanism);
  if (mechanism.kind !== "sqkr" || mechanism.rotation !== "hadamard") return d;
  return d > 32 ? Number(padded(BigInt(4 * d))) : frameOf(mechanism)[0]; // without its places: work as little as the bytes
}

// --- numbers ---------------------------------------------------------------------------------------------------

export interface Cap {
  /** p: the probability of the cap. */
  readonly inside: number;
  /** q₁: its mass. */
  readonly mass: number;
  readonly threshold: number;
  /** τ, or 1/m of a sphere. */
  readonly scale: number;
}

const CAPS = new Map<string, Cap>();

/** Return the cap of a kind that has one. */
export function capOf(mechanism: LocalMechanism): Cap {
  const epsilon = mechanism.epsilon * (isCompressed(mechanism) ? 4095 / 4096 : 1);
  const isSphere = mechanism.kind === "priv-unit";
  const size = isSphere ? sphereDim(mechanism) : innerDim(mechanism);
  const name = `${isSphere} ${size} ${epsilon}`;
  let found = CAPS.get(name);
  if (found === undefined) {
    if (CAPS.size > 256) CAPS.clear();
    CAPS.set(name, (found = isSphere ? sphereCap(size, epsilon) : gaussianCap(size, epsilon)));
  }
  return found;
}

function gaussianCap(size: number, epsilon: number): Cap {
  const at = (b: number) => {
    const { p, q, gain } = masses(b, epsilon);
    const g = upperQuantile(q);
    return { p, q, g, tau: 1 / ((Math.exp((-g * g) / 2) / Math.sqrt(2 * Math.PI)) * gain) };
  };
  const b = leastOf((one) => {
    const { g, tau } = at(one);
    return size * tau ** 2 + g * tau;
  }, epsilon);
  const { p, q, g, tau } = at(b);
  return { inside: p, mass: q, threshold: g, scale: agreed(tau) };
}

function sphereCap(size: number, epsilon: number): Cap {
  const half = (size - 1) / 2;
  const density = Math.exp(logGamma(size / 2) - logGamma(half)) / ROOT_PI / (size - 1);
  const at = (b: number) => {
    const { p, q, gain } = masses(b, epsilon);
    const x = Math.exp(bisected((log) => incompleteBeta(half, Math.exp(log)) >= q, -700, Math.log(0.5)));
    return { p, q, scale: 1 / (gain * density * (4 * x * (1 - x)) ** half) };
  };
  const { p, q, scale } = at(leastOf((one) => at(one).scale, epsilon));
  return { inside: p, mass: q, threshold: 0, scale };
}

function masses(b: number, epsilon: number): { p: number; q: number; gain: number } {
  const q = 1 / (1 + Math.exp(epsilon - b));
  const p = 1 - (Math.ceil(2 ** 52 / (1 + Math.exp(b))) + 1) / 2 ** 52;
  return { p, q, gain: (-Math.expm1(-epsilon) * p) / q };
}

/** Return the b of least error on its grid, by golden section. */
function leastOf(error: (b: number) => number, epsilon: number): number {
  let [low, high] = [0, Math.min(epsilon, 24)];
  const most = high;
  const grid = 2 ** -10 * Math.min(1, 2 ** (frexp(epsilon)[1] - 1));
  const share = (Math.sqrt(5) - 1) / 2;
  while (high - low > 1e-4 * grid) {
    const [left, right] = [high - share * (high - low), low + share * (high - low)];
    if (error(left) < error(right)) high = right;
    else low = left;
  }
  return Math.min(grid * Math.max(1, Math.round(low / grid)), most - grid);
}

function bisected(isBeyond: (place: number) => boolean, low: number, high: number): number {
  for (let i = 0; i < 100; i++) {
    const middle = (low + high) / 2;
    if (isBeyond(middle)) high = middle;
    else low = middle;
  }
  return high;
}

/** Return I_x(a, a) for x ≤ ½: a series of positive terms. */
function incompleteBeta(a: number, x: number): number {
  let [term, total] = [1, 1];
  for (let n = 0; term > 1e-17 * total; n++) {
    term *= ((2 * a + n) / (a + 1 + n)) * x;
    total += term;
  }
  return Math.exp(logGamma(2 * a) - logGamma(a) - logGamma(a + 1) + a * Math.log(x * (1 - x))) * total;
}

/** Return Γ(x + ½)/Γ(x), with the same bits everywhere. */
export function gammaRatio(x: number): number {
  let factor = 1;
  for (; x < 24; x += 1) factor *= x / (x + 0.5);
  let series = 0;
  for (let i = SERIES.length - 1; i >= 0; i--) series = (series + SERIES[i]) / x;
  return factor * Math.sqrt(x) * (1 + series);
}

/** Return C of Algorithm 6. */
export function normBound(mechanism: LocalMechanism): number {
  const [t, k] = [LOG_MILLION, mechanism.sketchDim as number];
  return Math.max(1, Math.min(1 + 2 * Math.sqrt(t / k) + (2 * t) / k, paddedDim(mechanism) / k));
}

/** Return E‖Wv‖, the share β along u, and the factor f of a proj-unit. */
export function projUnitNumbers(mechanism: LocalMechanism): { length: number; along: number; factor: number } {
  const [d, k, n] = [sphereDim(mechanism), mechanism.sketchDim as number, paddedDim(mechanism)];
  let [length, along] = [Math.sqrt(2 / k) * gammaRatio(k / 2), 1 + (d - 1) / k];
  if (mechanism.rotation !== "gaussian") {
    length = (Math.sqrt(n / k) * gammaRatio(k / 2)) / gammaRatio(n / 2);
    along = 1 + ((d - 1) / Math.max(1, n - 1)) * (n / k - 1);
  }
  const factor = completes(mechanism) ? Math.sqrt(normBound(mechanism)) : mechanism.unbiased ? 1 / length : 1;
  return { length, along, factor };
}

const EXACT_BITS = 512n;

/** Return e^ε in fixed point of 512 bits. */
function exactExponential({ numerator, denominator }: Ratio): bigint {
  const halvings = 16n;
  const x = (numerator << EXACT_BITS) / (denominator << halvings);
  let term = 1n << EXACT_BITS;
  let total = term;
  for (let n = 1n; term !== 0n; n++) {
    term = (term * x) / (n << EXACT_BITS);
    total += term;
  }
  for (let i = 0n; i < halvings; i++) total = (total * total) >> EXACT_BITS;
  return total;
}

/** Return F = ⌈2⁶⁴/(e^ε + 1)⌉. */
function flippingWords(epsilon: Ratio): bigint {
  const below = exactExponential(epsilon) + (1n << EXACT_BITS);
  return ((WORDS << EXACT_BITS) + below - 1n) / below;
}

/** Return T = ⌊2⁶⁴(e^ε - 1)/(e^ε - 1 + 2^bits)⌋. */
function tellingWords(epsilon: Ratio, bits: number): bigint {
  const odds = exactExponential(epsilon) - (1n << EXACT_BITS);
  return (WORDS * odds) / (odds + (1n << (EXACT_BITS + BigInt(bits))));
}

/** Return the length of what a report adds for one direction: r/R, or A·B/k. */
export function sizeOf(mechanism: LocalMechanism): number {
  const count = countOf(mechanism);
  const epsilon = Ratio.of(mechanism.epsilon);
  const b = ROOT_PI * gammaRatio(sphereDim(mechanism) / 2);
  if (mechanism.kind !== "sqkr") {
    const flipped = Number(flippingWords(epsilon.over(new Ratio(BigInt(count))))) / 2 ** 64;
    return b / (1 - 2 * flipped) / count;
  }
  const scale = mechanism.rotation === "hadamard" ? 1.75 * Math.sqrt(sphereDim(mechanism)) : b;
  return ((1 / (Number(tellingWords(epsilon, count)) / 2 ** 64)) * scale) / count;
}

/** Return σ_BW, the least σ for (ε, δ) at distance 1. */
export function gaussianSigma(epsilon: number, delta: number): number {
  const isBeyond = (log: number) => {
    const sigma = Math.exp(log);
    const [above, below] = [1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma];
    return normalBelow(above) - Math.exp(epsilon) * normalBelow(below) <= delta;
  };
  return Math.exp(bisected(isBeyond, -14, 21));
}

/** Return the variance of Gaussian noise for cells that are moved by the root of `squared`. */
export function gaussianVariance(epsilon: number, delta: number, squared: bigint): Ratio {
  const sigma = Ratio.of(gaussianSigma(epsilon, delta) * (1 + 1e-7));
  const exact = sigma.times(sigma).times(new Ratio(squared)).add(new Ratio(3n));
  const parts = new Ratio(exact.compare(new Ratio(1n << 16n)) < 0 ? 256n : 1n);
  return new Ratio(exact.times(parts).ceil()).over(parts);
}

/** Return f and the variance of the noise of `gaussian`, in steps of 2^-f. */
export function gaussianNoise(mechanism: LocalMechanism): { bits: number; variance: number } {
  const d = sphereDim(mechanism);
  const [epsilon, delta] = [mechanism.epsilon, mechanism.delta as number];
  const sigma = gaussianSigma(epsilon, delta);
  let bits = 16;
  let squared: bigint;
  for (; ; bits--) {
    const length = Ratio.of(2 * ((1 + 2 ** -40) * 2 ** bits + Math.sqrt(d) / 2));
    squared = length.times(length).ceil();
    if (bits === 0 || sigma ** 2 * Number(squared) < 2 ** 47) break;
  }
  const eta = 7.7e-26 * d;
  return { bits, variance: gaussianVariance(epsilon - 2 * eta, delta * Math.exp(-eta), squared).toNumber() };
}

/** Return E, the expected squared error of a report. */
export function squaredError(mechanism: LocalMechanism): number {
  const { kind } = mechanism;
  const d = sphereDim(mechanism);
  if (["priv-hs", "re-priv-hs", "sqkr"].includes(kind)) return errorOfBits(mechanism);
  if (kind === "gaussian") {
    const { bits, variance } = gaussianNoise(mechanism);
    return (d * variance) / 4 ** bits;
  }
  const { scale, threshold } = capOf(mechanism);
  if (kind === "priv-unit") return scale ** 2 - 1;
  if (kind !== "proj-unit") return d * scale ** 2 + threshold * scale - 1;
  const { length, along, factor } = projUnitNumbers(mechanism);
  const [long, short] = [d * scale ** 2, along * threshold * scale];
  if (completes(mechanism)) return normBound(mechanism) * long + short - 1;
  return mechanism.unbiased ? (long + short) * factor ** 2 - 1 : long + short + 1 - 2 * length;
}

function errorOfBits(mechanism: LocalMechanism): number {
  const [d, count, rows] = [sphereDim(mechanism), countOf(mechanism), totalsOf(mechanism)];
  if (mechanism.kind !== "sqkr") return ((sizeOf(mechanism) * count) ** 2 - 1) / count;
  const a = 2 ** 64 / Number(tellingWords(Ratio.of(mechanism.epsilon), count));
  const apart = mechanism.rotation === "hadamard" ? (rows - d) / (rows - 1) : 1;
  return sizeOf(mechanism) ** 2 * count + a * (1 - 1 / count) * apart - 1;
}

/** Return e: a step is 2^e. */
export function stepExponent(mechanism: LocalMechanism): number {
  let size = Math.sqrt((squaredError(mechanism) + 1) / sphereDim(mechanism));
  if (mechanism.kind === "sqkr" && mechanism.rotation === "hadamard") {
    size = sizeOf(mechanism) * Math.sqrt(totalsOf(mechanism) / sphereDim(mechanism));
  }
  return frexp(agreed(size))[1] - 1 - 22;
}

/** Return the least and the largest length of an honest report's values; 0 and infinity where all are honest. */
export function honestLengths(mechanism: LocalMechanism): readonly [number, number] {
  const { kind } = mechanism;
  const count = countOf(mechanism);
  if (["priv-hs", "re-priv-hs", "sqkr"].includes(kind) || isCompressed(mechanism)) return [0, Infinity];
  if (kind === "gaussian") {
    const { bits, variance } = gaussianNoise(mechanism);
    const t = Math.log(2e9);
    const radius = (1 + 2 ** -40) * 2 ** bits + Math.sqrt(count) / 2;
    const least = Math.sqrt(Math.max(0, count * variance - Math.sqrt(2 * t * count * 3) * variance)) - radius;
    return [Math.max(0, least), Math.sqrt(variance * (count + 2 * Math.sqrt(count * t) + 2 * t)) + radius];
  }
  const cap = capOf(mechanism);
  let [least, most] = [cap.scale, cap.scale];
  if (kind !== "priv-unit") {
    const height = Math.max(upperQuantile((TAIL * cap.mass) / cap.inside), upperQuantile(Math.min(0.5, (TAIL * (1 - cap.mass)) / (1 - cap.inside))));
    const quantile = (degrees: number, tail: "lower" | "upper") => (degrees === 0 ? 0 : chiSquaredQuantile(degrees, TAIL, tail));
    least *= Math.sqrt(quantile(count - 1, "lower"));
    most *= Math.sqrt(height ** 2 + quantile(innerDim(mechanism) - 1, "upper"));
  }
  const { share, underflow } = FLOATS[mechanism.precision as string];
  const wide = Math.sqrt(count) * underflow;
  return [Math.max(0, least * (1 - share - 2 ** -20) - wide), most * (1 + share + 2 ** -20) + wide];
}

/** Return the largest length of an honest contribution. */
export function longestContribution(mechanism: LocalMechanism): number {
  const { kind } = mechanism;
  const d = sphereDim(mechanism);
  let most = honestLengths(mechanism)[1];
  if (["priv-hs", "re-priv-hs", "sqkr"].includes(kind)) {
    const count = countOf(mechanism);
    const isFrame = kind === "sqkr" && mechanism.rotation === "hadamard";
    return sizeOf(mechanism) * (isFrame ? Math.sqrt((count * totalsOf(mechanism)) / d) : count);
  }
  if (isCompressed(mechanism)) most = capOf(mechanism).scale * LARGEST_NORMAL * Math.sqrt(innerDim(mechanism));
  if (kind === "gaussian") return most * 0.5 ** gaussianNoise(mechanism).bits;
  if (kind !== "proj-unit") return most;
  const [k, n] = [mechanism.sketchDim as number, paddedDim(mechanism)];
  const stretch = { hadamard: Math.sqrt(n / k), haar: Math.sqrt(d / k) * (1 + Math.sqrt(k) * 2 ** -13), gaussian: Infinity };
  const along = mechanism.shared ? 1 : stretch[mechanism.rotation as "haar"];
  return projUnitNumbers(mechanism).factor * along * most;
}
