/** A request that moved a ref and was cut off before the log had it took effect: the log gets it as of that request. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { StoreUnavailable } from '../../../src/events/event-store.ts'
import { gitStream } from '../../../src/events/streams.ts'
import { killedAfter } from '../../killed-server.ts'
import { passwordOf, startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { eventsIn, startPulls } from '../pull-requests/pull-repository.ts'

const REQUESTS = [
  {
    what: 'a commit to a branch',
    path: 'contents/a',
    body: { content: 'YQ==' },
    moved: /^rename \S+\/refs\/heads\/main\.lock/,
    ref: 'refs/heads/main',
    cause: 'push',
  },
  {
    what: 'a commit to a new branch',
    path: 'contents/b',
    body: { content: 'YQ==', new_branch: 'patch' },
    moved: /^git update-ref .*refs\/heads\/patch/,
    ref: 'refs/heads/patch',
    cause: 'push',
  },
  {
    what: 'a branch',
    path: 'branches',
    body: { new_branch_name: 'made' },
    moved: /^git update-ref .*refs\/heads\/made/,
    ref: 'refs/heads/made',
    cause: 'branch-creation',
  },
  {
    what: 'a tag',
    path: 'tags',
    body: { tag_name: 'v1', message: 'one' },
    moved: /^git update-ref .*refs\/tags\/v1/,
    ref: 'refs/tags/v1',
    cause: 'tag-creation',
  },
  {
    what: 'a release',
    path: 'releases',
    body: { tag_name: 'v2' },
    moved: /^git update-ref .*refs\/tags\/v2/,
    ref: 'refs/tags/v2',
    cause: 'tag-creation',
  },
  {
    what: 'a merge that deletes its branch',
    path: 'pulls/1/merge',
    body: { Do: 'merge', delete_branch_after_merge: true },
    moved: /^git update-ref .*delete refs\/heads\/topic/,
    ref: 'refs/heads/topic',
    cause: 'branch-deletion',
    status: 200,
  },
]

/** All that the log has of the moves of a ref, the last first. */
async function movesOf(server: TestServer, repoId: number, ref: string) {
  const moves = []
  for (const { type, data, metadata } of await eventsIn(server, gitStream(repoId))) {
    if (type !== 'RefsUpdated') continue
    for (const move of data.refs)
      if (move.ref === ref) moves.unshift({ cause: data.cause, by: metadata.actor?.login, to: move.to })
  }
  return moves
}

t.test('a request that was killed after git moved its ref is found done by its retry', async (t) => {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-killed-moves-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const first = await startPulls(t, { DATA_DIR })
  const { branch, open, repoId, tip } = await first.repository(t, 'app')
  await branch('topic', { topic: 'topic' })
  t.equal(await open('topic'), 1)
  const before = new Map<string, number>()
  for (const { ref } of REQUESTS) before.set(ref, (await movesOf(first.server, repoId, ref)).length)
  await first.server.stop()

  const headers = {
    authorization: `Basic ${Buffer.from(`alice:${passwordOf('alice')}`).toString('base64')}`,
    'content-type': 'application/json',
  }
  for (const { what, path, body, moved } of REQUESTS) {
    await killedAfter(t, DATA_DIR, moved, (url) =>
      fetch(`${url}/api/v1/repos/alice/app/${path}`, {
        method: 'POST',
        headers: { ...headers, 'idempotency-key': what },
        body: JSON.stringify(body),
      }),
    )
  }
  const server = await startTestServer(t, { DATA_DIR })
  for (const { what, path, body, ref, cause, status = 201 } of REQUESTS) {
    const moves = await movesOf(server, repoId, ref)
    const own = moves.filter((move) => move.cause === cause)
    t.match(own[0], { by: 'alice' }, `${what}: recorded as of the request`)
    const added = ref === 'refs/heads/main' ? 2 : 1
    t.equal(moves.length - (before.get(ref) ?? 0), added, `${what}: recorded once`)
    const retry = await server.fetch('alice', `/api/v1/repos/alice/app/${path}`, {
      method: 'POST',
      headers: { 'Idempotency-Key': what },
      body: JSON.stringify(body),
    })
    t.equal(retry.status, status, `${what}: the retry gets the answer`)
    t.same(await movesOf(server, repoId, ref), moves, `${what}: and does nothing`)
  }
  const main = await movesOf(server, repoId, 'refs/heads/main')
  t.equal(main[0]?.to, await tip('main'))
})

t.test('a request whose move the log could not take is found done by a retry before recovery', async (t) => {
  const { server, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
  const { repoId, call } = await repository(t, 'app')
  const { events } = server.services
  const { append } = events
  for (const { what, path, body, ref, cause, status = 201 } of REQUESTS.slice(0, 5)) {
    events.append = (stream, ...rest) => {
      if (stream === gitStream(repoId)) throw new StoreUnavailable('away')
      return append.call(events, stream, ...rest)
    }
    const post = () => call('alice', 'POST', path, body, { 'Idempotency-Key': what })
    t.equal((await post()).status, 503, what)
    events.append = append
    t.equal((await post()).status, status, what)
    // A release is content with a tag that is there.
    const isRecorded = async () => (await movesOf(server, repoId, ref))[0]?.cause === cause
    await until(`${what} is recorded`, isRecorded)
    t.match((await movesOf(server, repoId, ref))[0], { by: 'alice' })
  }
})
