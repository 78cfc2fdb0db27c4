/** Finds a page of issues in one or many repositories. */
import { type Static, Type } from 'typebox'
import { TimeRangeQuery } from '../../api/time-range.ts'
import { accountIdNamed } from '../../api/users/users.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { type Page, PageQuery } from '../../http/requests/paging.ts'
import { RepeatedText } from '../../http/requests/repeated-text.ts'
import { type IssueSelection, repoIdIn } from '../../projections/models/issues/issue-selection.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import { wordsOf } from '../../projections/models/issues/words.ts'
import type { Filter, FoundPage, Row } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'
import { updatedBetween } from '../paged-list.ts'

export interface IssueQuery {
  filter: Filter<IssueSelection>
  /** Each must be the prefix of a word of the issue; undefined without a keyword. */
  words: readonly string[] | undefined
}

type Slice = Pick<Page, 'skip' | 'limit'>

/** The query parameters that lists of issues and searches share. */
export const IssueListQuery = Type.Object({
  state: OptionalText('State: open (default), closed or all'),
  labels: RepeatedText('Names, separated by commas; the issue has at least one of them'),
  q: OptionalText('Words in the title, the body or the comments'),
  type: OptionalText('Only issues or only pull requests; default: both'),
  created_by: OptionalText('Login of the author'),
  assigned_by: OptionalText('Login of an assignee'),
  mentioned_by: OptionalText('Login of a mentioned user'),
  ...TimeRangeQuery,
  ...PageQuery,
})

/** Filters by the shared parameters except labels. @throws Refused (unprocessable) for an invalid date-time */
export function sharedFilter({ state, type, ...times }: Static<typeof IssueListQuery>) {
  const filter: Filter<IssueSelection> = updatedBetween(times)
  // `search.1`: anything but `closed` and `all` means open.
  if (state !== 'all') filter.state = state === 'closed' ? 'closed' : 'open'
  // Anything but `issues` and `pulls` means both.
  if (type === 'issues' || type === 'pulls') filter.isPull = type === 'pulls'
  return filter
}

/** Returns the part of the filter for users. An unknown login matches nothing. */
export async function peopleFilter(
  services: Services,
  { created_by, assigned_by, mentioned_by }: Static<typeof IssueListQuery>,
): Promise<Filter<IssueSelection>> {
  const filter: Filter<IssueSelection> = {}
  if (created_by) filter.posterId = await accountIdNamed(services, created_by)
  if (assigned_by) filter.assigneeIds = await accountIdNamed(services, assigned_by)
  if (mentioned_by) filter.mentionedIds = await accountIdNamed(services, mentioned_by)
  return filter
}

/** Maximum number of words in a query; further ones are discarded. */
const MAX_WORDS = 50

/**
 * `search.2`: a keyword is trimmed; one with a NUL character is ignored, like an empty one. A keyword without letters
 * and digits (`!!!`) matches nothing.
 */
export function searchedWords(q = ''): string[] | undefined {
  return q.trim() === '' || q.includes('\0') ? undefined : wordsOf(q).slice(0, MAX_WORDS)
}

const NEWEST = [['id', -1]] as const

/**
 * Returns a page of the issues in these repositories, newest first. The issues of repository `first` come before all
 * others.
 */
export async function issuePage(
  services: Services,
  repoIds: readonly number[],
  query: IssueQuery,
  { skip, limit }: Slice,
  first?: number,
): Promise<FoundPage<IssueDocument>> {
  if (query.words?.length === 0) return { rows: [], total: 0 }
  if (first !== undefined && repoIds.length > 1 && repoIds.includes(first)) {
    const others = repoIds.filter((id) => id !== first)
    const own = await issuePage(services, [first], query, { skip, limit })
    const slice = { skip: Math.max(0, skip - own.total), limit: limit - own.rows.length }
    const rest = await issuePage(services, others, query, slice)
    return { rows: [...own.rows, ...rest.rows], total: own.total + rest.total }
  }
  const [only, ...others] = repoIds
  const repoId = only !== undefined && others.length === 0 ? only : { $in: repoIds }
  const filter = { ...query.filter, repoId }
  const { issues } = services.views
  const page = { sort: NEWEST, skip, limit }
  if (query.words !== undefined) return issues.page({ ...filter, words: { $words: query.words } }, page)
  if (isNarrow(filter)) return issues.page(filter, page)
  const total = await issues.count(filter)
  if (skip >= total || limit === 0) return { rows: [], total }
  const scanned = await scan(services, new Set(repoIds), query.filter, { skip, limit })
  return { rows: scanned ?? (await issues.rows(filter, page)), total }
}

const NARROW = [
  'labelIds',
  'assigneeIds',
  'milestoneId',
  'posterId',
  'reviewerIds',
  'requestedReviewerIds',
  'mentionedIds',
  'updatedAt',
]

/** Whether an index finds few issues, which are then filtered by repository. */
function isNarrow(filter: Filter<IssueSelection>): boolean {
  if (typeof filter.repoId === 'number') return true
  return NARROW.some((field) => Object.hasOwn(filter, field))
}

const CHUNK = 100
const MAX_CHUNKS = 20

/**
 * Scans the newest issues of all repositories until the page is full. Much faster than a look-up per repository, if the
 * requester can read most of them. Undefined when the page is not full after `MAX_CHUNKS` reads.
 */
async function scan(
  { views }: Services,
  repoIds: ReadonlySet<number>,
  filter: Filter<IssueSelection>,
  { skip, limit }: Slice,
): Promise<Row<IssueDocument>[] | undefined> {
  const found: Row<IssueDocument>[] = []
  let passed = 0
  let last: number | undefined
  for (let i = 0; i < MAX_CHUNKS; i++) {
    const older = last === undefined ? filter : { ...filter, id: { $lt: last } }
    const chunk = await views.issues.rows(older, { sort: NEWEST, limit: CHUNK })
    for (const row of chunk) {
      if (!repoIds.has('body' in row ? row.body.repoId : repoIdIn(row.id))) continue
      if (passed >= skip) found.push(row)
      passed += 1
      if (found.length === limit) return found
    }
    if (chunk.length < CHUNK) return found
    const end = chunk.at(-1)
    if (end !== undefined) last = ('body' in end ? end.body : await views.issues.get(end.id))?.id
    // The issue was just deleted, so the scan has no cursor.
    if (last === undefined) return undefined
  }
  return undefined
}
