/** Published integers at their width: views of bytes, for arithmetic that loses no digit. */
import { need } from "./errors.ts";
import type { Bytes } from "./bytes.ts";
import type { ValuesMessage } from "./types.ts";

const TWO_32 = 2 ** 32;

/** Signed integers of 1, 2, 4 or 8 bytes. */
export class Integers {
  readonly width: number;
  readonly length: number;
  readonly bytes: Bytes;
  readonly #small: Int8Array | Int16Array | Int32Array;
  readonly #low: Uint32Array;

  constructor(message: ValuesMessage) {
    const { width, cells } = message;
    need(width === 1 || width === 2 || width === 4 || width === 8, "a width other than 1, 2, 4, 8");
    need(cells.length % width === 0, "cells that are cut off");
    this.width = width;
    this.length = cells.length / width;
    const aligned = cells.byteOffset % 8 === 0 ? cells : cells.slice();
    this.bytes = aligned;
    const array = width === 1 ? Int8Array : width === 2 ? Int16Array : Int32Array;
    const count = aligned.length / Math.min(width, 4);
    this.#small = new array(aligned.buffer, aligned.byteOffset, count);
    this.#low = width === 8 ? new Uint32Array(aligned.buffer, aligned.byteOffset, count) : new Uint32Array(0);
  }

  /** Return the integers at their least width. */
  static of(values: readonly bigint[]): Integers {
    const width = [1, 2, 4, 8].find((one) => values.every((value) => BigInt.asIntN(8 * one, value) === value));
    need(width !== undefined, "integers of more than 64 bits");
    const cells = new Uint8Array(width * values.length);
    values.forEach((value, i) => {
      for (let byte = 0; byte < width; byte++) cells[i * width + byte] = Number((value >> BigInt(8 * byte)) & 0xffn);
    });
    return new Integers({ width, cells });
  }

  at(i: number): bigint {
    if (this.width < 8) return BigInt(this.#small[i]);
    return (BigInt(this.#small[2 * i + 1]) << 32n) | BigInt(this.#low[2 * i]);
  }

  toArray(): bigint[] {
    return Array.from({ length: this.length }, (_, i) => this.at(i));
  }

  /** Return the nearest doubles. */
  toDoubles(): Float64Array<ArrayBuffer> {
    const out = new Float64Array(this.length);
    if (this.width < 8) out.set(this.#small);
    else for (let i = 0; i < out.length; i++) out[i] = this.#small[2 * i + 1] * TWO_32 + this.#low[2 * i];
    return out;
  }

  /** Return the doubles nearest to the differences, which are taken between integers. */
  minus(other: Integers): Float64Array<ArrayBuffer> {
    const out = this.toDoubles();
    if (this.width < 8 && other.width < 8) {
      for (let i = 0; i < out.length; i++) out[i] -= other.#small[i];
      return out;
    }
    for (let i = 0; i < out.length; i++) out[i] = (this.#highAt(i) - other.#highAt(i)) * TWO_32 + (this.#lowAt(i) - other.#lowAt(i));
    return out;
  }

  #highAt(i: number): number {
    return this.width < 8 ? (this.#small[i] < 0 ? -1 : 0) : this.#small[2 * i + 1];
  }

  #lowAt(i: number): number {
    return this.width < 8 ? this.#small[i] >>> 0 : this.#low[2 * i];
  }

  /** Return the least width that holds all integers. */
  leastWidth(): number {
    let [low, high] = [0, 0];
    if (this.width === 8) {
      for (let i = 0; i < this.length; i++) {
        const top = this.#small[2 * i + 1];
        if (top !== this.#small[2 * i] >> 31) return 8;
        [low, high] = [Math.min(low, this.#small[2 * i]), Math.max(high, this.#small[2 * i])];
      }
    } else {
      const cells = this.#small;
      for (let i = 0; i < cells.length; i++) {
        const cell = cells[i];
        if (cell < low) low = cell;
        else if (cell > high) high = cell;
      }
    }
    return low >= -128 && high < 128 ? 1 : low >= -32768 && high < 32768 ? 2 : 4;
  }

  toMessage(): ValuesMessage {
    return { width: this.width, cells: this.bytes };
  }
}
