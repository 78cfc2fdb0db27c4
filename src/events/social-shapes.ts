/** What the data of the events in `social-events.ts` looks like. */
import { type Checks, flag, list, object, orNull, text, whole, word } from './shapes.ts'
import type { KeyData, SocialEvent } from './social-events.ts'

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
const key: Checks<KeyData> = { keyId: whole, title: text, key: text, fingerprint: text, readOnly: flag }

const issue = { repoId: whole, index: whole }

export const socialFields: { readonly [T in SocialEvent['type']]: Checks<DataOf<T>> } = {
  ReactionAdded: reaction,
  ReactionRemoved: reaction,
  RepositoryStarred: follow,
  RepositoryUnstarred: follow,
  RepositoryWatched: follow,
  RepositoryUnwatched: follow,
  SshKeyAdded: { ...key, user },
  SshKeyRemoved: { ...key, user },
  DeployKeyAdded: { ...key, repoId: whole },
  DeployKeyRemoved: { ...key, repoId: whole },
  IssueSubscribed: { ...issue, user },
  IssueUnsubscribed: { ...issue, user },
  UsersMentioned: { ...issue, commentId: orNull(whole), users: list(user) },
  NotificationMarked: { ...issue, user, status: word('read', 'unread', 'pinned'), upTo: text },
}
