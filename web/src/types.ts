/** What the messages hold, by the names of wire.proto in camel case. Ids are bytes here; `Release` has them as text. */
import type { Bytes } from "./bytes.ts";
import type { Ratio } from "./exact.ts";

/** The public map: which integer matrix, rebuilt from a seed. */
export interface Projection {
  kind: string;
  dim: bigint;
  sketchDim: number;
  seed: bigint;
  resolution: Ratio;
  sparsity?: number;
  independence?: number;
  fractionBits?: number;
  density?: Ratio;
}

export interface ValuesMessage {
  width: number;
  cells: Bytes;
}

/** Cumulants of one noise, in grid steps² and ⁴ of the place where it was added. */
export interface Noise {
  k2: number;
  k4: number;
  place: string;
}

export interface Neighbours {
  kind: string;
  bound: Ratio;
  unit: string;
  /** 0 where it is absent, which means 1. */
  maxKeys: number;
}

export interface Schedule {
  kind: string;
  horizon: number;
  maxWindows: number;
  gap: number;
  depth?: number;
  blocks?: number;
  band?: number;
  bits?: number;
}

export interface AddedNoise {
  kind: string;
  amount: Ratio;
  /** 0 where it is absent, which means 1. */
  layers: number;
  place: string;
  shares?: { parties: number; honest: number };
  counting?: { units: number; slack: number };
  schedule?: Schedule;
}

export interface FlipLaw {
  shape: string;
  rate: Ratio;
}

/** Exactly one of the four. */
export interface Step {
  noise?: AddedNoise;
  flips?: { method: string; law: FlipLaw; normBound?: Ratio };
  keys?: { epsilon: number; delta: number };
  text?: string;
}

export interface Guarantee {
  epsilon: number;
  delta: number;
  neighbours: Neighbours;
  mechanism: string;
  conditions: string[];
  steps?: Step[];
  /** `enforced`, `asserted`, or empty where it is not known. */
  basis: string;
}

/** Which part of a stream's history a release is. */
export interface History {
  id: Bytes;
  start: number;
  stop: number;
  row: boolean;
  minusStart: number;
  minusStop: number;
}

export interface NoisePart {
  noise: Noise;
  guarantee: Guarantee;
  multiplier: Ratio;
  count: number;
  history?: History;
}

export interface PrivateSketchMessage {
  projection: Projection;
  values: ValuesMessage;
  noise: Noise;
  guarantee: Guarantee;
  multiplier: Ratio;
  releaseIds: Bytes[];
  dataIds: Bytes[];
  parts: NoisePart[];
  agreement?: Bytes;
  counts?: ValuesMessage;
  clip?: string;
  history?: History;
}

export interface SignSketchMessage {
  projection: Projection;
  signs: Bytes;
  law: FlipLaw;
  guarantee: Guarantee;
  releaseId: Bytes;
  dataIds: Bytes[];
  agreement?: Bytes;
}

export interface IndividualSignSketchMessage {
  projection: Projection;
  signs: Bytes;
  method: string;
  guarantee: Guarantee;
  releaseId: Bytes;
  agreement?: Bytes;
}

export interface LocalReportMessage {
  mechanism: bigint;
  seed: bigint;
  values: Bytes;
}

export interface LocalMechanism {
  kind: string;
  dim: number;
  epsilon: number;
  ball: boolean;
  precision?: string;
  sketchDim?: number;
  rotation?: string;
  shared?: boolean;
  unbiased?: boolean;
  compressed?: boolean;
  seed?: bigint;
  repetitions?: number;
  delta?: number;
}

export interface LocalMeanMessage {
  mechanism: LocalMechanism;
  count: number;
  totals: ValuesMessage;
  stepExponent: number;
}

export interface Messages {
  PrivateSketch: PrivateSketchMessage;
  SignSketch: SignSketchMessage;
  IndividualSignSketch: IndividualSignSketchMessage;
  LocalReport: LocalReportMessage;
  LocalMean: LocalMeanMessage;
}

export type Kind = keyof Messages;
