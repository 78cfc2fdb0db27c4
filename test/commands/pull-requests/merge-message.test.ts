import t from 'tap'
import { coAuthorsOf, mergeMessage } from '../../../src/commands/pull-requests/merge-message.ts'

const pull = { title: 'Add a thing', index: 3, base: { repoId: 7, branch: 'main', sha: 'b'.repeat(40) } }
const none = { title: '', message: '' }
const MERGE = "Merge pull request 'Add a thing' (#3) from topic into main"

t.test('merge.5: the default names the pull request, its head and its base', async (t) => {
  t.equal(mergeMessage('merge', pull, none, 'topic'), `${MERGE}\n`)
  t.equal(mergeMessage('rebase-merge', pull, none, 'topic'), `${MERGE}\n`)
  t.equal(mergeMessage('squash', pull, none, 'topic'), 'Add a thing (#3)\n')
  t.equal(
    mergeMessage('merge', pull, none, 'bob/fork:topic'),
    "Merge pull request 'Add a thing' (#3) from bob/fork:topic into main\n",
  )
})

t.test('merge.5: title and message are trimmed, and the message comes after a blank line', async (t) => {
  const own = (title: string, message: string) => mergeMessage('merge', pull, { title, message }, 'topic')
  t.equal(own('  Own \n', ' \n\t'), 'Own\n')
  t.equal(own('Own', '\n Body\n\nof two parts \n'), 'Own\n\nBody\n\nof two parts\n')
  t.equal(own(' ', 'Body'), `${MERGE}\n\nBody\n`)
})

const coAuthors = [
  { name: 'Bob', email: 'bob@example.org' },
  { name: 'Carol C.', email: 'carol@example.org' },
]
const trailers = 'Co-authored-by: Bob <bob@example.org>\nCo-authored-by: Carol C. <carol@example.org>\n'
const squash = (title: string, message: string) =>
  mergeMessage('squash', pull, { title, message }, 'topic', coAuthors)

t.test(
  'merge.5: a squash with a title sends that message and no other: title, blank line, message',
  async (t) => {
    t.equal(squash('Own', ''), 'Own\n')
    t.equal(squash(' Own ', 'Body\n'), 'Own\n\nBody\n')
    t.equal(
      squash('Own', 'Body\n\nCo-authored-by: Bob <bob@example.org>'),
      'Own\n\nBody\n\nCo-authored-by: Bob <bob@example.org>\n',
    )
  },
)

t.test(
  'merge.5: co-author trailers belong to the default message; those that the caller sent are not repeated',
  async (t) => {
    t.equal(squash('', ''), `Add a thing (#3)\n\n${trailers}`)
    t.equal(squash(' ', 'Body'), `Add a thing (#3)\n\nBody\n\n${trailers}`)
    const bob = 'co-authored-BY:  Bob B. <Bob@Example.org> '
    const carol = 'Co-authored-by: Carol C. <carol@example.org>'
    t.equal(squash('', `Body\n\n${bob}`), `Add a thing (#3)\n\nBody\n\n${bob.trim()}\n${carol}\n`)
    t.equal(squash('', `${bob}\n${carol}`), `Add a thing (#3)\n\n${bob}\n${carol}\n`)
    const signed = 'Body\n\nSigned-off-by: Dave <dave@example.org>'
    t.equal(squash('', signed), `Add a thing (#3)\n\n${signed}\n${trailers}`, 'one block of trailers')
    t.equal(
      squash('', 'Thanks to Co-authored-by: Bob <bob@example.org> for it'),
      `Add a thing (#3)\n\nThanks to Co-authored-by: Bob <bob@example.org> for it\n\n${trailers}`,
      'a name within a sentence is not a trailer',
    )
  },
)

t.test('co-authors are named once each, in order, without the author of the squash', async (t) => {
  const alice = { name: 'Alice', email: 'alice@example.org' }
  const bob = { name: 'Bob', email: 'bob@example.org' }
  const carol = { name: 'Carol', email: 'carol@example.org' }
  t.strictSame(coAuthorsOf([carol, alice, bob, { ...carol, email: 'Carol@Example.org' }], alice), [
    carol,
    bob,
  ])
  t.strictSame(coAuthorsOf([{ name: 'A.', email: 'ALICE@example.org' }], alice), [])
  t.strictSame(coAuthorsOf([], alice), [])
})
