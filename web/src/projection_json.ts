/** Projections as JSON: WIRE.md, "Canonical JSON". */
import { blake2b } from "./blake2b.ts";
import { hex, utf8 } from "./bytes.ts";
import { checkProjection } from "./checks.ts";
import { need } from "./errors.ts";
import { Ratio } from "./exact.ts";
import { canonicalJson, integerField, objectOf, parseJson, textField, type Json, type JsonObject } from "./json.ts";
import { LIMITS } from "./limits.ts";
import { has } from "./mechanisms.ts";
import { KINDS, OWN_FIELDS } from "./projection.ts";
import type { Projection } from "./types.ts";

/** Return the name in JSON of a field that some kinds of projection have. */
function nameOf(field: string): string {
  return field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Return a ratio in text, `n/d` in lowest terms. */
export function ratioField(value: Json | undefined, what: string): Ratio {
  const text = textField(value, what);
  need(text.length <= 64, `${what} is too long`);
  const match = /^(\d+)\/(\d+)$/.exec(text);
  need(match !== null && BigInt(match[2]) > 0n, `${what} is no ratio`);
  const found = new Ratio(BigInt(match[1]), BigInt(match[2]));
  need(found.toPair() === text, `${what} is not in lowest terms`);
  return found;
}

/** Return the projection of JSON fields, checked. */
export function projectionOf(value: Json | undefined): Projection {
  const fields = objectOf(value, "a projection", ["kind", "dim", "sketch_dim", "seed", "resolution"], OWN_FIELDS.map(([name]) => nameOf(name)));
  const { dim, seed } = fields;
  need(typeof dim === "bigint" && typeof seed === "bigint", "dim and seed are integers");
  const projection: Projection = {
    kind: textField(fields.kind, "kind"),
    dim,
    sketchDim: integerField(fields.sketch_dim, "sketch_dim"),
    seed,
    resolution: ratioField(fields.resolution, "resolution"),
  };
  for (const [field, type] of OWN_FIELDS) {
    const name = nameOf(field);
    if (name in fields) Object.assign(projection, { [field]: type === "Ratio" ? ratioField(fields[name], name) : integerField(fields[name], name) });
  }
  checkProjection(projection);
  return projection;
}

/** Return the projection that JSON text describes. */
export function readProjection(text: string): Projection {
  return projectionOf(parseJson(text, LIMITS.maxJsonBytes));
}

/** Return a projection's fields as JSON has them. */
export function projectionFields(projection: Readonly<Projection>): JsonObject {
  const fields: JsonObject = {
    kind: projection.kind,
    dim: projection.dim,
    sketch_dim: BigInt(projection.sketchDim),
    seed: projection.seed,
    resolution: projection.resolution.toPair(),
  };
  for (const name of KINDS[projection.kind].fields) {
    if (!has(projection, name)) continue;
    const value = projection[name as "sparsity" | "density"];
    fields[nameOf(name)] = value instanceof Ratio ? value.toPair() : BigInt(value as number);
  }
  return fields;
}

/** Return a projection's canonical JSON. */
export function projectionJson(projection: Readonly<Projection>): string {
  return canonicalJson(projectionFields(projection));
}

/** Return a projection's fingerprint, hexadecimal. */
export function projectionFingerprint(projection: Readonly<Projection>): string {
  return hex(blake2b(utf8(projectionJson(projection)), 16));
}
