/** An exact sketch on a phone, and its release with discrete Laplace noise. */
import type { Bytes } from "./bytes.ts";
import { checkProjection } from "./checks.ts";
import { demand } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { hashItems, type Item } from "./hashing.ts";
import { Matrix } from "./matrix.ts";
import { isPrintable } from "./printable.ts";
import { KINDS } from "./projection.ts";
import { newId, Publisher } from "./published.ts";
import type { Release } from "./release.ts";
import { systemBits, type SecretBits } from "./secret.ts";
import type { Projection } from "./types.ts";

const MOST_CELLS = 2 ** 16, MOST_STEPS = 1n << 62n;

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
    this.#id = newId(bits);
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
    const neighbours = { kind: "l1", bound: ratioOf(bound), unit, maxKeys: 0 };
    const publisher = new Publisher(this.projection, { epsilon, delta: 0, mechanism: "laplace", neighbours, counting: null, conditions: [], basis: "asserted", agreement });
    return publisher.draw(this.#cells, this.#id, this.#bits);
  }
}

function ratioOf(value: Ratio | number | bigint | string): Ratio {
  if (value instanceof Ratio) return value;
  if (typeof value === "bigint") return new Ratio(value);
  return typeof value === "number" ? Ratio.of(value) : Ratio.parse(value);
}
