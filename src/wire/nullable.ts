/**
 * Schemas of values that may be null.
 *
 * One convention, here and in the types of the domain. `null`: it is known that there is none (no milestone, not
 * merged); so events, documents and answers have it, and the field is always there. `undefined`: it was not given,
 * or a look-up found nothing; it is never stored and never sent.
 */
import { type TSchema, type TSchemaOptions, Type } from 'typebox'

/** A field that is always there, and null when there is no value. */
export const Nullable = <T extends TSchema>(type: T, options?: TSchemaOptions) =>
  Type.Union([type, Type.Null()], options)

/** A field of a request, or a body, that may be left out. Go clients send null for what they leave out. */
export const GivenOrNull = <T extends TSchema>(type: T) => Type.Optional(Nullable(type))
