/** Stars and watches: one document per user and repository. */
import { LOG_START, type Position } from '../../../events/store/event-store.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface FollowDocument {
  repoId: number
  userId: number
  userLogin: string
  starred: boolean
  watched: boolean
  /** Time of the star or watch; empty without one. */
  starredAt: string
  watchedAt: string
  /** Position where the watch began; 0 without one. */
  watchedFrom: Position
}

export const followId = (repoId: number, userId: number) => `${repoId}.${userId}`

type Named = { repoId: number; user: { id: number; login: string } }

const nothing = ({ repoId, user }: Named): FollowDocument => ({
  repoId,
  userId: user.id,
  userLogin: user.login,
  starred: false,
  watched: false,
  starredAt: '',
  watchedAt: '',
  watchedFrom: LOG_START,
})

/** A document without a star and a watch is deleted. */
const kept = (document: FollowDocument) => (document.starred || document.watched ? document : undefined)

export const followFold: Fold<FollowDocument> = foldOf({
  name: 'follows',
  indexes: [
    { repoId: 1, starred: 1, starredAt: 1 },
    { repoId: 1, watched: 1, watchedAt: 1 },
    { userId: 1, starred: 1 },
    { userId: 1, watched: 1 },
  ],
  version: 2,
  ids: ({ data }) => [followId(data.repoId, data.user.id)],
  becomes: {
    RepositoryStarred: (before, { data, metadata: { at } }) => ({
      ...(before ?? nothing(data)),
      starred: true,
      starredAt: at,
    }),
    RepositoryUnstarred: (before, { data }) =>
      kept({ ...(before ?? nothing(data)), starred: false, starredAt: '' }),
    RepositoryWatched: (before, { data, position, metadata: { at } }) => ({
      ...(before ?? nothing(data)),
      watched: true,
      watchedAt: at,
      watchedFrom: position,
    }),
    RepositoryUnwatched: (before, { data }) =>
      kept({ ...(before ?? nothing(data)), watched: false, watchedAt: '', watchedFrom: LOG_START }),
  },
})
