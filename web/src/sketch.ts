/** An exact sketch on a phone, and its release with discrete Laplace noise. */
import { blake2b } from "./blake2b.ts";
import { compareBytes, concat, utf8, type Bytes } from "./bytes.ts";
import { checkProjection } from "./checks.ts";
import { demand } from "./errors.ts";
import { bitLength, Ratio } from "./exact.ts";
import { hashItems, type Item } from "./hashing.ts";
import { Integers } from "./integers.ts";
import { Matrix } from "./matrix.ts";
import { textOfSteps } from "./mechanisms.ts";
import { isPrintable } from "./printable.ts";
import { entriesOf, KINDS } from "./projection.ts";
import { Release } from "./release.ts";
import { ExactDraws, systemBits, type SecretBits } from "./secret.ts";
import type { Projection, Step } from "./types.ts";

const DATA_IDS = 16, MOST_CELLS = 2 ** 16, MOST_STEPS = 1n << 62n;
const LARGE = 1n << 48n;

/** What a release of a sketch guarantees. */
export interface ReleaseOptions {
  /** ε, in nats. */
  readonly epsilon: number;
  /** What one unit's values sum to at most, in absolute value, in data units. */
  readonly bound: Ratio | number | string;
  /** Whom it protects: `event`, `user`, …. */
  readonly unit: string;
  /** Fingerprint of the agreement that the data followed. */
  readonly agreement?: Bytes;
}

/**
 * An exact, secret sketch of one stream, of signs in sketches up to 2^16 cells. It never leaves the device; `release`
 * returns what may.
 *
 * Cells and noise are integers from end to end: no float is between the data and what is published. How long `release`
 * takes depends on the noise drawn, so somebody who measures it precisely learns about the noise.
 */
export class Sketch {
  readonly projection: Readonly<Projection>;
  readonly #matrix: Matrix;
  readonly #cells: bigint[];
  readonly #id: Bytes;
  readonly #bits: SecretBits;

  /** @param bits the secret bits; another source than the operating system's is for tests alone */
  constructor(projection: Projection, bits: SecretBits = systemBits) {
    checkProjection(projection);
    demand(KINDS[projection.kind].few !== undefined && projection.sketchDim <= MOST_CELLS, "a phone's sketch is an sjlt, a count-sketch, an oporp or an identity of up to 2^16 cells");
    this.projection = projection;
    this.#matrix = new Matrix(projection);
    this.#cells = Array.from({ length: projection.sketchDim }, () => 0n);
    this.#bits = bits;
    this.#id = new Uint8Array(16);
    bits(this.#id);
  }

  /** Count an item: `value` times, in data units, cut toward zero to a multiple of the resolution. */
  add(item: Item, value: Ratio | number | bigint | string = 1): void {
    const { numerator, denominator } = ratioOf(value).over(this.projection.resolution);
    const steps = numerator / denominator;
    demand(steps < MOST_STEPS && -steps < MOST_STEPS, "a value of 2^62 grid steps or more");
    const { rows, entries } = this.#matrix.column(hashItems(this.projection, [item])[0]);
    rows.forEach((row, i) => (this.#cells[row] = BigInt.asIntN(64, this.#cells[row] + steps * BigInt(entries[i]))));
  }

  /**
   * Return a release with discrete Laplace noise, (ε, 0)-differentially private for L1 neighbours: streams of which one
   * lacks the updates of one unit, whose absolute values sum to at most `bound`, which you assert. Whoever releases a
   * sketch twice spends ε twice.
   */
  release({ epsilon, bound, unit, agreement }: ReleaseOptions): Release {
    demand(epsilon >= 1e-6 && epsilon <= 1e6, `ε = ${epsilon} is not in [1e-6, 1e6]`);
    demand(isPrintable(unit), "the unit is 1 to 200 printable characters");
    const limit = ratioOf(bound);
    const most = limit.over(this.projection.resolution).floor();
    demand(most >= 1n, `the bound ${limit} is below one grid step of ${this.projection.resolution}`);
    const l1 = new Ratio(most * BigInt(entriesOf(this.projection)));
    const scale = roundedUp(l1.over(Ratio.least(epsilon)));
    demand(scale.compare(new Ratio(1n << 32n)) <= 0, `a scale of ${scale} is more than 2^32: take a larger ε, or a coarser resolution`);
    const draws = new ExactDraws(this.#bits);
    const [t, s] = [Number(scale.numerator), Number(scale.denominator)];
    const cells = this.#cells.map((cell) => BigInt.asIntN(64, cell + draws.laplace(t, s)));
    const releaseId = new Uint8Array(8);
    this.#bits(releaseId);
    const steps: Step[] = [{ noise: { kind: "laplace", amount: scale, layers: 0, place: "" } }];
    const rate = -1 / scale.toNumber();
    const k2 = (2 * Math.exp(rate)) / Math.expm1(rate) ** 2;
    return new Release({
      projection: this.projection,
      values: Integers.of(cells).toMessage(),
      noise: { k2, k4: k2 + 3 * k2 * k2, place: "" },
      guarantee: {
        epsilon,
        delta: 0,
        neighbours: { kind: "l1", bound: limit, unit, maxKeys: 0 },
        mechanism: textOfSteps(steps),
        conditions: [],
        steps,
        basis: "asserted",
      },
      multiplier: new Ratio(1n),
      releaseIds: [releaseId],
      dataIds: this.#dataIds(),
      parts: [],
      ...(agreement === undefined ? {} : { agreement }),
    });
  }

  #dataIds(): Bytes[] {
    const options = { key: this.#id, person: utf8("streamsketch.pub") };
    const ids = Array.from({ length: DATA_IDS }, (_, i) => blake2b(i === 0 ? concat() : utf8(String(i)), 8, options));
    return ids.sort(compareBytes);
  }
}

function ratioOf(value: Ratio | number | bigint | string): Ratio {
  if (value instanceof Ratio) return value;
  if (typeof value === "bigint") return new Ratio(value);
  return typeof value === "number" ? Ratio.of(value) : Ratio.parse(value);
}

/** Return a scale that the format can state, rounded up if it takes more than 48 bits. */
function roundedUp(scale: Ratio): Ratio {
  if (scale.numerator < LARGE && scale.denominator < LARGE) return scale;
  const whole = scale.floor();
  const bits = whole === 0n ? 47 : Math.max(0, 24 - bitLength(whole));
  const unit = new Ratio(1n << BigInt(bits));
  return new Ratio(scale.times(unit).ceil()).over(unit);
}
