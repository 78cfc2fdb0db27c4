/** Recovery of a merge that was interrupted after its branch moved, together with other work. */
import { mkdtemp, rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { gitStream, pullStream } from '../../../src/events/streams.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { eventsIn, startPulls } from './pull-repository.ts'

/** A repository whose merge has moved the branch in git but not in the log. Its server has stopped. */
async function cutOff(t: Test, before: (server: TestServer, repoId: number) => Promise<unknown>) {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-recovered-once-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const { server, repository } = await startPulls(t, { DATA_DIR, LOG_LEVEL: 'silent' })
  const { repoId, dir, branch, open, merge, tip } = await repository(t, 'app')
  await repository(t, 'other')
  await branch('topic', { a: 'a' })
  await open('topic')
  await before(server, repoId)
  const from = await tip('main')
  const { events } = server.services
  const { append } = events
  events.append = (stream, ...rest) => {
    if (stream === gitStream(repoId)) throw new StoreUnavailable('killed')
    return append.call(events, stream, ...rest)
  }
  events.appendTogether = async () => {
    throw new StoreUnavailable('killed')
  }
  t.equal((await merge(1)).status, 503)
  t.not(await tip('main'), from, 'git has it')
  await server.stop()
  return { DATA_DIR, repoId, dir, from, to: await tip('main') }
}

async function movesOf(server: TestServer, repoId: number, from: string | undefined) {
  const events = await eventsIn(server, gitStream(repoId))
  const moves = events.flatMap((event) => (event.type === 'RefsUpdated' ? event.data.refs : []))
  return moves.filter((move) => move.ref === 'refs/heads/main' && move.from === from)
}

t.test('the move of a merge is recorded once, also when a push was interrupted, too', async (t) => {
  const { DATA_DIR, repoId, from, to } = await cutOff(t, ({ services }, id) =>
    services.pushJournal.begin(`${id}`, 0),
  )
  const server = await startTestServer(t, { DATA_DIR })
  const types = (await eventsIn(server, pullStream(repoId, 1))).map(({ type }) => type)
  t.ok(types.includes('PullRequestMerged'))
  t.match(await movesOf(server, repoId, from), [{ to }])
  t.equal((await movesOf(server, repoId, from)).length, 1)
})

t.test('a merge whose repository is unavailable during recovery is finished later', async (t) => {
  const { DATA_DIR, repoId, dir, from } = await cutOff(t, async () => {})
  await rename(dir, `${DATA_DIR}/away`)
  const server = await startTestServer(t, { DATA_DIR, LOG_LEVEL: 'silent' })
  const typesNow = async () => (await eventsIn(server, pullStream(repoId, 1))).map(({ type }) => type)
  t.equal((await typesNow()).at(-1), 'MergeStarted', 'the log does not say that it was deleted')
  await rename(`${DATA_DIR}/away`, dir)
  await until('the merge is finished', async () => (await typesNow()).includes('PullRequestMerged'))
  t.notOk((await typesNow()).includes('MergeFailed'))
  t.equal((await movesOf(server, repoId, from)).length, 1)
})
