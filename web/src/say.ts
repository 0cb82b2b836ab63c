/** Fills in the sentences of `sentences.ts`. */
import type { Ratio } from "./exact.ts";

/** The names of a sentence's fields. */
type FieldOf<T extends string> = T extends `${string}{${infer Name}}${infer Rest}` ? Name | FieldOf<Rest> : never;

/** Return a sentence with its fields filled in: their names are checked by the compiler, and values are not read again. */
export function say<T extends string>(sentence: T, fields: Readonly<Record<FieldOf<T>, string | number | bigint | Ratio>>): string {
  return sentence.replace(/\{(\w+)\}/g, (_, name: FieldOf<T>) => String(fields[name]));
}
