/** The keys of sealed texts, on both stores, and the store that seals with them. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { secretCollections } from '../../src/auth/secrets.ts'
import { createTextKeys } from '../../src/auth/text-keys.ts'
import { sealTexts } from '../../src/events/sealing/sealed-store.ts'
import { LOST_TEXT, sealedIn } from '../../src/events/sealing/sealed-texts.ts'
import type { EventMetadata, RecordedEvent } from '../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../src/events/store/sqlite/sqlite.ts'
import { openMongoReadStore } from '../../src/projections/store/mongodb/mongodb.ts'
import type { ReadStore } from '../../src/projections/store/read-store.ts'
import { openSqliteReadStore } from '../../src/projections/store/sqlite/sqlite.ts'
import { startMongoDouble } from '../doubles/mongodb.ts'

const erased = { by: { id: 1, login: 'alice' }, at: '2026-11-22T10:00:00.000Z' }

async function directory(t: Test): Promise<string> {
  const made = await mkdtemp(join(tmpdir(), 'mergelog-keys-'))
  t.teardown(() => rm(made, { recursive: true, force: true, maxRetries: 3 }))
  return made
}

async function contract(t: Test, secrets: ReadStore) {
  await secrets.prepare(secretCollections)
  const keys = createTextKeys(secrets)
  /** Another node with an empty cache. */
  const other = () => createTextKeys(secrets)

  await t.test('keys are on disk before they are used, and each is used once', async (t) => {
    const taken = (await Promise.all(Array.from({ length: 40 }, (_, i) => keys.take(i)))).flat()
    t.equal(taken.length, 780)
    t.equal(new Set(taken.map(({ id }) => id)).size, 780)
    t.equal(new Set(taken.map(({ key }) => key.toString('hex'))).size, 780)
    const found = await other().find(taken.map(({ id }) => id))
    for (const { id, key } of taken) t.strictSame(found.get(id), key)
  })

  await t.test('cached keys do not retain other memory', async (t) => {
    const taken = await keys.take(3)
    const found = await other().find(taken.map(({ id }) => id))
    const held = [...taken.map(({ key }) => key), ...found.values()].map((key) =>
      Buffer.isBuffer(key) ? key.buffer.byteLength : 0,
    )
    t.same(new Set(held), new Set([32]))
  })

  await t.test(
    'a destroyed key is gone on every node, and its first destruction stays recorded',
    async (t) => {
      const [one, two] = await keys.take(2)
      const ids = [one?.id ?? '', two?.id ?? '']
      t.equal(await other().erase(ids.slice(0, 1), erased), 1)
      keys.forget()
      const found = await keys.find([...ids, 'unknown'])
      t.strictSame(found.get(ids[0] ?? ''), erased)
      t.ok(Buffer.isBuffer(found.get(ids[1] ?? '')))
      t.notOk(found.has('unknown'))
      t.equal(await keys.erase(ids, { ...erased, by: null }), 1, 'only the other one was left')
      t.strictSame((await keys.find(ids)).get(ids[0] ?? ''), erased)
    },
  )
}

t.test('on SQLite', async (t) => {
  const secrets = openSqliteReadStore(join(await directory(t), 'secrets.db'), 'FULL')
  t.teardown(() => secrets.close())
  await contract(t, secrets)
})

t.test('on MongoDB', async (t) => {
  const double = await startMongoDouble({ port: 0, file: join(await directory(t), 'mongo.db') })
  t.teardown(() => double.close())
  const secrets = openMongoReadStore(double.url)
  t.teardown(() => secrets.close())
  await contract(t, secrets)
})

const metadata: EventMetadata = {
  actor: null,
  at: erased.at,
  correlationId: 'c',
  causationId: 'c',
  schema: 1,
}
const comment = (id: string, body: string) => ({
  id,
  type: 'CommentAdded',
  data: { repoId: 1, index: 1, commentId: 1, author: erased.by, body },
  metadata,
})

t.test('the sealing store', async (t) => {
  const dir = await directory(t)
  const secrets = openSqliteReadStore(join(dir, 'secrets.db'), 'FULL')
  t.teardown(() => secrets.close())
  await secrets.prepare(secretCollections)
  const lost: RecordedEvent[] = []
  const stored = openSqliteEventStore(join(dir, 'events.db'))
  const log = sealTexts(stored, createTextKeys(secrets), { onLost: (event) => lost.push(event) })
  t.teardown(() => log.close())
  const bodyOf = ({ data }: RecordedEvent) => ('body' in data ? data.body : undefined)
  const bodies = async () => {
    return await Array.fromAsync(log.readStream('issue-1.1'), (event) => bodyOf(event))
  }
  const texts = ['plain', '', 'ä 漢 🙂 "quoted"\n\u0000', 'half \ud83d of a pair', 'x'.repeat(70_000)]
  for (const [i, text] of texts.entries()) await log.append('issue-1.1', [comment(`id-${i}`, text)], 'any')
  t.strictSame(await bodies(), texts, 'every text comes back as it was')

  const kept = await Array.fromAsync(stored.readStream('issue-1.1'))
  t.ok(
    kept.every(({ data }) => !('body' in data) && sealedIn(data) !== undefined),
    'the log has none of them',
  )

  const [first, second] = kept
  if (first === undefined || second === undefined) throw new Error('the log lacks what was appended')
  const [moved] = await log.opened([{ ...second, data: first.data }])
  t.equal(moved && bodyOf(moved), LOST_TEXT, 'a sealed text cannot be moved to another event')
  t.equal(lost.length, 1)

  await log.keys.erase([sealedIn(first.data)?.key ?? ''], erased)
  log.forget()
  t.strictSame((await bodies())[0], 'erased by alice on 2026-11-22')
})
