/**
 * The views of a moment. Documents that its file lacks (other repositories and what they hold, other accounts, labels of
 * organizations) are replayed from their own streams when they are read.
 */
import { accountRules, repositoryRules } from '../../../access/present-rules.ts'
import type { EventStore } from '../../../events/store/event-store.ts'
import { discussionStream } from '../../../events/streams.ts'
import { commentFold } from '../../../projections/models/comments/comments.fold.ts'
import { issueId, repoIdIn } from '../../../projections/models/issues/issue-selection.ts'
import { type IssueDocument, issueFold } from '../../../projections/models/issues/issues.fold.ts'
import {
  type ReferenceDocument,
  referenceFold,
  referenceId,
  streamOfReferences,
} from '../../../projections/models/issues/references.fold.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../../projections/models/users/accounts.fold.ts'
import type { Filter, FindOptions, Row } from '../../../projections/store/read-store.ts'
import type { View } from '../../../projections/views/view.ts'
import type { Views } from '../../../projections/views/views.ts'
import type { MomentPoint, Subject } from '../../../services/moment.ts'
import type { AnswerServices, HistoryServices } from '../../../services/services.ts'
import { documentReplayer, pastDocuments, readOnce, withoutHidden } from '../replay/past-documents.ts'

type Services = AnswerServices & HistoryServices & { events: EventStore }

const byId = ({ id }: { id: number }) => `${id}`

/** Adds the documents that a view lacks. `others` reads them; they are not in its lists. */
function withOthers<D extends object>(
  own: View<D>,
  idOf: (document: D) => string,
  others: { getMany(ids: readonly string[]): Promise<D[]> },
): View<D> {
  async function getMany(ids: readonly string[]): Promise<D[]> {
    const found = new Map((await own.getMany(ids)).map((document) => [idOf(document), document]))
    const missing = ids.filter((id) => !found.has(id))
    if (missing.length > 0) {
      for (const document of await others.getMany(missing)) found.set(idOf(document), document)
    }
    return ids.flatMap((id) => found.get(id) ?? [])
  }
  return { ...own, getMany, get: async (id) => (await getMany([id]))[0] }
}

/** Leaves documents out. The file has those of forks, too, but without the later events of their own streams. */
const limitedTo = <D extends object>(view: View<D>, isOwn: (id: string) => boolean): View<D> => ({
  ...view,
  getMany: (ids) => view.getMany(ids.filter(isOwn)),
})

/** Changes each document that a view returns. */
function eachShown<D extends object>(
  view: View<D>,
  shown: (documents: readonly D[]) => Promise<D[]>,
): View<D> {
  async function rowsShown(rows: readonly Row<D>[]): Promise<Row<D>[]> {
    const bodies = (await shown(rows.flatMap((row) => ('body' in row ? [row.body] : [])))).values()
    return rows.map((row) => {
      const body = 'body' in row ? bodies.next().value : undefined
      return body === undefined ? row : { body }
    })
  }
  return {
    ...view,
    get: async (id) => (await shown(await view.getMany([id])))[0],
    getMany: async (ids) => shown(await view.getMany(ids)),
    find: async (filter, options) => shown(await view.find(filter, options)),
    rows: async (filter, options) => rowsShown(await view.rows(filter, options)),
    async page(filter, options) {
      const { rows, total } = await view.page(filter, options)
      return { rows: await rowsShown(rows), total }
    },
  }
}

/** Number of issues of other repositories that are looked at. */
const MAX_BLOCKED = 1000

/** The fields of accounts that say to which organizations, teams and repositories they belong. */
const GROUPS = [
  'grantIds',
  'writeGrantIds',
  'organizationIds',
  'publicOrganizationIds',
  'teamIds',
  'ownedIds',
]

const isByGroup = (filter: Filter<AccountDocument>) => GROUPS.some((field) => field in filter)

/** Whether a member has hidden the membership since. */
const hasHidden = ({ organizationIds, publicOrganizationIds }: AccountDocument, organizationId: number) =>
  organizationIds.includes(organizationId) && !publicOrganizationIds.includes(organizationId)

