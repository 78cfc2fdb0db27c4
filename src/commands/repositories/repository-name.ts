/** Checks names of repositories by Gitea's rules; a name must not look like a command-line option. */
import { Refused, refuse } from '../../errors/refusal.ts'

const MAX_LENGTH = 100
const RESERVED_NAMES = new Set(['.', '..'])
const RESERVED_ENDINGS = ['.git', '.wiki', '.rss', '.atom']

/** Returns a valid name. @throws Refused (unprocessable) */
export function requireRepositoryName(name: string): string {
  const problem = repositoryNameProblem(name)
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`name: ${problem}`, [`name: ${problem}`]))
  return name
}

/** Returns what is invalid in a name; undefined for a valid one. */
export function repositoryNameProblem(name: string): string | undefined {
  if (name.length === 0) return 'must not be empty'
  if (name.length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) return 'may only have letters, digits, "-", "_" and "."'
  if (name.startsWith('-')) return 'must not begin with "-"'
  if (RESERVED_NAMES.has(name)) return `"${name}" is reserved`
  const ending = RESERVED_ENDINGS.find((reserved) => name.toLowerCase().endsWith(reserved))
  return ending === undefined ? undefined : `names that end with "${ending}" are reserved`
}
