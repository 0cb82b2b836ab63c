/** From exact sums to what is published: one draw of noise for all keys, and one guarantee that covers them. */
import { blake2b } from "./blake2b.ts";
import { compareBytes, concat, utf8, type Bytes } from "./bytes.ts";
import { calibrated, type Sensitivity } from "./calibration.ts";
import { demand } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { canonicalBytes } from "./hashing.ts";
import { Integers } from "./integers.ts";
import { textOfSteps } from "./mechanisms.ts";
import { NoiseTable } from "./noise.ts";
import { Release } from "./release.ts";
import type { SecretBits } from "./secret.ts";
import type { AddedNoise, Guarantee, Neighbours, Projection, Step } from "./types.ts";
import type { Key } from "./unit_draws.ts";
import { cumulantsOf, sensitivityOf } from "./words.ts";

const ONE = new Ratio(1n);
const DATA_IDS = 16, ID_BYTES = 16, RELEASE_ID_BYTES = 8;

/** What a release is to state, but for its noise. */
export interface Stated {
  readonly epsilon: number;
  readonly delta: number;
  readonly mechanism: string;
  readonly neighbours: Neighbours;
  readonly counting: { readonly units: number; readonly slack: number } | null;
  readonly conditions: readonly string[];
  readonly basis: "enforced" | "asserted";
  readonly clip?: string;
  readonly agreement?: Bytes;
}

/** A guarantee with its noise, ready to be drawn for sketches of one projection. */
export class Publisher {
  readonly projection: Readonly<Projection>;
  readonly guarantee: Guarantee;
  readonly #noise: AddedNoise;
  readonly #stated: Stated;
  readonly #table: NoiseTable;

  /** @throws InvalidInputError for noise that is too wide, or a bound below the grid: whatever the data are */
  constructor(projection: Readonly<Projection>, stated: Stated) {
    const sensitivity = sensitivityFor(projection, stated);
    const { kind, amount, epsilon, delta } = calibrated(sensitivity, stated.epsilon, stated.delta, stated.mechanism);
    this.projection = projection;
    this.#stated = stated;
    this.#table = new NoiseTable(kind, amount);
    this.#noise = { kind, amount, layers: 0, place: "", ...(stated.counting === null ? {} : { counting: { ...stated.counting } }) };
    const steps: Step[] = [{ noise: this.#noise }];
    const { neighbours, conditions, basis } = stated;
    this.guarantee = { epsilon, delta, neighbours, mechanism: textOfSteps(steps), conditions: [...conditions].sort(), steps, basis };
  }

  /** Return how many numbers are published of a key: its cells, and what is counted beside them. */
  get width(): number {
    const { counting } = this.#stated;
    return this.projection.sketchDim + (counting === null ? 0 : counting.slack > 0 ? 2 : 1);
  }

  /** Return a release of exact numbers, `width` of them, with fresh noise. */
  draw(numbers: readonly bigint[], id: Bytes, bits: SecretBits): Release {
    const noise = this.#table.draw(this.width, bits);
    const noisy = numbers.map((number, i) => BigInt.asIntN(64, number + noise[i]));
    const releaseId = new Uint8Array(RELEASE_ID_BYTES);
    bits(releaseId);
    const { k2, k4 } = cumulantsOf(this.#noise);
    const { sketchDim } = this.projection;
    const { agreement, clip } = this.#stated;
    return new Release({
      projection: this.projection,
      values: Integers.of(noisy.slice(0, sketchDim)).toMessage(),
      noise: { k2, k4, place: "" },
      guarantee: this.guarantee,
      multiplier: ONE,
      releaseIds: [releaseId],
      dataIds: publishedIds(id),
      parts: [],
      ...(this.#stated.counting === null ? {} : { counts: Integers.of(noisy.slice(sketchDim)).toMessage() }),
      ...(agreement === undefined ? {} : { agreement }),
      ...(clip === undefined ? {} : { clip }),
    });
  }
}

function sensitivityFor(projection: Readonly<Projection>, { neighbours, counting }: Stated): Sensitivity {
  const found = sensitivityOf(projection, neighbours, counting === null ? { place: "" } : { place: "", counting });
  demand(typeof found !== "string", `${String(found)}; release such rows in Python`);
  return { ...found, cells: projection.sketchDim };
}

/** Return a new secret id of data. */
export function newId(bits: SecretBits): Bytes {
  const id = new Uint8Array(ID_BYTES);
  bits(id);
  return id;
}

/** Return the secret id of a key's data in a table. */
export function idOfKey(id: Bytes, key: Key): Bytes {
  return blake2b(canonicalBytes(key), ID_BYTES, { key: id, person: utf8("streamsketch.id") });
}

function publishedIds(id: Bytes): Bytes[] {
  const options = { key: id, person: utf8("streamsketch.pub") };
  const ids = Array.from({ length: DATA_IDS }, (_, i) => blake2b(i === 0 ? concat() : utf8(String(i)), 8, options));
  return ids.sort(compareBytes);
}
