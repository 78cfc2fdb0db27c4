/** Checks JSON that does not come with a request, with the validator that fastify uses for requests. */
import { Ajv, type ErrorObject } from 'ajv'
import type { Static, TSchema } from 'typebox'

/** Tells whether a value matches a schema. Fields that the schema doesn't name are allowed. */
export interface Check<T> {
  (value: unknown): value is T
  /** The first error in the last value. */
  errors?: readonly ErrorObject[] | null | undefined
}

const ajv = new Ajv()

/** Compiles the check of a schema. Compiling is slow, so keep the result. */
export function checkOf<S extends TSchema>(schema: S): Check<Static<S>> {
  return ajv.compile<Static<S>>(schema)
}

/** Returns the value when it matches the schema. @throws TypeError with the first error */
export function checked<T>(check: Check<T>, value: unknown): T {
  if (check(value)) return value
  throw new TypeError(problemOf(check))
}

/** The error in the last value, in words: `/height must be string`. */
export function problemOf<T>({ errors }: Check<T>): string {
  const [first] = errors ?? []
  return first === undefined
    ? 'the JSON does not match its schema'
    : `${first.instancePath || 'the answer'} ${first.message}`
}
