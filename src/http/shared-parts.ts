/**
 * Parts that many rows of an answer share, such as the repository of each pull request of a list: their JSON is made
 * once. It is most of what such a list would take.
 */
import { randomBytes } from 'node:crypto'

/** Stands in a text for a part. Nobody can know it, so no text of a client has it. */
const MARK = randomBytes(16).toString('hex')
const QUOTED = `"${MARK}"`

/** The JSON of each part. */
const texts = new WeakMap<object, string>()
/** The parts of the answer that is written now, in their order; undefined while none is. */
let written: string[] | undefined

/** Notes that a value is shared. From here on, nobody may change it. */
export function shared<T extends object>(part: T): T {
  return Object.defineProperty(part, 'toJSON', { value: placeOf })
}

/** What `JSON.stringify` writes for a part: a mark, where the text is put in later; all of it in any other JSON. */
function placeOf(this: object): object | string {
  if (written === undefined) return this
  const text = texts.get(this) ?? alone(this)
  texts.set(this, text)
  written.push(text)
  return MARK
}

/** The JSON of a value that is no other answer's part. */
function alone(value: unknown): string {
  const outer = written
  written = undefined
  try {
    return JSON.stringify(value)
  } finally {
    written = outer
  }
}

/** The same text as `JSON.stringify`. The value is an object, a list or null. */
export function jsonOf(value: unknown): string {
  const parts: string[] = []
  written = parts
  try {
    const [first = '', ...others] = JSON.stringify(value).split(QUOTED)
    return others.reduce((text, after, i) => `${text}${parts[i]}${after}`, first)
  } finally {
    written = undefined
  }
}
