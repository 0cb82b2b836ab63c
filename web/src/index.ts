/** Reads, checks and compares differentially private sketches of streams, in browsers, node and warehouses. */
export * from "./errors.ts";
export { LIMITS, type Limits } from "./limits.ts";
export { Ratio } from "./exact.ts";
export { Integers } from "./integers.ts";
export { hex, unhex, type Bytes } from "./bytes.ts";
export { blake2b } from "./blake2b.ts";
export { kindOf } from "./frame.ts";
export { readRelease, Release } from "./release.ts";
export { readSigns, Signs } from "./signs.ts";
export type * from "./types.ts";
export { Estimate, type Interval, type Method } from "./estimate.ts";
export {
  cosine, hasDirection, innerProduct, meanDistance, meanNorm, meanProduct, normalisedInnerProduct, pairwise, profileDistance,
  squaredDistance, squaredNorm, total, units, type Measure, type Pairs,
} from "./estimators.ts";
export { JointEstimate, JointEstimates, jointPairs, type JointMeasure, type JointModel, type JointOptions } from "./joint.ts";
export { scaleSquared, varianceLaw, type VarianceLaw } from "./projection.ts";
export { checkNoise, compositionOf, guaranteeInWords, guaranteeText, historyText, warnings, type NoiseCheck, type Section } from "./words.ts";
export { readTable, keyText, Table, type TableKey } from "./table.ts";
export { keyIdOf, keyLine, readKey, readStatement, verify, type PublicKey, type Statement } from "./statements.ts";
export { canonicalJson, parseJson, type Json, type JsonObject } from "./json.ts";
export { Day, hashItems, Nanoseconds, type Item, type Part } from "./hashing.ts";
export { Matrix, type Column } from "./matrix.ts";
export { projectionFingerprint, projectionJson, readProjection } from "./projection_json.ts";
export { frequencies, frequency, FrequencyEstimate, missedBy, type Estimator } from "./frequency.ts";
export { topDifferences, type Difference, type DifferenceOptions, type Differences } from "./differences.ts";
export { MeanAggregator, randomize, readReport, type Report } from "./local.ts";
export { mechanismFingerprint, mechanismJson, readMechanism, squaredError } from "./local_mechanisms.ts";
export { Sketch, type ReleaseOptions } from "./sketch.ts";
export { systemBits, type SecretBits } from "./secret.ts";
export { spell, type TextRule } from "./spelling.ts";
export { readAgreement, spellItems, windowsText, type AgreedColumn, type AgreedWindows, type Agreement, type PublishedKeys, type RowsOfUnit } from "./agreement.ts";
export { AgreedRows, notHere, type Dropped } from "./rows.ts";
export type { Finding } from "./row_check.ts";
export type { Dialect } from "./delimited.ts";
export { combine, scaled, subtract, type Populations } from "./combine.ts";
export { angle, hamming, signCosine, type SignOptions } from "./sign_estimates.ts";
export { Features, type Entry } from "./features.ts";
export { addContributions, readContribution, readRound, type Contribution, type Round } from "./rounds.ts";
export { sameness } from "./sameness.ts";
export { changes, type Change, type Changes, type ChangesOptions } from "./changes.ts";
export { matrixOf, rangeOf, weightsOfRange, type Windows } from "./history.ts";
export { distinct, entropy, l1Norm, type HistogramOptions } from "./histograms.ts";
