/**
 * Schemas of values that may be null.
 *
 * The convention, here and in the types of the domain: `null` means that there is no value (no milestone, not merged).
 * Events, documents and answers use it, and the field is always there. `undefined` means that a value was not given, or
 * that a look-up found nothing. It is never stored and never sent.
 */
import { type TSchema, type TSchemaOptions, Type } from 'typebox'

/** A field that is always there; null when there is no value. */
export const Nullable = <T extends TSchema>(type: T, options?: TSchemaOptions) =>
  Type.Union([type, Type.Null()], options)
