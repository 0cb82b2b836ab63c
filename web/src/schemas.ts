/** The messages of wire.proto: name, type and rule of each field by its number. */

/**
 * - `always`: a message, written even if it is empty
 * - `default`: written unless it is 0, or has length 0
 * - `optional`: written where it applies, 0 and empty text included
 * - `repeated`: a list; `listed`: a list that is there only where it has entries
 */
export type Rule = "always" | "default" | "optional" | "repeated" | "listed";
export type Field = readonly [name: string, type: string, rule: Rule];

/** Integers of `size` are uint64 below 2^53, as numbers; those of `uint64`, `fixed64` and `sint64` are bigints. */
export const SCHEMAS: Readonly<Record<string, Readonly<Record<number, Field>>>> = {
  PrivateSketch: {
    1: ["projection", "Projection", "always"],
    2: ["values", "Values", "always"],
    3: ["noise", "Noise", "always"],
    4: ["guarantee", "Guarantee", "always"],
    5: ["multiplier", "Ratio", "always"],
    6: ["releaseIds", "bytes", "repeated"],
    7: ["dataIds", "bytes", "repeated"],
    8: ["parts", "NoisePart", "repeated"],
    9: ["agreement", "bytes", "optional"],
    10: ["counts", "Values", "optional"],
    11: ["clip", "string", "optional"],
    12: ["history", "History", "optional"],
  },
  History: {
    1: ["id", "bytes", "default"],
    2: ["start", "uint32", "default"],
    3: ["stop", "uint32", "default"],
    4: ["row", "bool", "default"],
    5: ["minusStart", "uint32", "default"],
    6: ["minusStop", "uint32", "default"],
  },
  NoisePart: {
    1: ["noise", "Noise", "always"],
    2: ["guarantee", "Guarantee", "always"],
    3: ["multiplier", "Ratio", "always"],
    4: ["count", "uint32", "default"],
    5: ["history", "History", "optional"],
  },
  Projection: {
    1: ["kind", "string", "default"],
    2: ["dim", "uint64", "default"],
    3: ["sketchDim", "size", "default"],
    4: ["seed", "fixed64", "default"],
    5: ["resolution", "Ratio", "always"],
    6: ["sparsity", "uint32", "optional"],
    7: ["independence", "uint32", "optional"],
    8: ["fractionBits", "uint32", "optional"],
    9: ["density", "Ratio", "optional"],
  },
  Values: { 1: ["width", "uint32", "default"], 2: ["cells", "bytes", "default"] },
  Noise: { 1: ["k2", "double", "default"], 2: ["k4", "double", "default"], 3: ["place", "string", "default"] },
  Guarantee: {
    1: ["epsilon", "double", "default"],
    2: ["delta", "double", "default"],
    3: ["neighbours", "Neighbours", "always"],
    4: ["mechanism", "string", "default"],
    5: ["conditions", "string", "repeated"],
    6: ["steps", "Step", "listed"],
    7: ["basis", "string", "default"],
  },
  Step: {
    1: ["noise", "AddedNoise", "optional"],
    2: ["flips", "FlippedSigns", "optional"],
    3: ["keys", "KeySelection", "optional"],
    4: ["text", "string", "optional"],
  },
  AddedNoise: {
    1: ["kind", "string", "default"],
    2: ["amount", "Ratio", "always"],
    3: ["layers", "uint32", "default"],
    4: ["place", "string", "default"],
    5: ["shares", "Shares", "optional"],
    6: ["counting", "Counting", "optional"],
    7: ["schedule", "Schedule", "optional"],
  },
  Schedule: {
    1: ["kind", "string", "default"],
    2: ["horizon", "uint32", "default"],
    3: ["maxWindows", "uint32", "default"],
    4: ["gap", "uint32", "default"],
    5: ["depth", "uint32", "optional"],
    6: ["blocks", "uint32", "optional"],
    7: ["band", "uint32", "optional"],
    8: ["bits", "uint32", "optional"],
  },
  Counting: { 1: ["units", "uint32", "default"], 2: ["slack", "uint32", "default"] },
  Shares: { 1: ["parties", "uint32", "default"], 2: ["honest", "uint32", "default"] },
  FlippedSigns: {
    1: ["method", "string", "default"],
    2: ["law", "FlipLaw", "always"],
    3: ["normBound", "Ratio", "optional"],
  },
  KeySelection: { 1: ["epsilon", "double", "default"], 2: ["delta", "double", "default"] },
  Neighbours: {
    1: ["kind", "string", "default"],
    2: ["bound", "Ratio", "always"],
    3: ["unit", "string", "default"],
    4: ["maxKeys", "uint32", "default"],
  },
  SignSketch: {
    1: ["projection", "Projection", "always"],
    2: ["signs", "bytes", "default"],
    3: ["law", "FlipLaw", "always"],
    4: ["guarantee", "Guarantee", "always"],
    5: ["releaseId", "bytes", "default"],
    6: ["dataIds", "bytes", "repeated"],
    7: ["agreement", "bytes", "optional"],
  },
  FlipLaw: { 1: ["shape", "string", "default"], 2: ["rate", "Ratio", "always"] },
  IndividualSignSketch: {
    1: ["projection", "Projection", "always"],
    2: ["signs", "bytes", "default"],
    3: ["method", "string", "default"],
    4: ["guarantee", "Guarantee", "always"],
    5: ["releaseId", "bytes", "default"],
    6: ["agreement", "bytes", "optional"],
  },
  LocalReport: {
    1: ["mechanism", "fixed64", "default"],
    2: ["seed", "fixed64", "default"],
    3: ["values", "bytes", "default"],
  },
  LocalMean: {
    1: ["mechanism", "LocalMechanism", "always"],
    2: ["count", "size", "default"],
    3: ["totals", "Values", "always"],
    4: ["stepExponent", "sint32", "default"],
  },
  LocalMechanism: {
    1: ["kind", "string", "default"],
    2: ["dim", "size", "default"],
    3: ["epsilon", "double", "default"],
    4: ["ball", "bool", "default"],
    5: ["precision", "string", "optional"],
    6: ["sketchDim", "uint32", "optional"],
    7: ["rotation", "string", "optional"],
    8: ["shared", "bool", "optional"],
    9: ["unbiased", "bool", "optional"],
    10: ["compressed", "bool", "optional"],
    11: ["seed", "fixed64", "optional"],
    12: ["repetitions", "uint32", "optional"],
    13: ["delta", "double", "optional"],
  },
  Ratio: { 1: ["numerator", "sint64", "default"], 2: ["denominator", "uint64", "default"] },
};

/** The magic in bytes 0 to 7 of each kind of file, its fourth byte. */
export const MAGICS: Readonly<Record<string, string>> = {
  PrivateSketch: "K",
  SignSketch: "G",
  IndividualSignSketch: "I",
  LocalReport: "R",
  LocalMean: "M",
};
