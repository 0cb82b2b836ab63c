/** Errors that this package throws on purpose. Bytes of others end in no other kind of exception. */

/** Base of every error that this package throws on purpose. */
export class StreamsketchError extends Error {
  override name = "StreamsketchError";
}

/** Bytes do not follow the exchange format. */
export class WireFormatError extends StreamsketchError {
  override name = "WireFormatError";
}

/** A value that the method does not accept, or an estimate that is not defined. */
export class InvalidInputError extends StreamsketchError {
  override name = "InvalidInputError";
}

/** Releases of different projections, agreements or places of noise. */
export class IncompatibleError extends StreamsketchError {
  override name = "IncompatibleError";
}

/** Two releases share noise, so standard errors that assume independence would be wrong. */
export class DependentNoiseError extends StreamsketchError {
  override name = "DependentNoiseError";
}

/** Bytes are not signed by one of the keys expected, or were changed after they were signed. */
export class SignatureError extends StreamsketchError {
  override name = "SignatureError";
}

/** Refuse bytes unless something holds. */
export function need(valid: boolean, reason: string): asserts valid {
  if (!valid) throw new WireFormatError(reason);
}

/** Refuse an argument unless something holds. */
export function demand(valid: boolean, reason: string): asserts valid {
  if (!valid) throw new InvalidInputError(reason);
}
