import t from 'tap'
import { coAuthorsOf, mergeMessage } from '../../../src/commands/pull-requests/merge-message.ts'

const pull = { title: 'Add a thing', index: 3, base: { repoId: 7, branch: 'main', sha: 'b'.repeat(40) } }
const none = { title: '', message: '' }
const MERGE = "Merge pull request 'Add a thing' (#3) from topic into main"

t.test('merge rule 5: the default names the pull request, its head and its base', async (t) => {
  t.equal(mergeMessage('merge', pull, none, 'topic'), `${MERGE}\n`)
  t.equal(mergeMessage('rebase-merge', pull, none, 'topic'), `${MERGE}\n`)
  t.equal(mergeMessage('squash', pull, none, 'topic'), 'Add a thing (#3)\n')
  t.equal(
    mergeMessage('merge', pull, none, 'bob/fork:topic'),
    "Merge pull request 'Add a thing' (#3) from bob/fork:topic into main\n",
  )
})

t.test('merge rule 5: title and message are trimmed, and the message comes after a blank line', async (t) => {
  const own = (title: string, message: string) => mergeMessage('merge', pull, { title, message }, 'topic')
  t.equal(own('  Own \n', ' \n\t'), 'Own\n')
  t.equal(own('Own', '\n Body\n\nof two parts \n'), 'Own\n\nBody\n\nof two parts\n')
  t.equal(own(' ', 'Body'), `${MERGE}\n\nBody\n`)
})

t.test('merge rule 5: a squash names its co-authors at the end', async (t) => {
  const coAuthors = [
    { name: 'Bob', email: 'bob@example.org' },
    { name: 'Carol C.', email: 'carol@example.org' },
  ]
  const trailers = 'Co-authored-by: Bob <bob@example.org>\nCo-authored-by: Carol C. <carol@example.org>\n'
  t.equal(mergeMessage('squash', pull, none, 'topic', coAuthors), `Add a thing (#3)\n\n${trailers}`)
  const fields = { title: 'Own', message: 'Body\n' }
  t.equal(mergeMessage('squash', pull, fields, 'topic', coAuthors), `Own\n\nBody\n\n${trailers}`)
})

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
