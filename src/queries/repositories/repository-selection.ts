/** Parameters of a repository search as filters of the read model. */
import { type Static, Type } from 'typebox'
import { readableBy } from '../../access/access.ts'
import { readerIdsOf } from '../../access/visibility.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { wordsOf } from '../../projections/models/issues/words.ts'
import { partNamed } from '../../projections/models/repositories/name-parts.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import type { TeamRepositories } from '../organizations/team-repositories.ts'

export const RepositorySearchQuery = Type.Object({
  q: OptionalText('Part of the name or of a topic; or `owner/` and a part of the name'),
  topic: OptionalText('true: q is a topic, or several separated by commas; the repository has one of them'),
  includeDesc: OptionalText('true: also search the description'),
  uid: OptionalText('Id of an account: only repositories that it owns or has permissions in'),
  priority_owner_id: OptionalText('Id of the owner whose repositories come first'),
  owner: OptionalText('Login of the owner'),
  private: OptionalText('false: without private repositories'),
  is_private: OptionalText('true: only private repositories; false: none of them'),
  template: OptionalText('true: only templates; false: none of them'),
  archived: OptionalText('true: only archived repositories; false: none of them'),
  mode: OptionalText('Kind of repository: fork, source, mirror or collaborative'),
  exclusive: OptionalText('true: only repositories that the account of uid owns'),
  starredBy: OptionalText('Id of a user who has starred the repository'),
  team_id: OptionalText(
    "Id of a team with access to the repository; the caller must be in the team's organization",
  ),
  sort: OptionalText('Order of the repositories; default alpha'),
  order: OptionalText('Direction of the order; needs sort'),
})
type Query = Static<typeof RepositorySearchQuery>
type Selection = Filter<RepositoryDocument>

/** The accounts of `uid` and `owner`, and other look-ups. */
export interface SearchedAccounts {
  member: AccountDocument | undefined
  owner: AccountDocument | undefined
  /** Ids starred by the user of `starredBy`; undefined without that parameter. */
  starred?: readonly number[]
  /** Repositories of the team of `team_id`; undefined without that parameter. */
  ofTeam?: TeamRepositories
}

const MODES: readonly string[] = ['', 'fork', 'source', 'mirror', 'collaborative']
type SortField = 'key' | 'createdAt' | 'updatedAt' | 'id' | 'stars' | 'forks'
const SORTS: Readonly<Record<string, SortField | undefined>> = {
  alpha: 'key',
  created: 'createdAt',
  updated: 'updatedAt',
  id: 'id',
  stars: 'stars',
  forks: 'forks',
}

function refused(field: string, problem: string): Refused {
  const reason = `${field}: ${problem}`
  return new Refused(refuse.unprocessable(reason, [reason]))
}

/** Returns a boolean parameter, or undefined when it is absent. */
const choiceOf = (text: string | undefined) =>
  text === undefined || text === '' ? undefined : flagOf(text, false)

function keywordFilter({ q = '', topic, includeDesc }: Query): { filter: Selection; owner?: string } {
  const keyword = q.trim()
  if (keyword === '') return { filter: {} }
  if (flagOf(topic, false)) {
    const topics = keyword.split(',').map((one) => one.trim().toLowerCase())
    return { filter: { topics: { $in: topics } } }
  }
  if (keyword.includes(',')) throw refused('q', 'several keywords require topic=true')
  const [owner = '', name] = keyword.split('/')
  const part = partNamed(name ?? keyword)
  const named: Selection = part === undefined ? {} : { nameParts: { $words: [part] } }
  if (name !== undefined) return { filter: named, owner }
  if (!flagOf(includeDesc, false)) return { filter: named }
  // A part of the name, or words of the description, as in the search of issues.
  const words = wordsOf(keyword)
  const all = part !== undefined && words.length < 2 ? [part] : words
  return { filter: { allParts: { $words: all } } }
}

/**
 * Returns the filter for repositories in which an account has permissions. The account itself and site
 * admins also see repositories that are shared with it; other callers see those that it and its organizations own.
 */
