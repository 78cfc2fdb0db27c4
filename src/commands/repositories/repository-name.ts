/** Names that a repository may have: Gitea's rule, and none that looks like an option. */
import { Refused, refuse } from '../../refusal.ts'

const MAX_LENGTH = 100
const RESERVED_NAMES = new Set(['.', '..'])
const RESERVED_ENDINGS = ['.git', '.wiki', '.rss', '.atom']

/** Refuses (422) what Gitea refuses: other characters than letters, digits, `-`, `_`, `.`, and reserved names. */
export function requireRepositoryName(name: string): string {
  const problem = repositoryNameProblem(name)
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`name: ${problem}`, [`name: ${problem}`]))
  return name
}

export function repositoryNameProblem(name: string): string | undefined {
  if (name.length === 0) return 'must not be empty'
  if (name.length > MAX_LENGTH) return `must have at most ${MAX_LENGTH} characters`
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) return 'may only have letters, digits, "-", "_" and "."'
  if (name.startsWith('-')) return 'must not begin with "-"'
  if (RESERVED_NAMES.has(name)) return `"${name}" is reserved`
  const ending = RESERVED_ENDINGS.find((reserved) => name.toLowerCase().endsWith(reserved))
  return ending === undefined ? undefined : `names that end with "${ending}" are reserved`
}
