/** The leftovers of a deleted repository are removed: its files, its users' stars and watches, and its documents. */
import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import { newContext } from '../../../src/commands/execution/command-context.ts'
import { MODELS_WITH_ORPHANS } from '../../../src/commands/repositories/orphaned-documents.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import {
  gitStream,
  issueStream,
  labelStream,
  lfsLockStream,
  lfsStream,
  pullStream,
  referencesStream,
  repositoryStream,
} from '../../../src/events/streams.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { processPosition } from '../../../src/processes/process-manager.ts'
import { READ_MODELS } from '../../../src/projections/views/views.ts'
import { openSqlite } from '../../../src/storage/sqlite/sqlite.ts'
import { startWorld } from '../../auth/route-world.ts'
import { makeSampleRepository } from '../../auth/sample-repository.ts'
import { newKey } from '../../auth/social-rows.ts'
import { eventsIn } from '../../commands/pull-requests/pull-repository.ts'
import { sharedStores } from '../../shared-stores.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { writerOf } from '../../stores.ts'
import { until } from '../../until.ts'

const BUG = { name: 'bug', color: 'ff0000', description: '', exclusive: false, archived: false }

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
    await append(services, context, issueStream(repoId, index), 'fill', recorded, 'no-stream')
  })
  await Promise.all(work)
  await services.projector.waitFor(context.written, 30_000)
}

/** The history stays: its index, and the events of requests with a key. */
const STAYING = ['history', 'keyed_events']

/** The read models that have documents of a repository, with their number. */
async function modelsOf({ services }: Pick<TestServer, 'services'>, repoId: number) {
  const found: Record<string, number> = {}
  for (const { collection } of READ_MODELS) {
    if (STAYING.includes(collection.name)) continue
    for (const { id, body } of await services.readStore.range(collection, { limit: 10_000 })) {
      const isNamed = new RegExp(`"(repoId":${repoId}|scopeKey":"repository-${repoId}")[,}]`)
      const isOf = /^\d+[./]/.test(id) && [`${repoId}.`, `${repoId}/`].some((prefix) => id.startsWith(prefix))
      if (isOf || isNamed.test(JSON.stringify(body)))
        found[collection.name] = (found[collection.name] ?? 0) + 1
    }
  }
  return found
}

/** How many documents the read models have of a repository's issues and comments. */
async function documentsOf(server: TestServer, repoId: number): Promise<number> {
  const {
    issues = 0,
    pulls = 0,
    activities = 0,
    comments = 0,
    issue_texts = 0,
  } = await modelsOf(server, repoId)
  return issues + pulls + activities + comments + issue_texts
}

const removalsIn = async (server: TestServer, repoId: number) =>
  (await eventsIn(server, repositoryStream(repoId))).flatMap(({ type, data }) =>
    type === 'LeftDocumentsRemoved' ? [data.left] : [],
  )

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
  const parts = await removalsIn(server, id)
  t.ok(parts.length >= (5 * issues) / 500, `${parts.length} events`)
  for (const left of parts) {
    t.ok(left.flatMap(({ ids }) => ids).length <= 600, 'no event is about more than some hundreds')
  }
  t.notMatch(await send('GET', 'repos/alice/kept/history'), [{ type: 'LeftDocumentsRemoved' }])

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

t.test('documents of a deleted repository are removed from the read models in batches', async (t) =>
  removedInParts(t, { DATA_DIR: t.testdir() }, 501),
)

t.test('the same on EventStoreDB and MongoDB', async (t) => {
  t.testdir()
  await removedInParts(t, await sharedStores(t), 40)
})

t.test('after a crash between two batches the rest is removed', async (t) => {
  const environment = { DATA_DIR: t.testdir(), LOG_LEVEL: 'fatal' }
  const server = await startTestServer(t, environment)
  const { services } = server
  const { append: write } = services.events
  const post = { method: 'POST', body: JSON.stringify({ name: 'left' }) }
  const { id } = JSON.parse(await (await server.fetch('alice', '/api/v1/user/repos', post)).text())
  await fill(server, id, 101)
  let parts = 0
  services.events.append = async (stream, events, expected) => {
    if (events.some(({ type }) => type === 'LeftDocumentsRemoved')) parts += 1
    if (parts > 1) throw new StoreUnavailable('died')
    return write(stream, events, expected)
  }
  await server.fetch('alice', '/api/v1/repos/alice/left', { method: 'DELETE' })
  await until('the second part was tried', () => Promise.resolve(parts > 1))
  await server.stop()
  const again = await startTestServer(t, environment)
  await until('nothing is left', async () => (await documentsOf(again, id)) === 0)
  const removed = (await removalsIn(again, id)).flatMap((left) =>
    left.flatMap(({ model, ids }) => ids.map((one) => `${model} ${one}`)),
  )
  t.equal(new Set(removed).size, removed.length, 'nothing is removed twice')
})

