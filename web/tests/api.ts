/** What tests use of the package: its public names, and a few that are not. */
export * from "../src/index.ts";
export { utf8 } from "../src/bytes.ts";
