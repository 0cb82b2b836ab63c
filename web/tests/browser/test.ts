/** What the tests use of `node:test`, in a browser: collects the tests, and runs them once the page is loaded. */

type Body = () => unknown;
const TESTS: [string, Body][] = [];

export function test(name: string, body: Body): void {
  TESTS.push([name, body]);
}

export default test;

async function run(): Promise<string> {
  await new Promise((done) => addEventListener("load", done));
  const failed: string[] = [];
  for (const [name, body] of TESTS) {
    try {
      await body();
    } catch (error) {
      failed.push(`${name}: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
    }
  }
  return JSON.stringify({ tests: TESTS.length, failed: failed.length, first: failed.slice(0, 20) });
}

Object.assign(globalThis, { result: run() }); // for who opened the page, as JSON