t.test('no read model keeps documents of a deleted repository', async (t) => {
  const server = await startTestServer(t)
  const world = await startWorld(t, server)
  const { must } = world
  const { base, repo, head, pull } = await makeSampleRepository(world)
  const { id: repoId } = await must<{ id: number }>('alice', 'GET', base)
  const lock = { id: 1, path: 'a.bin', owner: { id: 2, login: 'alice' }, ref: null }
  const context = newContext(null, randomUUID())
  const { services } = server
  const { events } = services
  const record = (stream: string, event: DomainEvent) =>
    append(writerOf(events), context, stream, event.type, [event], 'any')
  const objects = [{ oid: 'a'.repeat(64), size: 1 }]
  await record(lfsStream(repoId), { type: 'LfsObjectsAdded', data: { repoId, objects, cause: 'upload' } })
  await record(lfsLockStream(repoId, 'x'), { type: 'LfsLocked', data: { repoId, lock } })
  // Names that are too long for one event together.
  const refs = Array.from({ length: 100 }, (_, i) => ({
    ref: `refs/tags/${'n'.repeat(1000)}${i}`,
    from: null,
    to: head,
  }))
  await record(gitStream(repoId), { type: 'RefsUpdated', data: { repoId, refs, commits: [], cause: 'push' } })
  const merged = { repoId, index: pull, commit: head, head, mergedBy: { id: 2, login: 'alice' } }
  await record(pullStream(repoId, pull), {
    type: 'PullRequestMerged',
    data: { ...merged, style: 'merge', mergeBase: head, milestone: null, deleteBranch: false },
  })
  const line = { path: 'a', side: 'new', line: 1, commit: head, base: head, hunk: '', body: 'Why?' } as const
  const comment = { reviewId: 9000, commentId: 9001, author: { id: 2, login: 'alice' }, ...line }
  await record(pullStream(repoId, pull), {
    type: 'ReviewCommentAdded',
    data: { repoId, index: pull, ...comment },
  })
  await record(referencesStream(repoId, head), {
    type: 'ReferencesRecorded',
    data: {
      repoId,
      source: { sha: head, subject: '#1' },
      revision: null,
      references: [{ issue: { repoId, index: 1 }, action: 'none', inTitle: false }],
    },
  })
  await services.projector.waitFor(context.written, 30_000)
  await must('alice', 'POST', `${base}/tag_protections`, { name_pattern: 'v*', whitelist_usernames: ['bob'] })
  await must('alice', 'POST', `${base}/keys`, { title: 'k', key: newKey(), read_only: true })
  await must('alice', 'PATCH', base, { name: `${repo}-renamed` })

  const before = await modelsOf(server, repoId)
  const expected = [...MODELS_WITH_ORPHANS, 'follows', 'deploy_keys', 'webhooks', 'tag_protections']
  t.strictSame(
    expected.filter((model) => before[model] === undefined),
    [],
    'it has documents in all of them',
  )
  await must('alice', 'DELETE', `${base}-renamed`)
  await until('nothing is left', async () => Object.keys(await modelsOf(server, repoId)).length === 0)
  for (const left of await removalsIn(server, repoId)) {
    t.ok(JSON.stringify(left).length < 64 * 1024, 'no event is large')
  }
  for (const login of ['bob', 'dave', 'admin']) {
    t.match(await must(login, 'GET', `/users/${login}`), { starred_repos_count: 0 }, 'no star is counted')
  }
})

t.test('leftovers of earlier deletions are removed once', async (t) => {
  const DATA_DIR = t.testdir()
  const environment = { DATA_DIR, LOG_LEVEL: 'fatal' }
  const first = await startTestServer(t, environment)
  const context = newContext(null, randomUUID())
  const post = { method: 'POST', body: JSON.stringify({ name: 'old' }) }
  const { id: repoId } = JSON.parse(await (await first.fetch('alice', '/api/v1/user/repos', post)).text())
  await fill(first, repoId, 3)
  const label = { id: 1, scope: { kind: 'repository', repoId } as const, ...BUG }
  await append(
    first.services,
    context,
    labelStream(1),
    'label',
    [{ type: 'LabelCreated', data: label }],
    'any',
  )
  await first.services.projector.waitFor(context.written, 30_000)
  await first.stop()

  // An older server has no such process: it deletes, and has no checkpoint.
  const events = openSqliteEventStore(join(DATA_DIR, 'events.db'))
  const owner = { id: 2, login: 'alice' }
  const deleted = { type: 'RepositoryDeleted', data: { repoId, owner, name: 'old' } } as const
  await append(writerOf(events), context, repositoryStream(repoId), 'delete', [deleted], 'any')
  await events.close()
  const db = openSqlite(join(DATA_DIR, 'views.db'), 'NORMAL')
  db.prepare(`DELETE FROM checkpoints WHERE name = 'process_deleted_repositories'`).run()
  db.close()

  const second = await startTestServer(t, environment)
  await until('nothing is left', async () => Object.keys(await modelsOf(second, repoId)).length === 0)
  const removals = (await removalsIn(second, repoId)).length
  t.ok(removals > 0)
  await second.stop()
  const third = await startTestServer(t, environment)
  const { events: log, readStore } = third.services
  const reached = await processPosition(readStore, 'deleted_repositories')
  const place = (await eventsIn(third, repositoryStream(repoId))).find(
    ({ type }) => type === 'RepositoryDeleted',
  )
  t.ok((reached ?? 0) >= (place?.position ?? Number.NaN), 'the next start is beyond it')
  t.ok((await log.lastPosition()) > 0)
  t.equal((await removalsIn(third, repoId)).length, removals)
  await third.stop()
})
