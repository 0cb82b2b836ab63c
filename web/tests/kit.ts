/** The conformance kit, and what tests need to compare with it. The bundler puts the files into each test. */
import agreements from "../../streamsketch/conformance/agreements.json";
import contributions from "../../streamsketch/conformance/contributions.json";
import estimates from "../../streamsketch/conformance/estimates.json";
import features from "../../streamsketch/conformance/features.json";
import frequencies from "../../streamsketch/conformance/frequencies.json";
import joint from "../../streamsketch/conformance/joint.json";
import local from "../../streamsketch/conformance/local.json";
import people from "../../streamsketch/conformance/people.json";
import projections from "../../streamsketch/conformance/projections.json";
import refused from "../../streamsketch/conformance/refused.json";
import releases from "../../streamsketch/conformance/releases.json";
import sameness from "../../streamsketch/conformance/sameness.json";
import sign_estimates from "../../streamsketch/conformance/sign_estimates.json";
import signs from "../../streamsketch/conformance/signs.json";
import simultaneous from "../../streamsketch/conformance/simultaneous.json";
import spellings from "../../streamsketch/conformance/spellings.json";
import statements from "../../streamsketch/conformance/statements.json";
import streams from "../../streamsketch/conformance/streams.json";
import tables from "../../streamsketch/conformance/tables.json";
import { hex, Ratio } from "../src/index.ts";

export type Case = Record<string, any>;

export const KIT: Readonly<Record<string, Case[]>> = {
  agreements, contributions, estimates, features, frequencies, joint, local, people, projections, refused, releases, sameness,
  sign_estimates, signs, simultaneous, spellings, statements, streams, tables,
};

/** Return the one case of a file with a name. */
export function named(file: string, name: string): Case {
  const found = KIT[file].filter((one) => one.name === name);
  if (found.length !== 1) throw new Error(`${found.length} cases of ${name}`);
  return found[0];
}

/** Return a message with the kit's names and values: snake case, ratios as text, bytes in hexadecimal. */
export function plain(value: unknown): any {
  if (value instanceof Uint8Array) return hex(value);
  if (value instanceof Ratio) return value.toPair();
  if (typeof value === "bigint") return value.toString();
  if (Array.isArray(value)) return value.map(plain);
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).map(([name, one]) => [snake(name), plain(one)]);
    return Object.fromEntries(entries);
  }
  return value;
}

/** Return a name in snake case. */
export function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