function memberFilter(
  { mode, exclusive }: Query,
  member: AccountDocument,
  requester: AccountDocument | null,
): { filter: Selection; owners?: number[] } {
  const { id, kind, memberships } = member
  const organizations = Object.keys(memberships).map(Number)
  const isCollaborative = mode === 'collaborative'
  if (flagOf(exclusive, false) || kind === 'organization') {
    return { filter: {}, owners: isCollaborative ? [] : [id] }
  }
  const mayKnow = requester !== null && (requester.siteAdmin || requester.id === id)
  if (!mayKnow) return { filter: {}, owners: isCollaborative ? organizations : [id, ...organizations] }
  const all = { $in: readerIdsOf(member) }
  return { filter: isCollaborative ? { guests: all } : { granted: all } }
}

function sortOf({ sort = '', order = '' }: Query): readonly [SortField, 1 | -1] {
  if (sort === '') return ['key', 1]
  const field = Object.hasOwn(SORTS, sort) ? SORTS[sort] : undefined
  if (field === undefined) throw refused('sort', `must be one of ${Object.keys(SORTS).join(', ')}`)
  if (!['', 'asc', 'desc'].includes(order)) throw refused('order', 'must be asc or desc')
  return [field, order === 'desc' ? -1 : 1]
}

/**
 * Returns the parts of the answer in order: the repositories of a preferred owner, then the others. Each is a filter
 * and an order.
 * @throws Refused (unprocessable)
 */
export function repositorySelections(
  query: Query,
  { member, owner, starred, ofTeam }: SearchedAccounts,
  requester: AccountDocument | null,
): { filter: Selection; sort: Sort<RepositoryDocument> }[] {
  const { mode = '', uid, priority_owner_id } = query
  if (!MODES.includes(mode)) throw refused('mode', `must be one of ${MODES.slice(1).join(', ')}`)
  const sort: Sort<RepositoryDocument> = [sortOf(query)]
  const { filter: keyword, owner: ownerInKeyword } = keywordFilter(query)
  const ofMember = member === undefined ? { filter: {} } : memberFilter(query, member, requester)
  const isUnknown = (wanted: string | undefined, found: AccountDocument | undefined) =>
    wanted !== undefined && wanted !== '' && wanted !== '0' && found === undefined
  // Mirrors are not supported.
  if (mode === 'mirror' || isUnknown(uid, member) || isUnknown(ownerInKeyword ?? query.owner, owner))
    return []

  if (ofTeam === 'nothing') return []
  const isPrivate = choiceOf(query.is_private)
  const onlyPublic = choiceOf(query.private) === false
  if (onlyPublic && isPrivate === true) return []
  const template = choiceOf(query.template)
  const archived = choiceOf(query.archived)
  const filter: Selection = {
    ...readableBy(requester),
    ...keyword,
    ...ofMember.filter,
    ...((onlyPublic || isPrivate !== undefined) && { private: isPrivate ?? false }),
    ...(template !== undefined && { template }),
    ...(archived !== undefined && { archived }),
    ...(starred !== undefined && { id: { $in: starred } }),
    ...(ofTeam !== undefined && 'teams' in ofTeam && ofTeam),
    ...(mode === 'source' && { parentId: null }),
    ...(mode === 'fork' && { parentId: { $gte: 1 } }),
  }
  const { owners } = ofMember
  // The searched owner, and the organization of a team with all repositories.
  const named = [owner?.id, ofTeam !== undefined && 'ownerId' in ofTeam ? ofTeam.ownerId : undefined]
  const among = named.reduce(
    (ids: readonly number[] | undefined, only) =>
      only === undefined ? ids : (ids ?? [only]).filter((id) => id === only),
    owners,
  )
  const first = pathNumber(priority_owner_id ?? '')
  if (among !== undefined) {
    const parts =
      first === undefined ? [among] : [among.filter((id) => id === first), among.filter((id) => id !== first)]
    return parts.flatMap((ids) =>
      ids.length === 0 ? [] : [{ filter: { ...filter, ownerId: { $in: ids } }, sort }],
    )
  }
  if (first === undefined) return [{ filter, sort }]
  // As in Gitea, the others are sorted by owner.
  const byOwner: Sort<RepositoryDocument> = [['ownerId', 1], ...sort]
  return [
    { filter: { ...filter, ownerId: first }, sort },
    { filter: { ...filter, ownerId: { $lt: first } }, sort: byOwner },
    { filter: { ...filter, ownerId: { $gt: first } }, sort: byOwner },
  ]
}

/** Returns the login of the owner in the keyword or in `owner`. */
export function ownerIn(query: Query): string | undefined {
  return (keywordFilter(query).owner ?? query.owner) || undefined
}
