/**
 * Notifications: issues and pull requests with news for a user. Each request computes them from the user's participations,
 * watched repositories and present permissions. The sources are limited: the latest issues of the user, and the latest of
 * the repositories that the user watched last.
 */
import { type Static, Type } from 'typebox'
import { accessTo } from '../../access/access.ts'
import { wholeSeconds } from '../../domain/times.ts'
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { ActivityDocument } from '../../projections/models/notifications/activities.fold.ts'
import {
  type ParticipationDocument,
  participationId,
} from '../../projections/models/notifications/participations.fold.ts'
import { followId } from '../../projections/models/repositories/follows.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import { RepositoryWire, repositoryWires } from '../repositories/repositories.ts'
import type { TimeRange } from '../time-range.ts'
import { isInTimeRange } from '../time-range.ts'

export const NotificationWire = Type.Object(
  {
    id: Type.Integer(),
    repository: RepositoryWire,
    subject: Type.Object({
      title: Type.String(),
      url: Type.String(),
      latest_comment_url: Type.String(),
      html_url: Type.String(),
      latest_comment_html_url: Type.String(),
      type: Type.String(),
      state: Type.String(),
    }),
    unread: Type.Boolean(),
    pinned: Type.Boolean(),
    updated_at: Type.String(),
    url: Type.String(),
  },
  { title: 'NotificationThread' },
)

export const STATUSES = ['unread', 'read', 'pinned'] as const
export type Status = (typeof STATUSES)[number]

type Views = Services['views']

/** A notification of a user. */
export interface Thread {
  activity: ActivityDocument
  status: Status
  at: string
}

const MAX_PARTICIPATIONS = 300
const MAX_PINNED = 300
/** Maximum number of issues that are searched for `MAX_PARTICIPATIONS` that the user may read. */
const MAX_SEARCHED = 3000
const MAX_WATCHED = 50
const MAX_OF_WATCHED = 20

export interface ThreadFilter extends TimeRange {
  statuses: readonly Status[]
  /** Null: both. */
  isPull: boolean | null
  /** Null: all. */
  repoId: number | null
}

/** Returns the notification of an issue for the user; undefined without news, or when only the user caused them. */
function threadOf(
  user: AccountDocument,
  activity: ActivityDocument,
  participation: ParticipationDocument | undefined,
  watchedFrom: Position | undefined,
): Thread | undefined {
  if (participation?.subscribed === false) return undefined
  if (participation?.active !== true && (watchedFrom === undefined || activity.position < watchedFrom)) {
    return undefined
  }
  const { namedAt = '', namedTo = LOG_START, pinned = false } = participation ?? {}
  const isByOthers = activity.by !== user.id && activity.position > namedTo
  const { at, position } = isByOthers ? activity : { at: namedAt, position: namedTo }
  // The user caused all events.
  if (at === '') return undefined
  const isRead = participation !== undefined && hasSeen(participation, { at, position })
  return { activity, at, status: pinned ? 'pinned' : isRead ? 'read' : 'unread' }
}

/** Compares positions in the log first: the clock of one node may be behind that of another. */
function hasSeen(
  { seenTo, marked }: ParticipationDocument,
  last: { at: string; position: Position },
): boolean {
  if (last.position <= seenTo) return true
  return marked !== null && last.position <= marked.before && last.at <= marked.upTo
}

/** Returns the activities in repositories that the user may read now. */
async function readable(
  { repositories }: Views,
  user: AccountDocument,
  activities: readonly ActivityDocument[],
): Promise<ActivityDocument[]> {
  const found = await repositories.getMany([...new Set(activities.map(({ repoId }) => `${repoId}`))])
  const ids = new Set(found.filter((one) => accessTo(one, user) !== 'none').map(({ id }) => id))
  return activities.filter(({ repoId }) => ids.has(repoId))
}

/**
 * Returns the latest activities in which the user takes part, by the last event of anyone. Threads that the user may not
 * read do not count: a deleted repository may have had more than all others.
 */
async function ownActivities(
  views: Views,
  user: AccountDocument,
  only: { repoId?: number },
): Promise<ActivityDocument[]> {
  const filter = { participants: user.id, ...only }
  let own: ActivityDocument[] = []
  // The second search starts again: removed activities of a deleted repository may have moved the others up meanwhile.
  for (const limit of [MAX_PARTICIPATIONS, MAX_SEARCHED]) {
    const found = await views.activities.find(filter, { sort: [['touchedAt', -1]], limit })
    own = await readable(views, user, found)
    if (own.length >= MAX_PARTICIPATIONS || found.length < limit) break
  }
  return own.slice(0, MAX_PARTICIPATIONS)
}

