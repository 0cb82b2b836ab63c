/** Which windows raise an alarm, against Holm's rule as it is written. */
import assert from "node:assert/strict";
import test from "node:test";
import { holm } from "../src/changes.ts";

/** Return whether each hypothesis is rejected: one by one, the least p-value first, until one is not. */
function twin(chances: readonly number[], level: number): boolean[] {
  const out = chances.map(() => false);
  for (let left = chances.length; left > 0; left--) {
    let least = -1;
    chances.forEach((chance, at) => (least = !out[at] && (least < 0 || chance < chances[least]) ? at : least));
    if (chances[least] > level / left) break;
    out[least] = true;
  }
  return out;
}

test("alarms are those of Holm's rule, for all p-values on a small grid", () => {
  const grid = [0.001, 0.01, 0.0126, 0.02, 0.03, 0.04, 0.06];
  for (let count = 1; count <= 4; count++) {
    for (let code = 0; code < grid.length ** count; code++) {
      const chances = Array.from({ length: count }, (_, at) => grid[Math.floor(code / grid.length ** at) % grid.length]);
      const largest = holm(chances, 0.05);
      const found = chances.map((chance) => chance <= largest);
      // equal p-values may be rejected one after the other: Holm's rule rejects both, or stops at both
      assert.deepEqual(found, twin(chances, 0.05).map((_, at) => chances.some((chance, other) => chance === chances[at] && twin(chances, 0.05)[other])), String(chances));
    }
  }
});
