/** What a mechanism may say, and its text. */
import { need } from "./errors.ts";
import { doubleText } from "./exact.ts";
import { say } from "./say.ts";
import * as sentences from "./sentences.ts";
import type { AddedNoise, FlipLaw, Schedule, Step } from "./types.ts";

const LABELS: Readonly<Record<string, string>> = {
  laplace: sentences.LAPLACE,
  gaussian: sentences.GAUSSIAN,
};
const PLACES: Readonly<Record<string, string>> = {
  "": "",
  input: sentences.ON_INPUT,
  hadamard: sentences.AFTER_HADAMARD,
};
const LEVELS: Readonly<Record<string, string>> = { constant: "", levels: "·⌈|cell|/step⌉", linear: "·|cell|" };
const SCHEDULES: Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>> = {
  separate: {},
  tree: { depth: [1, 64] },
  factorisation: { blocks: [2, 100_000], bits: [1, 12] },
};

/** Return whether an object has a name itself, and does not inherit it. */
export function has(object: object, name: string): boolean {
  return Object.prototype.hasOwnProperty.call(object, name);
}

export function checkBudget(budget: { epsilon: number; delta: number }): void {
  need(budget.epsilon >= 1e-6 && budget.epsilon <= 1e6, "epsilon out of range");
  need(budget.delta >= 0 && budget.delta < 1 && !Object.is(budget.delta, -0), "delta out of range");
}

export function checkSteps(steps: readonly Step[]): void {
  need(steps.length <= 16, "more than 16 steps");
  need(steps.every((step) => Object.keys(step).length === 1), "a step that is nothing, or two things");
  const texts = steps.map((step) => step.text !== undefined);
  need(!texts.every(Boolean), "a mechanism that is known by its text alone has no steps");
  need(!texts.some((text, i) => text && texts[i + 1]), "two texts in a row");
  for (const step of steps) {
    need(step.text !== "", "a step without text");
    if (step.noise !== undefined) checkAdded(step.noise);
    if (step.keys !== undefined) checkBudget(step.keys);
    if (step.flips !== undefined) {
      checkLaw(step.flips.law);
      need(step.flips.method !== "", "no method");
      need(step.flips.normBound === undefined || step.flips.normBound.numerator > 0n, "a norm bound of 0 or less");
    }
  }
}

function checkAdded(noise: AddedNoise): void {
  const { numerator: n, denominator: d } = noise.amount;
  need(has(LABELS, noise.kind), "an unknown noise");
  if (noise.kind === "laplace") {
    need(n > 0n && n <= d << 32n && n < 1n << 48n && d < 1n << 48n, "a scale out of range");
  } else {
    need(2n * n >= d && n <= d << 48n && d <= 256n && n < 1n << 49n, "a variance out of range");
  }
  need(noise.layers === 0 || noise.layers === 2, "layers other than 2; 1 is left out");
  need(has(PLACES, noise.place), "an unknown place");
  const isPlain = noise.layers === 0 && noise.place === "";
  if (noise.shares !== undefined) {
    const { parties, honest } = noise.shares;
    need(honest >= 1 && honest <= parties && parties <= 4096, "shares of none, or of more honest parties than there are");
    need(isPlain, "shares of other than one noise on the cells");
  }
  if (noise.counting !== undefined) {
    const { units, slack } = noise.counting;
    need(units >= 1 && units < 2 ** 31 && slack < 2 ** 31, "weights of counts out of range");
    need(isPlain, "counts beside other than one noise on the cells");
  }
  if (noise.schedule !== undefined) {
    need(isPlain && noise.shares === undefined, "rows of other than one noise");
    checkSchedule(noise.schedule);
  }
}

