/** JSON that does not come with a request, checked by the validator that checks requests. */
import { Ajv, type ErrorObject } from 'ajv'
import type { Static, TSchema } from 'typebox'

/** Whether a value is what the schema says; what is not said in it may be there, too. */
export interface Check<T> {
  (value: unknown): value is T
  /** What was wrong with the last value: the first thing that was found. */
  errors?: readonly ErrorObject[] | null | undefined
}

const ajv = new Ajv()

/** The check of a schema; made once for each. */
export function checkOf<S extends TSchema>(schema: S): Check<Static<S>> {
  return ajv.compile<Static<S>>(schema)
}

/** The value itself when it is what the schema says. @throws TypeError that says what is wrong */
export function checked<T>(check: Check<T>, value: unknown): T {
  if (check(value)) return value
  throw new TypeError(problemOf(check))
}

/** In words: `/height must be string`. */
export function problemOf<T>({ errors }: Check<T>): string {
  const [first] = errors ?? []
  return first === undefined
    ? 'not what it should be'
    : `${first.instancePath || 'the answer'} ${first.message}`
}
