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

/** The check of a schema. It is compiled when it is called first, which is slow, so keep the result. */
export function checkOf<S extends TSchema>(schema: S): Check<Static<S>> {
  let compiled: Check<Static<S>> | undefined
  const check: Check<Static<S>> = (value): value is Static<S> => {
    compiled ??= ajv.compile<Static<S>>(schema)
    const matches = compiled(value)
    check.errors = compiled.errors
    return matches
  }
  return check
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
