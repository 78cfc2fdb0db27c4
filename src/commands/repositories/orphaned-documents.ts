/** Removes documents that a deleted repository or issue left in the read models. Its events stay. */

import type { LeftDocuments } from '../../events/catalog/repositories.ts'
import { jsonBytes, MAX_LIST_BYTES } from '../../events/store/append-size.ts'
import { StoreUnavailable } from '../../events/store/event-store.ts'
import { repositoryStream } from '../../events/streams.ts'
import { issueTextFold } from '../../projections/models/issues/issue-texts.fold.ts'
import { scopeKey } from '../../projections/models/labels/labels.fold.ts'
import type { Services } from '../../services/services.ts'
import { append } from '../execution/append.ts'
import type { CommandContext } from '../execution/command-context.ts'

/**
 * Maximum numbers of documents that one event removes, in all and from one read model: more would block the event loop.
 */
const MAX_PER_EVENT = 500
const SMALL = 100
/** Maximum for documents with long texts. */
const LONG = 50
/** Maximum for documents that can only be read whole. */
const WHOLE = 20

/** Finds ids of a repository's documents in a read model; empty when none are left. */
type Finder = (services: Services, repoId: number) => Promise<string[]>

/** Returns a query for the first documents by these fields. */
const first = <Field extends string>(limit: number, ...fields: Field[]) => ({
  limit,
  sort: fields.map((field) => [field, 1] as const),
})

/** Finders by read model. Each sorts by an index, so a batch is found quickly. */
const finders: Record<string, Finder> = {
  branches: ({ views }, repoId) => views.branches.someIds({ repoId }, first(SMALL, 'name')),
  tags: ({ views }, repoId) => views.tags.someIds({ repoId }, first(SMALL, 'date', 'name')),
  other_refs: ({ views }, repoId) => views.otherRefs.someIds({ repoId }, first(SMALL, 'ref')),
  merged_commits: ({ views }, repoId) => views.mergedCommits.someIds({ repoId }, first(SMALL)),
  commit_statuses: ({ views }, repoId) => views.commitStatuses.someIds({ repoId }, first(SMALL, 'sha', 'id')),
  commit_checks: ({ views }, repoId) => views.commitChecks.someIds({ repoId }, first(SMALL)),
  lfs_objects: ({ views }, repoId) => views.lfsObjects.someIds({ repoId }, first(SMALL, 'oid')),
  lfs_locks: ({ views }, repoId) => views.lfsLocks.someIds({ repoId }, first(SMALL, 'id')),
  labels: ({ views }, repoId) =>
    views.labels.someIds(
      { scopeKey: scopeKey({ kind: 'repository', repoId }) },
      first(SMALL, 'nameKey', 'id'),
    ),
  milestones: ({ views }, repoId) => views.milestones.someIds({ repoId }, first(LONG, 'dueAt', 'id')),
  releases: ({ views }, repoId) => views.releases.someIds({ repoId }, first(LONG, 'id')),
  redirects: ({ views }, repoId) => views.redirects.someIds({ repoId }, first(SMALL)),
  linked_events: ({ views }, repoId) => views.linkedEvents.someIds({ repoId }, first(SMALL, 'position')),
  references: ({ views }, repoId) => views.references.someIds({ repoId }, first(SMALL)),
  reactions: ({ views }, repoId) =>
    views.reactions.someIds({ repoId }, first(SMALL, 'index', 'commentId', 'createdAt')),
  participations: ({ views }, repoId) =>
    views.participations.someIds({ repoId }, first(SMALL, 'index', 'subscribed', 'userId')),
  activities: ({ views }, repoId) =>
    views.activities.someIds({ repoId }, { sort: [['touchedAt', -1]], limit: SMALL }),
  review_comments: ({ views }, repoId) => views.reviewComments.someIds({ repoId }, first(LONG)),
  reviews: ({ views }, repoId) => views.reviews.someIds({ repoId }, first(LONG, 'index', 'id')),
  issue_files: ({ views }, repoId) => views.issueFiles.someIds({ repoId }, first(LONG, 'index')),
  comments: ({ views }, repoId) => views.comments.someIds({ repoId }, first(LONG, 'id')),
  async issue_texts({ readStore }, repoId) {
    const prefix = `${repoId}.`
    const ids: string[] = []
    while (ids.length < LONG) {
      const after = ids.at(-1) ?? prefix
      const found = await readStore.range(issueTextFold.collection, { after, limit: WHOLE })
      const own = found.map(({ id }) => id).filter((id) => id.startsWith(prefix))
      ids.push(...own)
      if (own.length < WHOLE) break
    }
    return ids
  },
  pulls: ({ views }, repoId) => views.pulls.someIds({ repoId }, first(LONG, 'index')),
  issues: ({ views }, repoId) => views.issues.someIds({ repoId }, { sort: [['id', -1]], limit: LONG }),
}

/** Read models that may have orphans. */
export const MODELS_WITH_ORPHANS: readonly string[] = Object.keys(finders)

/** Finders of a deleted issue's orphans, except those that its own events remove. */
export const orphansOfIssue = (index: number): Record<string, Finder> => ({
  reactions: ({ views }, repoId) =>
    views.reactions.someIds({ repoId, index }, first(SMALL, 'commentId', 'createdAt')),
  participations: ({ views }, repoId) =>
    views.participations.someIds({ repoId, index }, first(SMALL, 'subscribed', 'userId')),
})

/**
 * Removes all orphans in batches. Each batch waits until the read models have the previous one, so that other events
 * wait for one batch at most. Call it again after a crash.
 */
export async function removeOrphanedDocuments(
  services: Services,
  context: CommandContext,
  repoId: number,
  left = finders,
): Promise<void> {
  const { projector, config } = services
  const models = new Set(Object.keys(left))
  for (let before: readonly LeftDocuments[] = []; ; ) {
    const found = await nextOrphans(services, repoId, left, models)
    const parts = found.filter(({ model, ids }) => {
      const isSame = before.some((one) => one.model === model && one.ids[0] === ids[0])
      // A stopped read model returns the same batch again. It removes them when it resumes.
      if (isSame) models.delete(model)
      return !isSame
    })
    const [first] = parts
    if (first === undefined) return
    before = parts
    const step = `remove ${first.model} from ${first.ids[0]}`
    const removed = { type: 'LeftDocumentsRemoved', data: { repoId, left: parts } } as const
    await append(services, context, repositoryStream(repoId), step, [removed], 'stream-exists')
    if (!(await projector.waitFor(context.written, config.projectionWaitMs)))
      throw new StoreUnavailable('the read models lag: orphaned documents are removed later')
  }
}

/** Returns the next batch. Skips read models without orphans. */
async function nextOrphans(
  services: Services,
  repoId: number,
  finders: Record<string, Finder>,
  models: Set<string>,
): Promise<LeftDocuments[]> {
  const left: LeftDocuments[] = []
  let documents = 0
  let bytes = 0
  for (const model of models) {
    if (documents >= MAX_PER_EVENT) break
    const found = await finders[model]?.(services, repoId)
    if (found === undefined || found.length === 0) {
      models.delete(model)
      continue
    }
    const ids: string[] = []
    for (const id of found) {
      bytes += jsonBytes(id) + 1
      if (bytes > MAX_LIST_BYTES && documents + ids.length > 0) break
      ids.push(id)
    }
    if (ids.length > 0) left.push({ model, ids })
    documents += ids.length
    if (ids.length < found.length) break
  }
  return left
}
