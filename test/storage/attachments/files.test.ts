import { hash, randomUUID } from 'node:crypto'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { FileTooLarge, openAttachmentFiles } from '../../../src/storage/attachments/files.ts'

async function* chunks(...contents: string[]) {
  for (const content of contents) yield Buffer.from(content)
}
const RECEIVE = { maxSize: 100, digest: false }

async function filesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name)
}

t.test('a received file appears only when it is kept', async (t) => {
  const directory = t.testdir()
  const files = await openAttachmentFiles(directory)
  const uuid = randomUUID()
  const received = await files.receive(uuid, chunks('first,', 'second'), { maxSize: 100, digest: true })
  t.match(received, {
    uuid,
    size: 12,
    digest: hash('sha256', 'first,second', 'base64url'),
  })
  t.equal(`${received.head}`, 'first,second')
  t.equal(await files.head(uuid), undefined)
  await files.keep(uuid)
  t.equal(await readFile(join(directory, files.pathOf(uuid)), 'utf8'), 'first,second')
  t.equal(`${await files.head(uuid)}`, 'first,second')
  await files.remove(uuid)
  await files.remove(uuid)
  t.same(await filesIn(directory), [])
})

t.test('a file that is too large or cut off leaves nothing behind', async (t) => {
  const directory = t.testdir()
  const files = await openAttachmentFiles(directory)
  async function* broken() {
    yield Buffer.from('half of it')
    throw new Error('the client is gone')
  }
  await t.rejects(files.receive(randomUUID(), broken(), RECEIVE), { message: 'the client is gone' })
  await t.rejects(files.receive(randomUUID(), chunks('x'.repeat(60), 'x'.repeat(41)), RECEIVE), FileTooLarge)
  t.equal((await files.receive(randomUUID(), chunks('x'.repeat(60), 'x'.repeat(40)), RECEIVE)).size, 100)
  t.equal((await filesIn(directory)).length, 1)
})

t.test('only a uuid becomes a path', async (t) => {
  const files = await openAttachmentFiles(t.testdir())
  for (const odd of [
    '',
    '..',
    '../../etc/passwd',
    randomUUID().toUpperCase(),
    `${randomUUID()}/x`,
    '__proto__',
  ]) {
    t.throws(() => files.pathOf(odd), TypeError)
    await t.rejects(files.remove(odd), TypeError)
    await t.rejects(files.receive(odd, chunks('x'), RECEIVE), TypeError)
  }
})

t.test('half-received files of an earlier process are gone after the next start', async (t) => {
  const directory = t.testdir()
  const before = await openAttachmentFiles(directory)
  await before.receive(randomUUID(), chunks('never kept'), RECEIVE)
  const kept = randomUUID()
  await before.receive(kept, chunks('kept'), RECEIVE)
  await before.keep(kept)
  await openAttachmentFiles(directory)
  t.same(await filesIn(directory), [kept])
})

t.test('unknown files of earlier processes are removed, 10,000 of them in batches', async (t) => {
  const directory = t.testdir()
  const uuids = Array.from({ length: 10_000 }, () => randomUUID())
  await Promise.all(
    [...new Set(uuids.map((uuid) => uuid.slice(0, 2)))].map((shelf) => mkdir(join(directory, shelf))),
  )
  for (const uuid of uuids) await writeFile(join(directory, uuid.slice(0, 2), uuid), '')
  await writeFile(join(directory, '00', 'notes.txt'), 'not ours')
  const files = await openAttachmentFiles(directory)
  const known = new Set(uuids.filter((_, i) => i % 2 === 0))
  const asked: number[] = []
  const removed = await files.removeUnknown(async (batch) => {
    asked.push(batch.length)
    return known
  })
  t.equal(removed, 5000)
  t.ok(Math.max(...asked) <= 500, 'batches have at most 500 uuids')
  t.ok(asked.length <= 21, 'the uuids are not looked up one by one')
  t.same((await filesIn(directory)).sort(), [...known, 'notes.txt'].sort())
})

t.test('a file that is received during the removal of unknown files stays', async (t) => {
  const directory = t.testdir()
  const old = randomUUID()
  const before = await openAttachmentFiles(directory)
  await before.receive(old, chunks('x'), RECEIVE)
  await before.keep(old)
  const files = await openAttachmentFiles(directory)
  const early = randomUUID()
  await files.receive(early, chunks('x'), RECEIVE)
  await files.keep(early)
  const late = randomUUID()
  t.equal(
    await files.removeUnknown(async () => {
      await files.receive(late, chunks('x'), RECEIVE)
      await files.keep(late)
      return new Set()
    }),
    1,
  )
  t.same((await filesIn(directory)).sort(), [early, late].sort())
  t.equal(await files.removeUnknown(async () => new Set()), 0, 'a repeated recovery removes nothing more')
  t.same((await filesIn(directory)).sort(), [early, late].sort())
})
