import { utimes } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { type EventStore, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { repositoryStream } from '../../../src/events/streams.ts'
import { adoptRepository, createRepository, deleteAbandoned } from '../../../src/git/repository/repository.ts'
import { removeUnrecorded } from '../../../src/processes/repositories/unrecorded-repositories.ts'
import { exists } from '../../../src/storage/disk.ts'
import { startTestServer } from '../../start-server.ts'

const DAYS_AGO = new Date(Date.now() - 2 * 24 * 3_600_000)

t.test('a creation or a fork that crashed before its event leaves no repository for good', async (t) => {
  const server = await startTestServer(t)
  const { services } = server
  const { events, gitDir } = services
  const call = (login: string, path: string, body: object, key = 'once') =>
    server.fetch(login, `/api/v1/${path}`, {
      method: 'POST',
      headers: { 'idempotency-key': key },
      body: JSON.stringify(body),
    })
  await server.as('bob')
  const app = await call('alice', 'user/repos', { name: 'app', auto_init: true })
  const { id }: { id: number } = JSON.parse(await app.text())
  const { append } = events
  const dying: EventStore['append'] = async (stream, appended, expected) => {
    if (appended.some(({ type }) => type === 'RepositoryCreated')) throw new StoreUnavailable('died')
    return append.call(events, stream, appended, expected)
  }
  events.append = dying
  const create = () => call('alice', 'user/repos', { name: 'cut' }, 'create')
  const fork = () => call('bob', 'repos/alice/app/forks', {}, 'fork')
  t.same([(await create()).status, (await fork()).status], [503, 503])
  events.append = append
  const [made, forked] = [join(gitDir, `${id + 1}.git`), join(gitDir, `${id + 2}.git`)]
  const others = join(gitDir, `${id + 50}.git`)
  await createRepository(others, { defaultBranch: 'main' })
  const existing = () => Promise.all([made, forked, others, join(gitDir, `${id}.git`)].map(exists))

  await removeUnrecorded(services)
  t.same(await existing(), [true, true, true, true], 'a request may still go on with them')
  for (const dir of [made, forked, others, join(gitDir, `${id}.git`)]) await utimes(dir, DAYS_AGO, DAYS_AGO)
  t.equal((await fork()).status, 202, 'a retried request goes on with it')
  await removeUnrecorded(services)
  t.same(await existing(), [false, true, true, true], 'the id of the third is not of this log')
  t.equal((await create()).status, 201, 'a retried request makes it anew')
  t.same(await existing(), [true, true, true, true])
})

t.test('a repository with refs whose creation the log has lost keeps its files', async (t) => {
  const { services, as } = await startTestServer(t)
  const { events, gitDir, views } = services
  const alice = await as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
  const dir = join(gitDir, `${data.id}.git`)
  await utimes(dir, DAYS_AGO, DAYS_AGO)
  // As after a deletion of the stream in EventStoreDB, a scavenge and a rebuild.
  const readStream: EventStore['readStream'] = (stream, options) =>
    events.readStream(stream === repositoryStream(data.id ?? 0) ? 'lost' : stream, options)
  const get = async () => undefined
  await removeUnrecorded({
    ...services,
    events: { ...events, readStream },
    views: { ...views, repositories: { ...views.repositories, get } },
  })
  t.ok(await exists(dir))
})

t.test('a repository that a request still works on is not orphaned', async (t) => {
  const dir = join(t.testdir(), '1.git')
  await createRepository(dir, { defaultBranch: 'main' })
  t.equal(await deleteAbandoned(dir), false)
  await utimes(dir, DAYS_AGO, DAYS_AGO)
  t.equal(await createRepository(dir, { defaultBranch: 'main' }), 'exists')
  t.equal(await deleteAbandoned(dir), false)
  await utimes(dir, DAYS_AGO, DAYS_AGO)
  t.equal(await deleteAbandoned(dir), true)
  t.equal(await adoptRepository(dir), false)
})
