import t from 'tap'
import type { CommitState } from '../../../../src/events/catalog/statuses.ts'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import {
  commitChecksFold,
  commitChecksId,
  commitStatusFold,
} from '../../../../src/projections/models/statuses/commit-statuses.fold.ts'
import { documentOf } from '../../document-of.ts'

const sha = 'a'.repeat(40)

function posted(id: number, context: string, state: CommitState, more: { sha?: string } = {}): DomainEvent {
  const creator = { id: 1, login: 'alice' }
  const data = { id, repoId: 5, sha, context, state, description: 'd', targetUrl: 'https://ci/1', creator }
  return { type: 'CommitStatusPosted', data: { ...data, ...more } }
}

const events = [
  posted(1, 'ci', 'pending'),
  posted(2, 'lint', 'success'),
  posted(3, 'ci', 'failure'),
  posted(4, 'ci', 'success', { sha: 'b'.repeat(40) }),
]

t.test('each posted status is a document that never changes', async (t) => {
  t.match(documentOf(commitStatusFold, '1', events), {
    id: 1,
    repoId: 5,
    sha,
    context: 'ci',
    state: 'pending',
    description: 'd',
    targetUrl: 'https://ci/1',
    creator: { id: 1, login: 'alice' },
    createdAt: String,
  })
})

t.test(
  'the checks of a commit have the latest status of each context, newest first, and count all statuses',
  async (t) => {
    t.same(documentOf(commitChecksFold, commitChecksId(5, sha), events), {
      repoId: 5,
      sha,
      latest: [
        { context: 'ci', state: 'failure', id: 3 },
        { context: 'lint', state: 'success', id: 2 },
      ],
      posted: { pending: 1, success: 1, error: 0, failure: 1, warning: 0, skipped: 0 },
    })
  },
)

t.test('a commit without statuses has no document', async (t) => {
  t.equal(documentOf(commitChecksFold, commitChecksId(6, sha), events), undefined)
})
