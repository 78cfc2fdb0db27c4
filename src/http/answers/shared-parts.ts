/**
 * Parts shared by many answers, such as the repository of each pull request in a list. Their JSON, the main cost of
 * such answers, is created once.
 */
import { randomBytes } from 'node:crypto'

/** Placeholder of a part. It is random, so a client's text cannot contain it. */
const MARK = randomBytes(16).toString('hex')
const QUOTED = `"${MARK}"`

/** The JSON of each part. */
const texts = new WeakMap<object, string>()
/** The value being serialized and the JSON of its parts in order; undefined outside of a serialization. */
let current: { whole: unknown; parts: string[] } | undefined

/** Marks a value as shared. It must not change from now on. */
export function shared<T extends object>(part: T): T {
  return Object.defineProperty(part, 'toJSON', { value: placeholderOf })
}

/** Replaces a part by the placeholder in our serialization; returns the part in any other. */
function placeholderOf(this: object): object | string {
  if (current === undefined || current.whole === this) return this
  current.parts.push(partText(this))
  return MARK
}

function partText(part: object): string {
  const text = texts.get(part) ?? write(part)
  texts.set(part, text)
  return text
}

/** Serializes a value. Joins the texts of parts without copying: many rows share the text of their repository. */
function write(whole: unknown): string {
  const outer = current
  const parts: string[] = []
  current = { whole, parts }
  try {
    const [first = '', ...others] = JSON.stringify(whole).split(QUOTED)
    return others.reduce((text, after, i) => `${text}${parts[i]}${after}`, first)
  } finally {
    current = outer
  }
}

/** Returns the same text as `JSON.stringify`. The value is an object, a list or null. */
export function jsonOf(value: unknown): string {
  const isShared =
    typeof value === 'object' && value !== null && 'toJSON' in value && value.toJSON === placeholderOf
  return isShared ? partText(value) : write(value)
}