function checkSchedule(schedule: Schedule): void {
  need(has(SCHEDULES, schedule.kind), "an unknown kind of schedule");
  const ranges: Record<string, readonly [number, number]> = {
    horizon: [1, 100_000],
    gap: [1, 100_000],
    ...SCHEDULES[schedule.kind],
  };
  if (schedule.kind === "factorisation" && schedule.band !== undefined) ranges.band = [1, schedule.horizon];
  const names = Object.keys(schedule).filter((name) => name !== "kind" && name !== "maxWindows");
  need(names.every((name) => name in ranges) && names.length === Object.keys(ranges).length, "fields that the kind does not have, or fewer");
  for (const [name, [low, high]] of Object.entries(ranges)) {
    const value = schedule[name as "horizon"];
    need(value >= low && value <= high, `${name} out of range`);
  }
  need(schedule.maxWindows >= 1 && schedule.maxWindows <= Math.ceil(schedule.horizon / schedule.gap), "a unit in more windows than there are");
}

export function checkLaw(law: FlipLaw): void {
  need(has(LEVELS, law.shape), "an unknown law");
  const { numerator, denominator } = law.rate;
  need(denominator <= 1n << 52n && (denominator & (denominator - 1n)) === 0n, "a rate that is no n/2^s");
  need(numerator > 0n && numerator <= 1n << 32n, "a rate out of range");
}

/** Return the text of a mechanism. */
export function textOfSteps(steps: readonly Step[]): string {
  return steps.map(textOfStep).join("; ");
}

function textOfStep(step: Step): string {
  if (step.noise !== undefined) {
    const { noise } = step;
    const layers = noise.layers === 2 ? sentences.TWO_LAYERS : "";
    return `${textOfNoise(noise)}${layers}${PLACES[noise.place]}${textOfShares(noise)}${textOfRows(noise)}${textOfCounting(noise)}`;
  }
  if (step.flips !== undefined) {
    const { method, law, normBound } = step.flips;
    const norms = normBound === undefined ? "" : say(sentences.NORM_BOUND, { bound: normBound });
    return `${method}${norms}, ${say(sentences.FLIPS, { rate: law.rate, level: LEVELS[law.shape] })}`;
  }
  if (step.keys !== undefined) {
    return say(sentences.KEY_THRESHOLD, { epsilon: doubleText(step.keys.epsilon), delta: doubleText(step.keys.delta) });
  }
  return step.text as string;
}

/** Return the text of a noise alone. */
export function textOfNoise({ kind, amount }: Pick<AddedNoise, "kind" | "amount">): string {
  return `${LABELS[kind]} ${amount}`;
}

function textOfShares(noise: AddedNoise): string {
  if (noise.shares === undefined) return "";
  const { parties, honest } = noise.shares;
  return `${say(sentences.SHARES, { parties })}${honest < parties ? say(sentences.HONEST_SHARES, { honest }) : ""}`;
}

function textOfRows(noise: AddedNoise): string {
  const { schedule } = noise;
  if (schedule === undefined) return "";
  const many = schedule.maxWindows === 1 ? "one" : `at most ${schedule.maxWindows}`;
  const apart = schedule.gap > 1 && schedule.maxWindows > 1 ? say(sentences.ROWS_APART, { gap: schedule.gap }) : "";
  let words: string = sentences.SEPARATE;
  if (schedule.kind === "tree") words = say(sentences.TREE, { depth: schedule.depth! });
  if (schedule.kind === "factorisation") {
    words = schedule.band === undefined ? say(sentences.ROOT_BLOCKS, { blocks: schedule.blocks! }) : say(sentences.ROOT_BAND, { windows: schedule.band });
  }
  return `, over ${say(sentences.ROWS, { horizon: schedule.horizon, schedule: words, windows: many, apart })}`;
}

function textOfCounting(noise: AddedNoise): string {
  if (noise.counting === undefined) return "";
  const slack = noise.counting.slack ? say(sentences.SLACK, { weight: noise.counting.slack }) : "";
  return `, with ${say(sentences.UNIT_COUNT, { weight: noise.counting.units })}${slack}`;
}

/** Return the noise of a single release: one step of noise, with or without a choice of keys. */
export function singleNoise(steps: readonly Step[] | undefined): AddedNoise | null {
  if (steps === undefined || steps.length === 0 || steps.length > 2 || steps[0].noise === undefined) return null;
  return steps.slice(1).every((step) => step.keys !== undefined) ? steps[0].noise : null;
}