/** Returns the matching threads of a user, latest first. */
export async function threadsOf(
  { views }: Pick<Services, 'views'>,
  user: AccountDocument,
  filter: ThreadFilter,
): Promise<Thread[]> {
  const { repoId } = filter
  const only = repoId === null ? {} : { repoId }
  const [own, pinned, watched] = await Promise.all([
    ownActivities(views, user, only),
    views.participations.find(
      { userId: user.id, pinned: true, ...only },
      { sort: [['since', -1]], limit: MAX_PINNED },
    ),
    views.follows.find(
      { userId: user.id, watched: true, ...only },
      { sort: [['watchedAt', -1]], limit: MAX_WATCHED },
    ),
  ])
  const since = new Map(watched.map((follow) => [follow.repoId, follow.watchedFrom]))
  const activities = new Map(own.map((activity) => [activity.id, activity]))
  const ids = pinned.map(({ repoId, index }) => issueId(repoId, index))
  for (const activity of await views.activities.getMany(ids)) activities.set(activity.id, activity)
  for (const id of since.keys()) {
    const latest = { sort: [['touchedAt', -1]], limit: MAX_OF_WATCHED } as const
    for (const activity of await views.activities.find({ repoId: id }, latest)) {
      activities.set(activity.id, activity)
    }
  }
  const found = [...activities.values()]
  const [participations, shown] = await Promise.all([
    views.participations.getMany(found.map((activity) => participationId(activity, user.id))),
    readable(views, user, found),
  ])
  const byId = new Map(participations.map((one) => [participationId(one, user.id), one]))
  return shown
    .flatMap((activity) => {
      if (filter.isPull !== null && activity.isPull !== filter.isPull) return []
      const participation = byId.get(participationId(activity, user.id))
      return threadOf(user, activity, participation, since.get(activity.repoId)) ?? []
    })
    .filter(({ status, at }) => filter.statuses.includes(status) && isInTimeRange(filter, at))
    .sort((a, b) => (a.at === b.at ? b.activity.id - a.activity.id : a.at < b.at ? 1 : -1))
}

/** Returns the user's thread of the issue with that id; undefined when there is none. */
export async function threadWithId(
  { views }: Pick<Services, 'views'>,
  user: AccountDocument,
  id: number,
): Promise<Thread | undefined> {
  const activity = await views.activities.findOne({ id })
  if (activity === undefined) return undefined
  const [participation, follow, repository] = await Promise.all([
    views.participations.get(participationId(activity, user.id)),
    views.follows.get(followId(activity.repoId, user.id)),
    views.repositories.get(`${activity.repoId}`),
  ])
  if (repository === undefined || accessTo(repository, user) === 'none') return undefined
  return threadOf(user, activity, participation, follow?.watched ? follow.watchedFrom : undefined)
}

/** Returns threads as Gitea's `NotificationThread`, in the given order. */
export async function threadWires(
  services: Services,
  user: AccountDocument,
  threads: readonly Thread[],
): Promise<Static<typeof NotificationWire>[]> {
  const { views } = services
  const [issues, repositories] = await Promise.all([
    views.issues.getMany(threads.map(({ activity: { repoId, index } }) => issueId(repoId, index))),
    views.repositories.getMany([...new Set(threads.map(({ activity }) => `${activity.repoId}`))]),
  ])
  const issueById = new Map(issues.map((issue) => [issue.id, issue]))
  const shown = await repositoryWires(services, repositories, user)
  const repositoryById = new Map(shown.map((repository) => [repository.id, repository]))
  return threads.flatMap(({ activity, status, at }) => {
    const { id, repoId, index, isPull, commentId } = activity
    const [issue, repository] = [issueById.get(id), repositoryById.get(repoId)]
    if (issue === undefined || repository === undefined) return []
    const html_url = `${repository.html_url}/${isPull ? 'pulls' : 'issues'}/${index}`
    const subject = {
      title: issue.title,
      url: `${repository.url}/issues/${index}`,
      latest_comment_url: commentId === 0 ? '' : `${repository.url}/issues/comments/${commentId}`,
      html_url,
      latest_comment_html_url: commentId === 0 ? '' : `${html_url}#issuecomment-${commentId}`,
      type: isPull ? 'Pull' : 'Issue',
      state: issue.mergedAt === null ? issue.state : 'merged',
    }
    const url = `${services.publicUrl()}/api/v1/notifications/threads/${id}`
    return [
      {
        ...{ id, repository, subject, url, updated_at: wholeSeconds(at) },
        unread: status === 'unread',
        pinned: status === 'pinned',
      },
    ]
  })
}
