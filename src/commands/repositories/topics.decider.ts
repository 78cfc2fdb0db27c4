/** Decides the topics of a repository, by Gitea's rules. Pure. */

import { isOpenTo } from '../../access/visibility.ts'
import { refuse } from '../../errors/refusal.ts'
import type { Visibility } from '../../events/catalog/organizations.ts'
import type { ListingEvent } from '../../events/catalog/repositories.ts'
import type { Decision } from '../execution/decider.ts'

/** Maximum number of topics of a repository. */
const MAX_TOPICS = 25
const MAX_TOPIC = 35

/** The state that determines which topics are public. */
interface Topical {
  id: number
  ownerVisibility: Visibility
  topics: readonly string[]
  settings: { private: boolean }
}

const listedIn = ({ settings, ownerVisibility, topics }: Topical): readonly string[] =>
  isOpenTo({ private: settings.private, ownerVisibility }, null) ? topics : []

const without = (some: readonly string[], others: readonly string[]) =>
  some.filter((topic) => !others.includes(topic))

/** Returns the event for a change of the topics or of the public ones, if any. */
export function topicsSeen(before: Topical, after: Topical): ListingEvent[] {
  const [old, now] = [listedIn(before), listedIn(after)]
  const listed = { added: without(now, old), removed: without(old, now) }
  const topics = [...after.topics]
  const isSame = topics.join() === before.topics.join()
  if (isSame && listed.added.length + listed.removed.length === 0) return []
  return [{ type: 'TopicsChanged', data: { repoId: before.id, topics, listed } }]
}

/** Returns the normalized topic: trimmed, in lower case. */
export const topicOf = (text: string) => text.trim().toLowerCase()

/** Returns whether a topic is valid. */
export const isTopic = (topic: string) => topic.length <= MAX_TOPIC && /^[a-z0-9][-.a-z0-9]*$/.test(topic)

/** Sets the topics that `change` returns for the present ones. */
export function decideTopics(
  state: ({ status: 'active' } & Topical) | { status: 'none' | 'deleted' },
  change: (topics: readonly string[]) => readonly string[],
): Decision<ListingEvent> {
  if (state.status !== 'active') return refuse.notFound('repository not found')
  const topics = [...new Set(change(state.topics))].sort()
  const bad = topics.filter((topic) => !isTopic(topic))
  if (bad.length > 0) {
    return refuse.unprocessable(
      'Topic names are invalid',
      bad.map((topic) => `topics: "${topic.slice(0, 2 * MAX_TOPIC)}" is not a topic`),
    )
  }
  if (topics.length > MAX_TOPICS) {
    return refuse.unprocessable(`topics: a repository has at most ${MAX_TOPICS}`)
  }
  return topicsSeen(state, { ...state, topics })
}
