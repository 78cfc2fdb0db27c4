import t from 'tap'
import {
  commentDecider,
  decideAddAttachment,
  decideDeleteAttachment,
  decideDeleteComment,
  decideEditComment,
  decideRenameAttachment,
} from '../../../src/commands/comments/comment.decider.ts'
import type { Attachment } from '../../../src/events/catalog/attachments.ts'
import type { CommentEvent } from '../../../src/events/catalog/comments.ts'
import { specify } from '../../specification.ts'

const author = { id: 1, login: 'alice' }
const place = { repoId: 5, index: 3 }
const added = (commentId: number, body = 'text'): CommentEvent => ({
  type: 'CommentAdded',
  data: { ...place, commentId, author, body },
})
const file = (id: number): Attachment => ({
  id,
  uuid: `uuid-${id}`,
  name: `${id}.txt`,
  size: 3,
  uploader: author,
})
const attached = (commentId: number, id: number): CommentEvent => ({
  type: 'AttachmentAdded',
  data: { ...place, commentId, attachment: file(id) },
})
const edited = (commentId: number, body: string): CommentEvent => ({
  type: 'CommentEdited',
  data: { ...place, commentId, body },
})
const deleted = (commentId: number): CommentEvent => ({
  type: 'CommentDeleted',
  data: { ...place, commentId },
})

t.test('an edit records the new text, and nothing when the text is the same', async (t) => {
  const { given } = specify(t, commentDecider(7))
  given(added(7, 'a'))
    .when((state) => decideEditComment(state, 'b'))
    .thenEvents(edited(7, 'b'))
  given(added(7, 'a'))
    .when((state) => decideEditComment(state, 'a'))
    .thenEvents()
  given(added(7, 'a'), edited(7, 'b'))
    .when((state) => decideEditComment(state, 'b'))
    .thenEvents()
})

t.test('events of other comments in the stream do not concern a comment', async (t) => {
  const { given } = specify(t, commentDecider(7))
  given(added(7, 'a'), added(8, 'x'), edited(8, 'y'), attached(8, 1), deleted(8))
    .when(decideDeleteComment)
    .thenEvents(deleted(7))
  given(added(8))
    .when((state) => decideEditComment(state, 'b'))
    .thenRefused('notFound', 'comment not found')
})

t.test('a comment that is deleted is not found by any command', async (t) => {
  const { given } = specify(t, commentDecider(7))
  const commands = [
    decideDeleteComment,
    (state: Parameters<typeof decideDeleteComment>[0]) => decideEditComment(state, 'b'),
    (state: Parameters<typeof decideDeleteComment>[0]) => decideAddAttachment(state, file(2)),
    (state: Parameters<typeof decideDeleteComment>[0]) => decideRenameAttachment(state, 1, 'b'),
    (state: Parameters<typeof decideDeleteComment>[0]) => decideDeleteAttachment(state, 1),
  ]
  for (const command of commands)
    given(added(7), attached(7, 1), deleted(7)).when(command).thenRefused('notFound')
})

t.test('deleting a comment deletes its files, too', async (t) => {
  const gone = (attachmentId: number): CommentEvent => ({
    type: 'AttachmentDeleted',
    data: { ...place, commentId: 7, attachmentId, uuid: `uuid-${attachmentId}` },
  })
  const { given } = specify(t, commentDecider(7))
  given(added(7), attached(7, 1), attached(7, 2), attached(7, 3), gone(2))
    .when(decideDeleteComment)
    .thenEvents(gone(1), gone(3), deleted(7))
})

t.test('attachments.4: after an upload the comment is updated with its unchanged content', async (t) => {
  const { given } = specify(t, commentDecider(7))
  given(added(7, 'a'), edited(7, 'b'))
    .when((state) => decideAddAttachment(state, file(1)))
    .thenEvents(attached(7, 1), edited(7, 'b'))
})

t.test('a comment has at most a hundred attachments', async (t) => {
  const { given } = specify(t, commentDecider(7))
  given(added(7), ...Array.from({ length: 100 }, (_, i) => attached(7, i + 1)))
    .when((state) => decideAddAttachment(state, file(101)))
    .thenRefused('unprocessable')
})

t.test('attachments.5: a name is replaced when it is non-empty', async (t) => {
  const { given } = specify(t, commentDecider(7))
  const rename = (name: string, id = 1) =>
    given(added(7), attached(7, 1)).when((state) => decideRenameAttachment(state, id, name))
  rename('b.txt').thenEvents({
    type: 'AttachmentRenamed',
    data: { ...place, commentId: 7, attachmentId: 1, name: 'b.txt' },
  })
  rename('').thenEvents()
  rename('1.txt').thenEvents()
  rename('b.txt', 2).thenRefused('notFound', 'attachment not found')
})

t.test('attachments.6: a file that is deleted is not there any more', async (t) => {
  const { given } = specify(t, commentDecider(7))
  const gone: CommentEvent = {
    type: 'AttachmentDeleted',
    data: { ...place, commentId: 7, attachmentId: 1, uuid: 'uuid-1' },
  }
  given(added(7), attached(7, 1))
    .when((state) => decideDeleteAttachment(state, 1))
    .thenEvents(gone)
  given(added(7), attached(7, 1), gone)
    .when((state) => decideDeleteAttachment(state, 1))
    .thenRefused('notFound', 'attachment not found')
})
