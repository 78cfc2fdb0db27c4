/** Finding a page of issues, in one repository or in many. */
import { type Static, Type } from 'typebox'
import { type Page, PageQuery } from '../http/paging.ts'
import { TimeRangeQuery } from '../http/time-range.ts'
import { type IssueSelection, issueId } from '../projections/issue-selection.ts'
import type { IssueDocument } from '../projections/issues.ts'
import type { Filter } from '../projections/read-store.ts'
import { wordsOf } from '../projections/words.ts'
import type { Services } from '../services.ts'
import { updatedBetween } from './paged-list.ts'

export interface IssueQuery {
  filter: Filter<IssueSelection>
  /** Each of them must begin a word of the issue; empty when no keyword was given. */
  words: readonly string[]
}

interface IssuePage {
  found: IssueDocument[]
  total: number
}

type Slice = Pick<Page, 'skip' | 'limit'>

/** The part of the query that lists of issues and searches share. */
export const IssueListQuery = {
  state: Type.Optional(Type.String({ description: 'open (default), closed or all' })),
  labels: Type.Optional(
    Type.String({ description: 'names, separated by commas; the issue must have at least one' }),
  ),
  q: Type.Optional(Type.String({ description: 'words in the title, the body or the comments' })),
  type: Type.Optional(Type.String({ description: 'issues or pulls; both when left out' })),
  ...TimeRangeQuery,
  ...PageQuery,
}

/** The filter of the shared part, without labels. @throws Refused (unprocessable) for an invalid date-time */
export function sharedFilter(
  query: Static<ReturnType<typeof Type.Object<typeof IssueListQuery>>>,
): Filter<IssueSelection> {
  return { ...stateOf(query.state), ...kindOf(query.type), ...updatedBetween(query) }
}

/** Search rule 1: `closed` or `all`; anything else means open. */
function stateOf(state: string | undefined): Pick<Filter<IssueSelection>, 'state'> {
  if (state === 'all') return {}
  return { state: state === 'closed' ? 'closed' : 'open' }
}

/** `issues` or `pulls`; anything else means both. */
function kindOf(type: string | undefined): Pick<Filter<IssueSelection>, 'isPull'> {
  if (type === 'issues') return { isPull: false }
  return type === 'pulls' ? { isPull: true } : {}
}

/** A query has at most this many words; further ones are discarded. */
const MAX_WORDS = 50

/** Search rule 2: a keyword is trimmed; one with a NUL character counts as empty. */
export function searchedWords(q: string | undefined): string[] {
  return q === undefined || q.includes('\0') ? [] : wordsOf(q).slice(0, MAX_WORDS)
}

/** Names in a comma separated list, trimmed. */
export function namesIn(list: string | undefined): string[] {
  const names = (list ?? '').split(',').map((name) => name.trim())
  return names.filter((name) => name !== '')
}

const NEWEST = [['id', -1]] as const

/** A page of the issues in these repositories, newest first. The issues of repository `first` come before all others. */
export async function issuePage(
  services: Services,
  repoIds: readonly number[],
  query: IssueQuery,
  { skip, limit }: Slice,
  first?: number,
): Promise<IssuePage> {
  if (first !== undefined && repoIds.length > 1 && repoIds.includes(first)) {
    const others = repoIds.filter((id) => id !== first)
    const own = await issuePage(services, [first], query, { skip, limit })
    const slice = { skip: Math.max(0, skip - own.total), limit: limit - own.found.length }
    const rest = await issuePage(services, others, query, slice)
    return { found: [...own.found, ...rest.found], total: own.total + rest.total }
  }
  const [only] = repoIds
  const inRepositories =
    repoIds.length === 1 && only !== undefined ? { repoId: only } : { repoId: { $in: repoIds } }
  const filter = { ...query.filter, ...inRepositories }
  if (query.words.length > 0) return pageByWords(services, filter, query.words, { skip, limit })
  const total = await services.views.issues.count(filter)
  if (skip >= total || limit === 0) return { found: [], total }
  const walked = isNarrow(filter)
    ? undefined
    : await walk(services, new Set(repoIds), query.filter, { skip, limit })
  const found = walked ?? (await services.views.issues.find(filter, { sort: NEWEST, skip, limit }))
  return { found, total }
}

async function pageByWords(
  { views }: Services,
  filter: Filter<IssueSelection>,
  words: readonly string[],
  slice: Slice,
): Promise<IssuePage> {
  const withWords = { ...filter, words: { $words: words } }
  const [texts, total] = await Promise.all([
    views.issueTexts.find(withWords, { sort: NEWEST, ...slice }),
    views.issueTexts.count(withWords),
  ])
  const ids = texts.map(({ repoId, index }) => issueId(repoId, index))
  return { found: await views.issues.getMany(ids), total }
}

/** Whether an index finds few issues, so that the condition on repositories only has to filter these. */
function isNarrow(filter: Filter<IssueSelection>): boolean {
  if (typeof filter.repoId === 'number') return true
  return ['labelIds', 'assigneeIds', 'milestoneId', 'posterId'].some((field) => Object.hasOwn(filter, field))
}

const CHUNK = 100
const MAX_CHUNKS = 20

/**
 * Looks through the newest issues of all repositories until the page is full. When the requester can read most of them,
 * this is much faster than looking up the issues of each repository. Undefined when the page is not full after
 * `MAX_CHUNKS` reads.
 */
async function walk(
  { views }: Services,
  repoIds: ReadonlySet<number>,
  filter: Filter<IssueSelection>,
  { skip, limit }: Slice,
): Promise<IssueDocument[] | undefined> {
  const found: IssueDocument[] = []
  let passed = 0
  let last: number | undefined
  for (let i = 0; i < MAX_CHUNKS; i++) {
    const older = last === undefined ? filter : { ...filter, id: { $lt: last } }
    const chunk = await views.issues.find(older, { sort: NEWEST, limit: CHUNK })
    for (const issue of chunk) {
      if (!repoIds.has(issue.repoId)) continue
      if (passed >= skip) found.push(issue)
      passed += 1
      if (found.length === limit) return found
    }
    if (chunk.length < CHUNK) return found
    last = chunk.at(-1)?.id
  }
  return undefined
}