/**
 * Accounts. What a user hides now is hidden in the past: addresses, memberships, and the profiles of deleted users. Names and
 * addresses find the account that has them now.
 */
function accountsThen(own: View<AccountDocument>, present: View<AccountDocument>): View<AccountDocument> {
  const known = new WeakMap<AccountDocument, { now: AccountDocument; shown: AccountDocument }>()

  function shownAs(past: AccountDocument, now: AccountDocument): AccountDocument {
    const before = known.get(past)
    if (before?.now === now) return before.shown
    const publicOrganizationIds = past.publicOrganizationIds.filter((id) => !hasHidden(now, id))
    const shown = accountRules.decideBy({ ...withoutHidden(past, now), publicOrganizationIds }, now)
    known.set(past, { now, shown })
    return shown
  }

  const then = eachShown(own, async (documents) => {
    const nows = new Map((await present.getMany(documents.map(byId))).map((now) => [now.id, now]))
    return documents.map((past) => shownAs(past, nows.get(past.id) ?? past))
  })

  return {
    ...then,
    async findOne(filter) {
      const now = await present.findOne(filter)
      return now && then.get(byId(now))
    },
    async find(filter, options) {
      if (isByGroup(filter)) return then.find(filter, options)
      return then.getMany((await present.find(filter, options)).map(byId))
    },
    async page(filter, options) {
      const { publicOrganizationIds: organizationId } = filter
      if (typeof organizationId !== 'number') return then.page(filter, options)
      const members = await then.getMany(await own.ids(filter))
      const shown = members.filter((member) => member.publicOrganizationIds.includes(organizationId))
      return then.page({ ...filter, loginKey: { $in: shown.map(({ loginKey }) => loginKey) } }, options)
    },
  }
}

/** Repositories. Permissions are decided by the present ones, and so are names and the lists of those that may be read. */
function repositoriesThen(
  own: View<RepositoryDocument>,
  present: View<RepositoryDocument>,
  at: string,
): View<RepositoryDocument> {
  const then = eachShown(own, async (documents) => {
    const nows = new Map((await present.getMany(documents.map(byId))).map((now) => [now.id, now]))
    return documents.flatMap((past) => {
      // A deleted repository grants no permission.
      const now = nows.get(past.id)
      return now === undefined ? [] : repositoryRules.decideBy(past, now)
    })
  })
  const existing = (filter: Filter<RepositoryDocument>) => ({ createdAt: { $lte: at }, ...filter })
  const rowsThen = async (rows: readonly Row<RepositoryDocument>[]): Promise<Row<RepositoryDocument>[]> => {
    const found = await then.getMany(rows.map((row) => ('id' in row ? row.id : byId(row.body))))
    return found.map((body) => ({ body }))
  }
  return {
    ...then,
    async findOne(filter) {
      const now = await present.findOne(filter)
      return now && then.get(byId(now))
    },
    find: async (filter, options) => then.getMany((await present.find(existing(filter), options)).map(byId)),
    count: (filter) => present.count(existing(filter)),
    ids: (filter) => present.ids(existing(filter)),
    someIds: (filter, options) => present.someIds(existing(filter), options),
    rows: async (filter, options) => rowsThen(await present.rows(existing(filter), options)),
    async page(filter, options) {
      const { rows, total } = await present.page(existing(filter), options)
      return { rows: await rowsThen(rows), total }
    },
  }
}

/** Makes searches for words ask another view, which has their index. */
function searchedIn<D extends object>(
  view: View<D>,
  search: <T>(read: (indexed: View<D>) => Promise<T>) => Promise<T>,
): View<D> {
  const isSearch = (filter: Filter<D>) => 'words' in filter
  const read = <T>(filter: Filter<D>, ask: (asked: View<D>) => Promise<T>): Promise<T> =>
    isSearch(filter) ? search(ask) : ask(view)
  return {
    ...view,
    find: (filter, options) => read(filter, (asked) => asked.find(filter, options)),
    rows: (filter, options) => read(filter, (asked) => asked.rows(filter, options)),
    page: (filter, options) => read(filter, (asked) => asked.page(filter, options)),
    count: (filter) => read(filter, (asked) => asked.count(filter)),
    ids: (filter) => read(filter, (asked) => asked.ids(filter)),
    someIds: (filter, options) => read(filter, (asked) => asked.someIds(filter, options)),
  }
}

