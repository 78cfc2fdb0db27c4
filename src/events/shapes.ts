/** Checks of the shapes of JSON values. They cost little when the value is right: each event is checked as it is read. */

/**
 * Says what is wrong with a value: undefined when nothing is, else where and what (`.user.id is not a whole number`).
 * `T` is the type of the values that pass. It is there only for the compiler: a check must fit its field's type.
 */
export interface Check<T> {
  (value: unknown): string | undefined
  readonly of?: (value: T) => T
}

export type AnyCheck = (value: unknown) => string | undefined

type Field<D, K extends keyof D> =
  object extends Pick<D, K> ? Check<Plain<D[K]> | undefined> : Check<Plain<D[K]>>

/** A check of lists fits read-only lists, too. */
type Plain<T> = T extends readonly (infer E)[] ? E[] : T

/** A check for each field of an object. */
export type Checks<D> = { readonly [K in keyof D]-?: Field<D, K> }

export const text: Check<string> = (value) => (typeof value === 'string' ? undefined : ' is not a text')
export const flag: Check<boolean> = (value) =>
  typeof value === 'boolean' ? undefined : ' is not true or false'
export const whole: Check<number> = (value) =>
  Number.isSafeInteger(value) ? undefined : ' is not a whole number'

/** One of these words. */
export function word<W extends string>(...words: readonly W[]): Check<W> {
  const known: ReadonlySet<unknown> = new Set(words)
  return (value) => (known.has(value) ? undefined : ` is none of ${words.join(', ')}`)
}

export function orNull<T>(check: Check<T>): Check<T | null> {
  return (value) => (value === null ? undefined : check(value))
}

export function optional<T>(check: Check<T>): Check<T | undefined> {
  return (value) => (value === undefined ? undefined : check(value))
}

export function list<T>(check: Check<T>): Check<T[]> {
  return (value) => {
    if (!Array.isArray(value)) return ' is not a list'
    for (let i = 0; i < value.length; i++) {
      const problem = check(value[i])
      if (problem !== undefined) return `[${i}]${problem}`
    }
    return undefined
  }
}

/** An object with these fields. Other fields are not looked at. */
export function object<D extends object>(checks: Checks<D>): Check<D> {
  return fields(checks)
}

/** `object`, without the type of the object. */
export function fields(checks: object): AnyCheck {
  return ofFields(Object.entries(checks))
}

/** An object with any of these fields. */
export function partial<D extends object>(checks: Checks<Required<D>>): Check<Partial<D>> {
  const fields: [string, AnyCheck][] = Object.entries(checks)
  return ofFields(
    fields.map(([name, check]) => [name, (value) => (value === undefined ? undefined : check(value))]),
  )
}

function ofFields(fields: readonly (readonly [name: string, check: AnyCheck])[]): AnyCheck {
  return (value) => {
    if (!isFields(value)) return ' is not an object'
    for (const [name, check] of fields) {
      const problem = check(value[name])
      if (problem !== undefined) return `.${name}${problem}`
    }
    return undefined
  }
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}
