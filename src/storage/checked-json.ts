/** Checks JSON from sources other than requests. */
import type { Static, TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/schema'

/** Checks a value against a schema. Fields that the schema doesn't name are allowed. */
export interface Check<T> {
  (value: unknown): value is T
  /** Describes the first error in a value that does not match: `/height must be string`. `name` names the value. */
  problem(value: unknown, name?: string): string
}

/** Creates the check of a schema. Reuse it: it is compiled once, at the first use. */
export function checkOf<S extends TSchema>(schema: S): Check<Static<S>> {
  let compiled: Validator | undefined
  function validator(): Validator {
    compiled ??= Compile(schema)
    return compiled
  }
  const check = (value: unknown): value is Static<S> => validator().Check(value)
  return Object.assign(check, {
    problem(value: unknown, name = '') {
      const [, [first]] = validator().Errors(value)
      return `${name + (first?.instancePath ?? '') || 'the JSON'} ${first?.message ?? 'does not match its schema'}`
    },
  })
}

/** Returns the value when it matches the schema. @throws TypeError with the first error */
export function checked<T>(check: Check<T>, value: unknown): T {
  if (check(value)) return value
  throw new TypeError(check.problem(value))
}