/**
 * Creates the views. `own` are those of the file; `services` has the present views. `withTexts` runs a read on the views of a
 * file that also has the words of texts.
 */
export function createMomentViews(
  services: Services,
  { kind, id }: Subject,
  { position, at }: MomentPoint,
  own: Views,
  withTexts: <T>(read: (indexed: Views) => Promise<T>) => Promise<T>,
): Views {
  const { views: present } = services
  const until = { position }
  const related = pastDocuments(services, until)
  const replayed = documentReplayer(services, until)
  const isOther = (repoId: number) => kind !== 'repository' || repoId !== id

  const issues = readOnce(async (issue) => {
    const now = isOther(repoIdIn(issue)) ? await present.issues.get(issue) : undefined
    return now && replayed(issueFold, discussionStream(now), issue)
  })
  const comments = readOnce(async (comment) => {
    const now = await present.comments.get(comment)
    return now && isOther(now.repoId) ? replayed(commentFold, discussionStream(now), comment) : undefined
  })
  /** Only the references' own stream tells whether a text of another repository still names an issue of this one. */
  const references = readOnce<ReferenceDocument>(async (text) => {
    const known = await own.references.get(text)
    if (known === undefined || !isOther(known.repoId)) return known
    return replayed(referenceFold, streamOfReferences(known), text)
  })

  const ownIssues = withOthers(own.issues, ({ repoId, index }) => issueId(repoId, index), issues)
  /** Includes the issues of other repositories that depend on an issue of this one, then and now. */
  async function issueRows(filter: Filter<IssueDocument>, options: FindOptions<IssueDocument>) {
    const { dependencyKeys: key } = filter
    if (typeof key !== 'string') return ownIssues.rows(filter, options)
    const now = await present.issues.someIds(filter, { limit: MAX_BLOCKED })
    const others = await issues.getMany(now.filter((issue) => isOther(repoIdIn(issue))))
    const found = [
      ...(await ownIssues.find(filter)),
      ...others.filter(({ dependencyKeys }) => dependencyKeys.includes(key)),
    ]
    const { skip = 0, limit = found.length } = options
    return found
      .sort((a, b) => a.id - b.id)
      .slice(skip, skip + limit)
      .map((body) => ({ body }))
  }

  return {
    ...present,
    accounts: accountsThen(withOthers(own.accounts, byId, related.accounts), present.accounts),
    repositories: repositoriesThen(
      withOthers(
        limitedTo(own.repositories, (one) => kind === 'repository' && one === `${id}`),
        byId,
        related.repositories,
      ),
      present.repositories,
      at,
    ),
    teams: own.teams,
    branches: own.branches,
    tags: own.tags,
    otherRefs: own.otherRefs,
    tagProtections: own.tagProtections,
    pulls: own.pulls,
    mergedCommits: own.mergedCommits,
    issues: searchedIn({ ...ownIssues, rows: issueRows }, (read) =>
      withTexts((indexed) => read(indexed.issues)),
    ),
    issueFiles: own.issueFiles,
    labels: withOthers(own.labels, byId, related.labels),
    milestones: own.milestones,
    commitStatuses: own.commitStatuses,
    commitChecks: own.commitChecks,
    comments: withOthers(own.comments, byId, comments),
    reviews: own.reviews,
    reviewComments: own.reviewComments,
    releases: own.releases,
    reactions: own.reactions,
    follows: own.follows,
    deployKeys: own.deployKeys,
    references: {
      ...own.references,
      find: async (filter, options) =>
        references.getMany((await own.references.find(filter, options)).map(referenceId)),
    },
  }
}
