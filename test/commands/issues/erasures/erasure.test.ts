/** Given stored events, when texts are erased, then events or a refusal. */
import t from 'tap'
import {
  addErasable,
  decideErase,
  emptyErasable,
} from '../../../../src/commands/issues/erasures/erasure.decider.ts'
import type { DomainEvent } from '../../../../src/events/domain-events.ts'
import { textsIn } from '../../../../src/events/sealing/sealed-texts.ts'

const alice = { id: 1, login: 'alice' }
const by = { by: alice, at: '2026-11-22T10:00:00.000Z' }
const issue = { repoId: 1, index: 2 }
const attachment = { id: 5, uuid: 'u-5', name: 'a.txt', size: 1, uploader: alice }

const opened: DomainEvent = {
  type: 'IssueOpened',
  data: {
    ...issue,
    id: 3,
    poster: alice,
    title: 'T',
    body: 'B',
    labels: [],
    milestone: null,
    assignees: [],
    deadline: null,
  },
}
const comment = (commentId: number): DomainEvent => ({
  type: 'CommentAdded',
  data: { ...issue, commentId, author: alice, body: 'C' },
})
const file: DomainEvent = { type: 'AttachmentAdded', data: { ...issue, commentId: 7, attachment } }
const deleted = (commentId: number): DomainEvent => ({
  type: 'CommentDeleted',
  data: { ...issue, commentId },
})
const erased = (commentId: number | null, comments: number[] = [], files: string[] = []): DomainEvent => ({
  type: 'TextsErased',
  data: { ...issue, commentId, comments, files, ...by },
})
const finished = (upTo: number): DomainEvent => ({
  type: 'ErasureFinished',
  data: { ...issue, upTo, texts: 1, files: 0 },
})

/** Folds a stream with sealed texts. */
function given(events: readonly DomainEvent[]) {
  const facts = emptyErasable()
  for (const [revision, event] of events.entries()) {
    const found = textsIn(event)
    const data =
      found === undefined ? event.data : { ...found.rest, sealed: { key: `k${revision}`, text: '' } }
    const metadata = { actor: alice, at: by.at, correlationId: 'c', causationId: 'c', schema: 1 }
    const { type } = event
    addErasable(facts, {
      position: revision + 1,
      stream: 'issue-1.2',
      revision,
      id: `${revision}`,
      type,
      data,
      metadata,
    })
  }
  return facts
}

const history = [opened, comment(7), file, comment(8)]

t.test('all texts of an issue', async (t) => {
  t.strictSame(decideErase(given(history), null, by), [erased(null, [7, 8], ['u-5'])])
})
t.test('the texts of one comment', async (t) => {
  t.strictSame(decideErase(given(history), 7, by), [erased(7, [7], ['u-5'])])
})
t.test('a deleted comment is erased too, but is in no document', async (t) => {
  t.strictSame(decideErase(given([...history, deleted(8)]), 8, by), [erased(8)])
})
t.test('a deleted issue is erased too; its comments and files are in no document', async (t) => {
  const ended: DomainEvent[] = [
    { type: 'CommentsDeleted', data: { ...issue, comments: [7, 8], files: ['u-5'] } },
    { type: 'IssueDeleted', data: { ...issue, closed: false, milestone: null, files: [] } },
  ]
  t.strictSame(decideErase(given([...history, ...ended]), null, by), [erased(null)])
})
t.test('an unknown issue or comment', async (t) => {
  t.match(decideErase(given([]), null, by), { refused: 'notFound', message: 'issue not found' })
  t.match(decideErase(given(history), 9, by), { refused: 'notFound', message: 'comment not found' })
})
t.test('nothing is left to erase', async (t) => {
  const all = given([...history, erased(null, [7, 8], ['u-5'])])
  t.strictSame(decideErase(all, null, by), [])
  t.strictSame(decideErase(all, 7, by), [])
})
t.test('texts after an erasure can be erased', async (t) => {
  const edited: DomainEvent = { type: 'CommentEdited', data: { ...issue, commentId: 7, body: 'D' } }
  const facts = given([...history, erased(null, [7, 8], ['u-5']), edited])
  t.strictSame(decideErase(facts, 8, by), [])
  t.strictSame(decideErase(facts, 7, by), [erased(7, [7])])
})
t.test('an erasure is pending, with its keys and files, until it is finished', async (t) => {
  const before = [...history, erased(7, [7], ['u-5']), erased(null, [7, 8])]
  t.match(given(before).pending, [
    { revision: 4, keys: ['k1', 'k2'], files: ['u-5'], ...by },
    { revision: 5, keys: ['k0', 'k3'], files: [] },
  ])
  t.match(given([...before, finished(4)]).pending, [{ revision: 5 }])
  t.strictSame(given([...before, finished(5)]).pending, [])
})
t.test('many comments are several events', async (t) => {
  const ids = Array.from({ length: 1100 }, (_, i) => i + 10)
  const decision = decideErase(given([opened, ...ids.map(comment)]), null, by)
  t.match(decision, [
    { data: { commentId: null } },
    { data: { commentId: null } },
    { data: { commentId: null } },
  ])
})
