import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { removeOrphans } from '../../../src/processes/attachments/attachment-removal.ts'
import { openAttachmentFiles } from '../../../src/storage/attachments/files.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { attachmentRepository, formWith, isStored, storedFiles } from './setup.ts'

type Test = Pick<typeof t, 'teardown'>

/** A server that is killed, and restarted on its data. */
async function restartable(t: Test) {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-attachments-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  // Each server stops with the test at the latest, and only once.
  const start = async (): Promise<TestServer> => {
    let stopped = false
    const server = await startTestServer(
      { teardown: (end) => t.teardown(() => (stopped ? undefined : end())) },
      { DATA_DIR, LOG_LEVEL: 'silent' },
    )
    return {
      ...server,
      async stop() {
        stopped = true
        await server.stop()
      },
    }
  }
  return { DATA_DIR, start }
}

const download = async (server: TestServer, uuid: string) => {
  const answer = await server.fetch('alice', `/attachments/${uuid}`)
  return { status: answer.status, text: await answer.text() }
}

t.test('a file whose event was never written is gone after the next start', async (t) => {
  const { start } = await restartable(t)
  const server = await start()
  const { say, post, pathOf } = await attachmentRepository(server, 'app', { others: false })
  const id = await say()
  const { body: kept } = await post('alice', id, formWith('kept', 'kept.txt'))
  const { events } = server.services
  const { append } = events
  events.append = async (stream, recorded, expected) => {
    if (recorded.some(({ type }) => type === 'AttachmentAdded')) throw new StoreUnavailable('killed')
    return append.call(events, stream, recorded, expected)
  }
  t.equal((await post('alice', id, formWith('lost', 'lost.txt'))).status, 503)
  t.equal((await storedFiles(server)).length, 2, 'nobody knows yet whether it is recorded')
  await server.stop()

  const next = await start()
  t.same(await storedFiles(next), [kept.uuid])
  t.equal((await download(next, kept.uuid)).text, 'kept')
  t.same(JSON.parse(await (await next.fetch('alice', pathOf(id))).text()).length, 1)
})

t.test('a file with an event stays, even when its upload got no answer', async (t) => {
  const { start } = await restartable(t)
  const server = await start()
  const { say, post, pathOf } = await attachmentRepository(server, 'app', { others: false })
  const id = await say()
  const { events } = server.services
  const { append } = events
  events.append = async (stream, recorded, expected) => {
    const appended = await append.call(events, stream, recorded, expected)
    if (recorded.some(({ type }) => type === 'AttachmentAdded')) throw new StoreUnavailable('killed')
    return appended
  }
  const key = { headers: { 'Idempotency-Key': 'k' } }
  t.equal((await post('alice', id, formWith('there', 'a.txt'), key)).status, 503)
  await server.stop()

  const next = await start()
  const [file] = JSON.parse(await (await next.fetch('alice', pathOf(id))).text())
  t.equal((await download(next, file.uuid)).text, 'there')
  const init = { method: 'POST', body: formWith('there', 'a.txt'), ...key }
  const again = await next.fetch('alice', pathOf(id), init)
  t.equal(again.status, 201)
  t.same(JSON.parse(await again.text()), file, 'sent again it is the same one')
  t.same(await storedFiles(next), [file.uuid])
})

t.test('the next start finishes a deletion that a crash cut off after its event', async (t) => {
  const { start } = await restartable(t)
  const server = await start()
  const { say, post, pathOf } = await attachmentRepository(server, 'app', { others: false })
  const other = await attachmentRepository(server, 'other', { others: false })
  const [first, second, third] = [await say(), await say(), await other.say()]
  const { body: one } = await post('alice', first, formWith('1', '1.txt'))
  const { body: two } = await post('alice', second, formWith('2', '2.txt'))
  const { body: three } = await other.post('alice', third, formWith('3', '3.txt'))
  const { body: stays } = await post('alice', first, formWith('4', '4.txt'))
  const { attachments } = server.services
  attachments.remove = async () => {
    throw new Error('killed')
  }
  const remove = (path: string) => server.fetch('alice', path, { method: 'DELETE' })
  await remove(pathOf(first, `/${one.id}`))
  await remove(`/api/v1/repos/alice/app/issues/comments/${second}`)
  await remove('/api/v1/repos/alice/other')
  t.equal((await storedFiles(server)).length, 4)
  for (const { uuid } of [one, two, three]) t.equal((await download(server, uuid)).status, 404)
  await server.stop()

  const next = await start()
  t.same(await storedFiles(next), [stays.uuid])
  t.equal((await download(next, stays.uuid)).text, '4')
})

t.test(
  'a start removes stray files and files of unfinished uploads, and it leaves all other files alone',
  async (t) => {
    const { DATA_DIR, start } = await restartable(t)
    const server = await start()
    const { say, post } = await attachmentRepository(server, 'app', { others: false })
    const { body: kept } = await post('alice', await say(), formWith('kept', 'kept.txt'))
    await server.stop()
    const directory = join(DATA_DIR, 'attachments')
    for (let i = 0; i < 1200; i++) {
      const uuid = randomUUID()
      await mkdir(join(directory, uuid.slice(0, 2)), { recursive: true })
      await writeFile(join(directory, uuid.slice(0, 2), uuid), 'stray')
    }
    await writeFile(join(directory, 'incoming', `00-${randomUUID()}`), 'half')
    await writeFile(join(directory, kept.uuid.slice(0, 2), 'README'), 'mine')

    const next = await start()
    t.same((await storedFiles(next)).sort(), [kept.uuid, 'README'].sort())
  },
)

t.test('a start with another log removes nothing', async (t) => {
  const { DATA_DIR, start } = await restartable(t)
  const server = await start()
  const { say, post } = await attachmentRepository(server, 'app', { others: false })
  const { body: kept } = await post('alice', await say(), formWith('kept', 'kept.txt'))
  await server.stop()
  for (const name of ['events.db', 'views.db', 'secrets.db']) {
    for (const rest of ['', '-wal', '-shm']) await rm(join(DATA_DIR, name + rest), { force: true })
  }
  t.ok(await isStored(await start(), kept.uuid))
})

t.test('a start without read models waits for new ones, and removes nothing', async (t) => {
  const { DATA_DIR, start } = await restartable(t)
  const server = await start()
  const { say, post } = await attachmentRepository(server, 'app', { others: false })
  const { body: kept } = await post('alice', await say(), formWith('kept', 'kept.txt'))
  await server.stop()
  for (const rest of ['', '-wal', '-shm']) await rm(join(DATA_DIR, `views.db${rest}`), { force: true })
  const next = await start()
  t.same(await storedFiles(next), [kept.uuid])
  t.equal((await download(next, kept.uuid)).text, 'kept')
})

t.test('while a read model is stopped, no file counts as unknown', async (t) => {
  const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
  // As in a process that has not run yet: recovery of this server has passed it.
  const attachments = await openAttachmentFiles(join(server.dataDir, 'attachments'))
  const services = { ...server.services, attachments }
  const stray = randomUUID()
  await mkdir(join(server.dataDir, 'attachments', stray.slice(0, 2)), { recursive: true })
  await writeFile(join(server.dataDir, 'attachments', stray.slice(0, 2), stray), 'stray')
  const stopped = {
    ...services.projector,
    status: () => [{ name: 'comments', position: 1, stopped: 'event 2' }],
  }
  await removeOrphans({ ...services, projector: stopped })
  t.ok(await isStored(server, stray))
  await removeOrphans(services)
  t.notOk(await isStored(server, stray))
})
