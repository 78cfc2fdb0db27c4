import t from 'tap'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { pullStream } from '../../../../src/events/streams.ts'
import { commentFold } from '../../../../src/projections/models/comments/comments.fold.ts'
import { pullFold } from '../../../../src/projections/models/pull-requests/pulls.fold.ts'
import { at, documentOf } from '../../document-of.ts'

const author = { id: 1, login: 'alice' }
const place = { repoId: 5, index: 3 }
const stream = pullStream(5, 3)
const added = (commentId: number): DomainEvent => ({
  type: 'CommentAdded',
  data: { ...place, commentId, author, body: 'a' },
})
const attached = (id: number): DomainEvent => ({
  type: 'AttachmentAdded',
  data: {
    ...place,
    commentId: 7,
    attachment: { id, uuid: `u${id}`, name: `${id}.txt`, size: 3, uploader: author },
  },
})

t.test('a comment document exists from CommentAdded to CommentDeleted', async (t) => {
  const story: DomainEvent[] = [added(7)]
  const first = {
    id: 7,
    ...place,
    isPull: true,
    author,
    body: 'a',
    attachments: [],
    attachmentUuids: [],
    createdAt: at(0),
    updatedAt: at(0),
  }
  t.same(documentOf(commentFold, '7', story, stream), first)
  t.equal(documentOf(commentFold, '7', story, 'issue-5.3')?.isPull, false)
  story.push({ type: 'CommentEdited', data: { ...place, commentId: 7, body: 'b' } })
  t.same(documentOf(commentFold, '7', story, stream), { ...first, body: 'b', updatedAt: at(1) })
  story.push({ type: 'CommentDeleted', data: { ...place, commentId: 7 } })
  t.equal(documentOf(commentFold, '7', story, stream), undefined)
  story.push({ type: 'CommentEdited', data: { ...place, commentId: 7, body: 'c' } })
  t.equal(documentOf(commentFold, '7', story, stream), undefined)
})

t.test('a comment document has its files with their current names', async (t) => {
  const story: DomainEvent[] = [
    added(7),
    attached(1),
    attached(2),
    { type: 'AttachmentRenamed', data: { ...place, commentId: 7, attachmentId: 1, name: 'b.txt' } },
  ]
  t.match(documentOf(commentFold, '7', story, stream), {
    attachments: [
      { id: 1, uuid: 'u1', name: 'b.txt', size: 3, uploader: author, createdAt: at(1) },
      { id: 2, name: '2.txt', createdAt: at(2) },
    ],
    attachmentUuids: ['u1', 'u2'],
  })
  story.push({ type: 'AttachmentDeleted', data: { ...place, commentId: 7, attachmentId: 1, uuid: 'u1' } })
  t.match(documentOf(commentFold, '7', story, stream), {
    attachments: [{ id: 2 }],
    attachmentUuids: ['u2'],
  })
})

t.test(
  'comments of a pull request change its count and update time; comments of an issue do not',
  async (t) => {
    const sha = 'a'.repeat(40)
    const opened: DomainEvent = {
      type: 'PullRequestOpened',
      data: {
        ...place,
        id: 30,
        poster: author,
        title: 'T',
        body: 'B',
        head: { repoId: 5, branch: 'topic', sha },
        base: { repoId: 5, branch: 'main', sha },
        mergeBase: sha,
        diff: { additions: 1, deletions: 0, changedFiles: 1 },
        mergeable: true,
        labels: [],
        milestone: null,
        assignees: [],
        deadline: null,
      },
    }
    const story: DomainEvent[] = [opened, added(7), added(8)]
    t.match(documentOf(pullFold, '5.3', story, stream), { comments: 2, updatedAt: at(2) })
    story.push({ type: 'CommentEdited', data: { ...place, commentId: 7, body: 'b' } })
    t.match(documentOf(pullFold, '5.3', story, stream), { comments: 2, updatedAt: at(3) })
    story.push({ type: 'CommentDeleted', data: { ...place, commentId: 7 } })
    t.match(documentOf(pullFold, '5.3', story, stream), { comments: 1, updatedAt: at(4) })
    t.equal(documentOf(pullFold, '5.3', [added(7)], 'issue-5.3'), undefined)
  },
)
