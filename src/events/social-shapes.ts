/** What the data of the events in `social-events.ts` looks like. */
import { type Checks, object, orNull, text, whole } from './shapes.ts'
import type { SocialEvent } from './social-events.ts'

type DataOf<T extends SocialEvent['type']> = Extract<SocialEvent, { type: T }>['data']

const user = object<DataOf<'RepositoryStarred'>['user']>({ id: whole, login: text })
const reaction: Checks<DataOf<'ReactionAdded'>> = {
  repoId: whole,
  index: whole,
  commentId: orNull(whole),
  user,
  reaction: text,
}
const follow: Checks<DataOf<'RepositoryStarred'>> = { repoId: whole, user }

export const socialFields: { readonly [T in SocialEvent['type']]: Checks<DataOf<T>> } = {
  ReactionAdded: reaction,
  ReactionRemoved: reaction,
  RepositoryStarred: follow,
  RepositoryUnstarred: follow,
  RepositoryWatched: follow,
  RepositoryUnwatched: follow,
}
