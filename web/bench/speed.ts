/** Reads and checks 1,000 releases of k = 1024, and estimates all pairs: `npm run bench`. */
import { pairwise, readRelease, readSigns, Release, unhex, type Measure } from "../src/index.ts";
import { Integers } from "../src/integers.ts";
import { named } from "../tests/kit.ts";

const COUNT = 1000, K = 1024;

function random(bytes: number): Uint8Array<ArrayBuffer> {
  return crypto.getRandomValues(new Uint8Array(bytes));
}

function files(): Uint8Array[] {
  const { message } = readRelease(unhex(named("releases", "a part, x").bytes));
  const projection = { ...message.projection, kind: "count-sketch", dim: 1n << 60n, sketchDim: K, seed: 7n };
  delete (projection as { sparsity?: number }).sparsity;
  return Array.from({ length: COUNT }, () => {
    const cells = new Int32Array(random(4 * K).buffer);
    const values = Integers.of(Array.from(cells, (cell) => BigInt(cell >> 8))).toMessage();
    const dataIds = Array.from({ length: 16 }, () => random(8)).sort((a, b) => Buffer.compare(a, b));
    return new Release({ ...message, projection, values, releaseIds: [random(8)], dataIds }).toBytes();
  });
}

function timed<T>(label: string, body: () => T): T {
  const [start, before] = [performance.now(), process.cpuUsage().user];
  const result = body();
  const [elapsed, busy] = [(performance.now() - start) / 1e3, (process.cpuUsage().user - before) / 1e6];
  console.log(`${label}: ${elapsed.toFixed(2)} s, ${busy.toFixed(2)} s of processor time`);
  return result;
}

const data = files();
console.log(`${COUNT} releases of k = ${K}, ${data[0].length} bytes each; node ${process.version}`);
const releases = timed("read and check all", () => data.map((one) => readRelease(one)));
for (const by of ["squaredDistance", "innerProduct", "cosine"] as Measure[]) timed(`all ${(COUNT * (COUNT - 1)) / 2} pairs, ${by}`, () => pairwise(releases, by));
const signs = unhex(named("signs", "rademacher, linear, x").bytes);
timed("read and check one file of signs 1,000 times", () => { for (let i = 0; i < 1000; i++) readSigns(signs); });
