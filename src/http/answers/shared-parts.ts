/**
 * Parts that many answers share, such as the repository of each pull request of a list, or a row that has not changed:
 * their JSON is made once. It is most of what such an answer would take.
 */
import { randomBytes } from 'node:crypto'

/** Stands in a text for a part. Nobody can know it, so no text of a client has it. */
const MARK = randomBytes(16).toString('hex')
const QUOTED = `"${MARK}"`

/** The JSON of each part. */
const texts = new WeakMap<object, string>()
/** What is written now: the value itself, and the JSON of its parts in their order; undefined while nothing is. */
let written: { whole: unknown; parts: string[] } | undefined

/** Notes that a value is shared. From here on, nobody may change it. */
export function shared<T extends object>(part: T): T {
  return Object.defineProperty(part, 'toJSON', { value: placeOf })
}

/** What `JSON.stringify` writes for a part: a mark, where the text is put in later; all of it in any other JSON. */
function placeOf(this: object): object | string {
  if (written === undefined || written.whole === this) return this
  written.parts.push(partText(this))
  return MARK
}

function partText(part: object): string {
  const text = texts.get(part) ?? write(part)
  texts.set(part, text)
  return text
}

/** JSON in which the texts of parts are joined, not copied: many rows hold one text of their repository. */
function write(whole: unknown): string {
  const outer = written
  const parts: string[] = []
  written = { whole, parts }
  try {
    const [first = '', ...others] = JSON.stringify(whole).split(QUOTED)
    return others.reduce((text, after, i) => `${text}${parts[i]}${after}`, first)
  } finally {
    written = outer
  }
}

/** The same text as `JSON.stringify`. The value is an object, a list or null. */
export function jsonOf(value: unknown): string {
  const isShared =
    typeof value === 'object' && value !== null && 'toJSON' in value && value.toJSON === placeOf
  return isShared ? partText(value) : write(value)
}
