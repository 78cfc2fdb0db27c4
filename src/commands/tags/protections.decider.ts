/** Decides changes of a repository's tag protections. Pure. */
import { isDeepStrictEqual } from 'node:util'
import { isPattern } from '../../access/glob.ts'
import { isRegex, MAX_REGEX_SIZE, regexSize } from '../../access/tag-regex.ts'
import { refuse } from '../../errors/refusal.ts'
import type { RepositoryEvent } from '../../events/catalog/repositories.ts'
import type { TagProtection } from '../../events/catalog/tags.ts'
import type { Decision } from '../execution/decider.ts'
import type { RepositoryState } from '../repositories/repository.decider.ts'

/** Maximum number of tag protections: each tag of a push is matched with all. */
const MAX_PROTECTIONS = 100
/** Maximum length of all patterns, in characters. */
const MAX_PATTERNS_LENGTH = 1000

const gone = refuse.notFound('repository not found')
const unknown = refuse.notFound('tag protection not found')

/** Adds a protection, one for each pattern. */
export function decideAddTagProtection(
  state: RepositoryState,
  given: Pick<TagProtection, 'id' | 'pattern' | 'users' | 'teams'>,
  at: string,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const { id } = given
  if (state.tagProtections.some((protection) => protection.id === id)) {
    return refuse.conflict(`tag protection ${id} exists already`)
  }
  if (state.tagProtections.length >= MAX_PROTECTIONS) {
    return refuse.unprocessable(`a repository can have at most ${MAX_PROTECTIONS} tag protections`)
  }
  return set(state.id, state.tagProtections, { ...given, createdAt: at, updatedAt: at })
}

/** Changes the given fields; no event without a change. */
export function decideEditTagProtection(
  state: RepositoryState,
  id: number,
  given: Partial<Pick<TagProtection, 'pattern' | 'users' | 'teams'>>,
  at: string,
): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const before = state.tagProtections.find((protection) => protection.id === id)
  if (before === undefined) return unknown
  const { teams: teamsBefore, ...rest } = before
  const { teams = teamsBefore, ...changed } = given
  // The field is absent without teams.
  const after = { ...rest, ...changed, ...(teams !== undefined && teams.length > 0 && { teams }) }
  if (isDeepStrictEqual(after, before)) return []
  return set(state.id, state.tagProtections, { ...after, updatedAt: at })
}

export function decideRemoveTagProtection(state: RepositoryState, id: number): Decision<RepositoryEvent> {
  if (state.status !== 'active') return gone
  const before = state.tagProtections.find((protection) => protection.id === id)
  if (before === undefined) return unknown
  return [{ type: 'TagProtectionRemoved', data: { repoId: state.id, id, pattern: before.pattern } }]
}

function set(
  repoId: number,
  protections: readonly TagProtection[],
  protection: TagProtection,
): Decision<RepositoryEvent> {
  const others = protections.filter(({ id }) => id !== protection.id)
  const { pattern } = protection
  if (others.some((each) => each.pattern === pattern)) {
    return refuse.forbidden(`name_pattern: a tag protection for ${pattern} already exists`)
  }
  const all = [...others.map((each) => each.pattern), pattern]
  const regexSizes = all.filter(isRegex).reduce((sum, each) => sum + regexSize(each), 0)
  if (regexSizes > MAX_REGEX_SIZE) {
    return refuse.unprocessable(
      `name_pattern: all regular expressions of a repository together can have at most ${MAX_REGEX_SIZE} parts`,
    )
  }
  const patterns = all.filter((each) => !isRegex(each) && isPattern(each))
  if (patterns.reduce((length, each) => length + each.length, 0) > MAX_PATTERNS_LENGTH) {
    return refuse.unprocessable(
      `name_pattern: all patterns of a repository together can have at most ${MAX_PATTERNS_LENGTH} characters`,
    )
  }
  return [{ type: 'TagProtectionSet', data: { repoId, protection } }]
}
