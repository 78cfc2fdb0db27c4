import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { append, newContext } from '../../src/commands/execute.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import { StoreUnavailable } from '../../src/events/event-store.ts'
import { issueStream, repositoryStream } from '../../src/events/streams.ts'
import { READ_MODELS } from '../../src/projections/views.ts'
import { verifyServer } from '../../src/verify/verify.ts'
import { eventsIn } from '../commands/pull-requests/pull-repository.ts'
import { sharedStores } from '../shared-stores.ts'
import { startTestServer, type TestServer } from '../start-server.ts'
import { until } from '../until.ts'

/** Issues of a repository, each with a comment, as their requests would record them. */
async function fill({ services }: TestServer, repoId: number, issues: number): Promise<void> {
  const alice = { id: 2, login: 'alice' }
  const context = newContext(alice, randomUUID())
  const nothing = { labels: [], milestone: null, assignees: [], deadline: null }
  const work = Array.from({ length: issues }, (_, i) => i + 1).map(async (index) => {
    const id = 1000 * repoId + index
    const of = { repoId, index }
    const recorded: DomainEvent[] = [
      {
        type: 'IssueOpened',
        data: { ...of, id, poster: alice, title: `old ${index}`, body: '', ...nothing },
      },
      { type: 'CommentAdded', data: { ...of, commentId: id, author: alice, body: 'leftover' } },
    ]
    await append(services.events, context, issueStream(repoId, index), 'fill', recorded, 'no-stream')
  })
  await Promise.all(work)
  await services.projector.waitFor(context.written, 30_000)
}

/** How many documents the read models have of a repository's issues and comments. */
async function documentsOf({ services }: TestServer, repoId: number): Promise<number> {
  const { readStore } = services
  let found = 0
  for (const { collection } of READ_MODELS) {
    if (!['issues', 'pulls', 'activities', 'comments', 'issue_texts'].includes(collection.name)) continue
    for (const { id, body } of await readStore.range(collection, { limit: 10_000 })) {
      if (id.startsWith(`${repoId}.`) || ('repoId' in body && body.repoId === repoId)) found += 1
    }
  }
  return found
}

async function removedInParts(t: Test, environment: Record<string, string>, issues: number) {
  let server = await startTestServer(t, environment)
  await server.as('alice')
  const send = async (method: string, path: string, body?: object) => {
    const init = { method, ...(body && { body: JSON.stringify(body) }) }
    const answer = await server.fetch('alice', `/api/v1/${path}`, init)
    const text = await answer.text()
    return text === '' ? undefined : JSON.parse(text)
  }
  const { id: kept } = await send('POST', 'user/repos', { name: 'kept' })
  const { id } = await send('POST', 'user/repos', { name: 'left' })
  await fill(server, kept, 3)
  await fill(server, id, issues)
  t.equal(await documentsOf(server, id), 5 * issues)
  await send('DELETE', 'repos/alice/left')
  await until('the read models have nothing of it', async () => (await documentsOf(server, id)) === 0)
  t.equal(await documentsOf(server, kept), 15, 'other repositories keep theirs')
  t.equal((await send('GET', 'repos/issues/search?q=old')).length, 3)
  const events = await eventsIn(server, repositoryStream(id))
  const parts = events.filter(({ type }) => type === 'LeftDiscussionsRemoved')
  t.equal(parts.length, 2 * Math.ceil(issues / 500), 'no event is about more than 500 of them')
  t.notMatch(await send('GET', 'repos/alice/kept/history'), [{ type: 'LeftDiscussionsRemoved' }])

  await server.stop()
  server = await startTestServer(t, environment)
  t.equal(await documentsOf(server, id), 0)
  const { texts, readStore } = server.services
  const scratchDir = join(t.testdirName, `scratch-${randomUUID()}`)
  await mkdir(scratchDir, { recursive: true })
  const { stored, keys } = texts
  const report = await verifyServer({ events: stored, keys, readStore, models: READ_MODELS, scratchDir })
  t.match(report, { sound: true }, 'replayed from the log, everything is the same')
}

t.test('what a deleted repository left in the read models is removed in parts', async (t) =>
  removedInParts(t, { DATA_DIR: t.testdir() }, 501),
)

t.test('the same on EventStoreDB and MongoDB', async (t) => {
  t.testdir()
  await removedInParts(t, await sharedStores(t), 40)
})

t.test('after a crash between two parts the rest is removed', async (t) => {
  const environment = { DATA_DIR: t.testdir(), LOG_LEVEL: 'fatal' }
  const server = await startTestServer(t, environment)
  const { services } = server
  const { append: write } = services.events
  const post = { method: 'POST', body: JSON.stringify({ name: 'left' }) }
  const { id } = JSON.parse(await (await server.fetch('alice', '/api/v1/user/repos', post)).text())
  await fill(server, id, 20)
  let parts = 0
  services.events.append = async (stream, events, expected) => {
    if (events.some(({ type }) => type === 'LeftDiscussionsRemoved')) parts += 1
    if (parts > 1) throw new StoreUnavailable('died')
    return write(stream, events, expected)
  }
  await server.fetch('alice', '/api/v1/repos/alice/left', { method: 'DELETE' })
  await until('the second part was tried', () => Promise.resolve(parts > 1))
  await server.stop()
  const again = await startTestServer(t, environment)
  await until('nothing is left', async () => (await documentsOf(again, id)) === 0)
  const removed = (await eventsIn(again, repositoryStream(id))).filter(
    ({ type }) => type === 'LeftDiscussionsRemoved',
  )
  t.equal(removed.length, 2, 'no part is removed twice')
})
