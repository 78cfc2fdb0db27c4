/**
 * Patterns of branch names and of status contexts, with Gitea's syntax. `*` matches any number of characters and `?` one
 * character, but not the separator. `**` matches any number of any characters. `[a-z]` and `[!a-z]` match one character
 * of a set, `{a,b}` one of several patterns. `\` makes the next character literal.
 *
 * Patterns come from users. Regular expressions, and the libraries that use them, try the possible matches one after
 * another, and their time can be exponential in the pattern. This matcher follows all possible matches together: its
 * time is at most the length of the pattern times the length of the name. See `docs/decisions/glob-matcher.md`.
 */
import { LRUCache } from 'lru-cache'

/** A step of a pattern, in the order of the pattern. A match in progress is at one or more steps. */
type Step =
  /** Takes one character and goes to the next step. */
  | { kind: 'one'; takes: (character: number) => boolean }
  | { kind: 'literal'; character: number }
  /** Takes characters and stays at this step, or goes to the next step without a character. */
  | { kind: 'many'; separator: boolean }
  /** Goes to one of these steps without a character. All of them are later steps. */
  | { kind: 'choice'; next: number[] }

/** A pattern that is ready to match; undefined when it is malformed. */
type Compiled = readonly Step[] | undefined

/** Whether the whole `name` matches. A malformed pattern matches only the name that equals it. */
export function globMatches(pattern: string, name: string, separator?: string): boolean {
  if (!isPattern(pattern)) return pattern === name
  const steps = compiled(pattern, separator)
  return steps === undefined ? pattern === name : runs(steps, name, separator)
}

/** Whether the text contains special characters of patterns. */
export function isPattern(text: string): boolean {
  return /[*?[\]{}\\]/.test(text)
}

/** Returns why the pattern is malformed; undefined for a valid one. */
export function globProblem(pattern: string): string | undefined {
  const parsed = parse(pattern, undefined)
  return 'problem' in parsed ? parsed.problem : undefined
}

const known = new LRUCache<string, { steps: Compiled }>({ max: 2000 })

function compiled(pattern: string, separator: string | undefined): Compiled {
  const key = `${separator ?? ''}\0${pattern}`
  const before = known.get(key)
  if (before !== undefined) return before.steps
  const parsed = parse(pattern, separator)
  const steps = 'steps' in parsed ? parsed.steps : undefined
  known.set(key, { steps })
  return steps
}

function runs(steps: readonly Step[], name: string, separator: string | undefined): boolean {
  const end = steps.length
  const separating = separator?.codePointAt(0)
  // By step: 1 when a match of the characters so far is at that step.
  let here = new Uint8Array(end + 1)
  let there = new Uint8Array(end + 1)
  here[0] = 1
  for (let at = 0; at < end; at++) if (here[at] === 1) followFree(steps[at], at, here)
  for (const text of name) {
    const character = text.codePointAt(0) ?? 0
    there.fill(0)
    let alive = false
    // A step goes only to itself or to later steps, so one pass in order reaches all of them.
    for (let at = 0; at < end; at++) {
      if (here[at] === 0 && there[at] === 0) continue
      const step = steps[at]
      if (here[at] === 1 && step !== undefined && takes(step, character, separating)) {
        there[step.kind === 'many' ? at : at + 1] = 1
        alive = true
      }
      if (there[at] === 1) followFree(step, at, there)
    }
    if (!alive) return false
    const spare = here
    here = there
    there = spare
  }
  return here[end] === 1
}

function takes(step: Step, character: number, separating: number | undefined): boolean {
  switch (step.kind) {
    case 'literal':
      return step.character === character
    case 'many':
      return step.separator || character !== separating
    case 'one':
      return step.takes(character)
    case 'choice':
      return false
  }
}

/** Marks the steps that a match at this step reaches without a character. */
function followFree(step: Step | undefined, at: number, reached: Uint8Array): void {
  if (step?.kind === 'many') reached[at + 1] = 1
  else if (step?.kind === 'choice') for (const next of step.next) reached[next] = 1
}

type Parsed = { steps: readonly Step[] } | { problem: string }

/** A `{…}` that is still open. `alternatives`: where each begins; `ends`: filled with the step after the `}`. */
interface OpenGroup {
  alternatives: number[]
  ends: number[][]
}

function parse(pattern: string, separator: string | undefined): Parsed {
  const separating = separator?.codePointAt(0)
  const steps: Step[] = []
  const groups: OpenGroup[] = []
  const characters = [...pattern]
  for (let i = 0; i < characters.length; i++) {
    const character = characters[i] ?? ''
    const group = groups.at(-1)
    switch (character) {
      case '*': {
        const double = characters[i + 1] === '*'
        if (double) i += 1
        steps.push({ kind: 'many', separator: double })
        break
      }
      case '?':
        steps.push({ kind: 'one', takes: (taken) => taken !== separating })
        break
      case '[': {
        const set = parseSet(characters, i + 1)
        if (typeof set === 'string') return { problem: set }
        steps.push({ kind: 'one', takes: set.takes })
        i = set.end
        break
      }
      case '{': {
        const alternatives = [steps.length + 1]
        steps.push({ kind: 'choice', next: alternatives })
        groups.push({ alternatives, ends: [] })
        break
      }
      case ',':
      case '}': {
        if (group === undefined) {
          if (character === '}') return { problem: "has a '}' without a '{'" }
          steps.push(literal(character))
          break
        }
        const end: number[] = []
        steps.push({ kind: 'choice', next: end })
        group.ends.push(end)
        if (character === ',') {
          group.alternatives.push(steps.length)
        } else {
          for (const leading of group.ends) leading.push(steps.length)
          groups.pop()
        }
        break
      }
      case '\\': {
        const escaped = characters[++i]
        if (escaped === undefined) return { problem: "ends with a '\\'" }
        steps.push(literal(escaped))
        break
      }
      default:
        steps.push(literal(character))
    }
  }
  return groups.length === 0 ? { steps } : { problem: "has a '{' without a '}'" }
}

function literal(character: string): Step {
  return { kind: 'literal', character: character.codePointAt(0) ?? 0 }
}

/** The set that begins at `start`, after its `[`; `end` is the index of its `]`. A string is the problem. */
function parseSet(
  characters: readonly string[],
  start: number,
): { takes: (character: number) => boolean; end: number } | string {
  const negated = characters[start] === '!' || characters[start] === '^'
  const members: { from: number; to: number }[] = []
  let range = false
  for (let i = negated ? start + 1 : start; i < characters.length; i++) {
    let character = characters[i]
    if (character === ']') {
      if (members.length === 0 || range) return "has a '[…]' that names no characters"
      const takes = (taken: number) =>
        members.some(({ from, to }) => from <= taken && taken <= to) !== negated
      return { takes, end: i }
    }
    const last = members.at(-1)
    if (character === '-' && !range && last !== undefined && characters[i + 1] !== ']') {
      range = true
      continue
    }
    if (character === '\\') character = characters[++i]
    const code = character?.codePointAt(0)
    if (code === undefined) break
    if (range && last !== undefined) {
      if (code < last.from) return "has a '[…]' with a range that ends before it begins"
      last.to = code
      range = false
    } else {
      members.push({ from: code, to: code })
    }
  }
  return "has a '[' without a ']'"
}
