/**
 * A request that was killed after git moved its ref, and before the log had it, took effect: the log gets it as that
 * request.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { killedAfter } from '../../killed-server.ts'
import { passwordOf, startTestServer } from '../../start-server.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'
import { movesOf, REQUESTS } from './ref-requests.ts'

/** One for each way to move a ref. The others are in `lost-moves.test.ts`. */
const KILLED = REQUESTS.filter(({ what }) => what !== 'a commit to a new branch' && what !== 'a branch')

t.test('a retry finds that the killed request has already moved the ref', async (t) => {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-killed-moves-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const first = await startPulls(t, { DATA_DIR })
  const { branch, open, repoId, tip } = await first.repository(t, 'app')
  await branch('topic', { topic: 'topic' })
  t.equal(await open('topic'), 1)
  const before = new Map<string, number>()
  for (const { ref } of KILLED) before.set(ref, (await movesOf(first.server, repoId, ref)).length)
  await first.server.stop()

  const headers = {
    authorization: `Basic ${Buffer.from(`alice:${passwordOf('alice')}`).toString('base64')}`,
    'content-type': 'application/json',
  }
  for (const { what, path, body, moved } of KILLED) {
    await killedAfter(t, DATA_DIR, moved, (url) =>
      fetch(`${url}/api/v1/repos/alice/app/${path}`, {
        method: 'POST',
        headers: { ...headers, 'idempotency-key': what },
        body: JSON.stringify(body),
      }),
    )
  }
  const server = await startTestServer(t, { DATA_DIR })
  for (const { what, path, body, ref, cause, status = 201 } of KILLED) {
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
