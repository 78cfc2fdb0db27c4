/** The cache of list rows, which is valid while the shown values are the same. */
import { test } from 'tap'
import { cachedRow } from '../../src/api/cached-rows.ts'
import type { RelatedDocuments } from '../../src/api/related-documents.ts'
import { jsonOf } from '../../src/http/answers/cached-json.ts'

const nothing: RelatedDocuments = {
  repositories: new Map(),
  repositoryNames: new Map(),
  people: new Map(),
  labels: new Map(),
  milestones: new Map(),
  teams: new Map(),
  pins: new Map(),
  publicUrl: 'http://localhost',
}

interface Note {
  repoId: number
  text: string
}

/** Builds rows, and counts how often. */
function noteRows() {
  const count = { made: 0 }
  const row = cachedRow(({ repoId, text }: Note, { repositoryNames, pins, publicUrl }) => {
    count.made += 1
    return {
      url: `${publicUrl}/${repositoryNames.get(repoId) ?? 'nobody/gone'}`,
      text,
      pins: pins.get(repoId)?.issues ?? [],
    }
  })
  return { row, count }
}

test('a row is built again only after a change of a value that it shows', async (t) => {
  const { row, count } = noteRows()
  const note = { repoId: 1, text: 'x' }
  const related = { ...nothing, repositoryNames: new Map([[1, 'ann/app']]) }
  const first = row(note, related)
  t.same(first, { url: 'http://localhost/ann/app', text: 'x', pins: [] })
  t.equal(row(note, { ...related, repositoryNames: new Map([[1, 'ann/app']]) }), first, 'the same name')
  t.equal(
    row(note, { ...related, pins: new Map([[2, { issues: [7], pulls: [] }]]) }),
    first,
    'the pins of another repository',
  )
  t.equal(count.made, 1)
  t.match(row(note, { ...related, repositoryNames: new Map([[1, 'ann/new']]) }), { url: /ann\/new$/ })
  t.match(row(note, nothing), { url: /nobody\/gone$/ }, 'the repository is gone')
  t.match(row(note, related), { url: /ann\/app$/ }, 'the repository is there again')
  t.same(row(note, { ...related, pins: new Map([[1, { issues: [7], pulls: [] }]]) }).pins, [7])
  t.match(row(note, { ...related, publicUrl: 'https://git' }), { url: 'https://git/ann/app' })
  t.same(row({ ...note }, related).text, 'x', 'a later version of the document')
  t.equal(count.made, 7)
})

test('the JSON of a cached row equals that of a new one', async (t) => {
  const { row } = noteRows()
  const note = { repoId: 1, text: '"$& ä' }
  const plain = JSON.stringify({ url: 'http://localhost/nobody/gone', text: '"$& ä', pins: [] })
  for (let i = 0; i < 2; i++) {
    t.equal(jsonOf(row(note, nothing)), plain)
    t.equal(jsonOf([row(note, nothing), row(note, nothing)]), `[${plain},${plain}]`)
  }
})

test('rows of long documents are not cached', async (t) => {
  const { row, count } = noteRows()
  const note = { repoId: 1, text: 'x'.repeat(20_000) }
  t.same(row(note, nothing), row(note, nothing))
  t.equal(count.made, 2)
})
