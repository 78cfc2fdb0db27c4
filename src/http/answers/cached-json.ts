/** A cache of the JSON of values that many answers contain, such as the repository of each pull request in a list. */
import { randomBytes } from 'node:crypto'

/** Stands for a cached value in JSON. It is random, so a client's text cannot contain it. */
const PLACEHOLDER = randomBytes(16).toString('hex')
const QUOTED = `"${PLACEHOLDER}"`

const cache = new WeakMap<object, string>()
/** The value being serialized and the cached JSON of its parts in order; undefined outside of a serialization. */
let current: { whole: unknown; parts: string[] } | undefined

/** Marks a value for the cache. It must not change from now on. */
export function withCachedJson<T extends object>(part: T): T {
  return Object.defineProperty(part, 'toJSON', { value: placeholderOf })
}

/** Replaces a part by the placeholder in `serialize`; returns the part in any other serialization. */
function placeholderOf(this: object): object | string {
  if (current === undefined || current.whole === this) return this
  current.parts.push(cachedText(this))
  return PLACEHOLDER
}

function cachedText(part: object): string {
  const text = cache.get(part) ?? serialize(part)
  cache.set(part, text)
  return text
}

/** Joins the texts of parts without copying them, so rows share the text of their repository. */
function serialize(whole: unknown): string {
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
  const isMarked =
    typeof value === 'object' && value !== null && 'toJSON' in value && value.toJSON === placeholderOf
  return isMarked ? cachedText(value) : serialize(value)
}
