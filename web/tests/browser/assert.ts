/** What the tests use of `node:assert/strict`, in a browser. */

function fail(message: string): never {
  throw new Error(message);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value, (_, one) => (typeof one === "bigint" ? `${one}n` : one));
  return text === undefined ? String(value) : text.slice(0, 200);
}

function isSame(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const [x, y] = [Object.keys(a), Object.keys(b)];
  return x.length === y.length && Array.isArray(a) === Array.isArray(b) &&
    x.every((name) => name in b && isSame((a as Record<string, unknown>)[name], (b as Record<string, unknown>)[name]));
}

type Expected = (abstract new (...args: never[]) => unknown) | RegExp;

function check(error: unknown, expected?: Expected): void {
  const is = expected === undefined || (expected instanceof RegExp ? expected.test(String(error)) : error instanceof expected);
  if (!is) fail(`another error: ${error}`);
}

const assert = {
  ok: (value: unknown, message = "not true") => { if (!value) fail(message); },
  equal: (a: unknown, b: unknown, message = "") => { if (!Object.is(a, b)) fail(`${shown(a)} is not ${shown(b)} ${message}`); },
  notEqual: (a: unknown, b: unknown, message = "") => { if (Object.is(a, b)) fail(`${shown(a)} ${message}`); },
  deepEqual: (a: unknown, b: unknown, message = "") => { if (!isSame(a, b)) fail(`${shown(a)} is not ${shown(b)} ${message}`); },
  match: (text: string, pattern: RegExp) => { if (!pattern.test(text)) fail(`${shown(text)} does not match ${pattern}`); },
  fail,
  throws: (body: () => unknown, expected?: Expected) => {
    try {
      body();
    } catch (error) {
      return check(error, expected);
    }
    fail("nothing was thrown");
  },
  rejects: async (body: Promise<unknown> | (() => Promise<unknown>), expected?: Expected) => {
    try {
      await (typeof body === "function" ? body() : body);
    } catch (error) {
      return check(error, expected);
    }
    fail("nothing was thrown");
  },
};

export default assert;
