/** Checks JSON that does not come with a request, with the validator that fastify uses for requests. */
import { Ajv, type AnySchema, type ErrorObject, type ValidateFunction } from 'ajv'
import type { Static, TSchema } from 'typebox'

/** Tells whether a value matches a schema. Fields that the schema doesn't name are allowed. */
export interface Check<T> {
  (value: unknown): value is T
  /** The first error in the last value. */
  errors?: ErrorObject[] | null
}

/** Our own schemas need no check themselves: to compile the schema of schemas takes 0.1 s of a start. */
export const schemasAreOurs = { meta: false, validateSchema: false } as const

const ajv = new Ajv(schemasAreOurs)

/** The check of a schema. Keep it: it is compiled once, at the first use. */
export function checkOf<S extends TSchema>(schema: S): Check<Static<S>> {
  return compiledLater<Static<S>>(ajv, schema)
}

/** The check of a schema, which is compiled when it is needed: that takes milliseconds. */
export function compiledLater<T>(compiler: Ajv, schema: AnySchema): Check<T> {
  let compiled: ValidateFunction<T> | undefined
  const check: Check<T> = (value): value is T => {
    compiled ??= compiler.compile<T>(schema)
    const isValid = compiled(value)
    check.errors = compiled.errors ?? null
    return isValid
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
    : `${first.instancePath || 'the JSON'} ${first.message}`
}
