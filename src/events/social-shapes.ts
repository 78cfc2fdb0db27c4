/** What the data of the events in `social-events.ts` looks like. */
import { account, issue } from './ref-shapes.ts'
import { type Checks, flag, list, orNull, text, whole, word } from './shapes.ts'
import type { KeyData, SocialEvent } from './social-events.ts'

type DataOf<T extends SocialEvent['type']> = Extract<SocialEvent, { type: T }>['data']

const reaction: Checks<DataOf<'ReactionAdded'>> = {
  repoId: whole,
  index: whole,
  commentId: orNull(whole),
  user: account,
  reaction: text,
}
const follow: Checks<DataOf<'RepositoryStarred'>> = { repoId: whole, user: account }
const key: Checks<KeyData> = { keyId: whole, title: text, key: text, fingerprint: text, readOnly: flag }

export const socialFields: { readonly [T in SocialEvent['type']]: Checks<DataOf<T>> } = {
  ReactionAdded: reaction,
  ReactionRemoved: reaction,
  RepositoryStarred: follow,
  RepositoryUnstarred: follow,
  RepositoryWatched: follow,
  RepositoryUnwatched: follow,
  SshKeyAdded: { ...key, user: account },
  SshKeyRemoved: { ...key, user: account },
  DeployKeyAdded: { ...key, repoId: whole },
  DeployKeyRemoved: { ...key, repoId: whole },
  IssueSubscribed: { ...issue, user: account },
  IssueUnsubscribed: { ...issue, user: account },
  UsersMentioned: { ...issue, commentId: orNull(whole), users: list(account) },
  NotificationMarked: { ...issue, user: account, status: word('read', 'unread', 'pinned'), upTo: text },
}
