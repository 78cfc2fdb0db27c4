/**
 * Regular expressions of tag protections, between slashes as in Gitea: `/^v\d+$/`. They match any part of a name. They come
 * from users, so they run in an engine that does not backtrack (RE2's, in JavaScript): its time is at most the size of
 * the expression times the length of the name. The size is limited before anything is compiled.
 */
import { LRUCache } from 'lru-cache'
import { RE2JS } from 're2js'

/** Maximum number of parts of all expressions of a repository together, with repetitions written out. */
export const MAX_REGEX_SIZE = 150

/** Whether a pattern is a regular expression. */
export const isRegex = (pattern: string) =>
  pattern.length > 1 && pattern.startsWith('/') && pattern.endsWith('/')

const sourceOf = (pattern: string) => pattern.slice(1, -1)

/** Returns why an expression is refused; undefined for a valid one. */
export function regexProblem(pattern: string): string | undefined {
  const source = sourceOf(pattern)
  // It would hide the rest of the pattern from the size count.
  if (source.includes('\\Q')) return 'quotes with \\Q, which is not supported'
  if (regexSize(pattern) > MAX_REGEX_SIZE) {
    return `has more than ${MAX_REGEX_SIZE} parts, with repetitions written out`
  }
  try {
    RE2JS.compile(source)
    return undefined
  } catch (error) {
    return `is not a regular expression of RE2: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** An escape, a set of characters, a repetition, or any other character. */
const PART = /^(?:\\.|\[\^?\]?(?:\\.|\[:\w*:\]|[^\]\\])*\]?|\{\d+(?:,\d*)?\}|.)/su

/** Returns the number of parts of an expression with each `{n,m}` written out: at least the number of its program's steps. */
export function regexSize(pattern: string): number {
  const source = sourceOf(pattern)
  /** The sizes of the open groups so far, and of the last part of each. */
  const open = [{ size: 0, last: 0 }]
  const top = () => open.at(-1) ?? { size: 0, last: 0 }
  const add = (size: number) => {
    const group = top()
    group.size += size
    group.last = size
  }
  for (let i = 0; i < source.length; ) {
    const part = PART.exec(source.slice(i))?.[0] ?? ''
    i += Math.max(1, part.length)
    if (part === '(') open.push({ size: 2, last: 0 })
    else if (part === ')' && open.length > 1) {
      const { size } = open.pop() ?? { size: 0 }
      add(size)
    } else if (/^\{\d/.test(part)) {
      // An optional part takes one more step.
      const counts = (part.match(/\d+/g) ?? []).map(Number)
      const times = Math.max(1, ...counts) * (counts.length > 1 || part.includes(',') ? 2 : 1)
      const group = top()
      const more = group.last * times
      group.size += more
      group.last += more
    } else if ('*+?'.includes(part)) {
      const group = top()
      group.size += 1
      group.last += 1
    } else add(1)
  }
  return open.reduce((sum, { size }) => sum + size, 0)
}

const known = new LRUCache<string, { compiled: RE2JS | undefined }>({ max: 200 })

/** Whether any part of the name matches. An invalid expression matches no name. */
export function regexMatches(pattern: string, name: string): boolean {
  let entry = known.get(pattern)
  if (entry === undefined) {
    entry = { compiled: compiledOf(pattern) }
    known.set(pattern, entry)
  }
  return entry.compiled?.matcher(name).find() ?? false
}

function compiledOf(pattern: string): RE2JS | undefined {
  return regexProblem(pattern) === undefined ? RE2JS.compile(sourceOf(pattern)) : undefined
}
