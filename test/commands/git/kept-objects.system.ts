/** `KEEP_HISTORY_OBJECTS` and `kill -9`: a commit is kept, wherever the server dies while a ref leaves it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { gitIn } from '../../git-client.ts'
import { killedAfter } from '../../killed-server.ts'
import { passwordOf, startTestServer } from '../../start-server.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'
import { movesOf } from './ref-requests.ts'

const KEEP = { KEEP_HISTORY_OBJECTS: 'on' }

const POINTS = [
  {
    name: 'after git deleted the branch',
    branch: 'one',
    effect: /^git update-ref .*delete refs\/heads\/one/,
  },
  { name: 'after the hidden ref was made', branch: 'two', effect: /^link \S+\/refs\/mergelog\/kept\// },
]

t.test('KEEP_HISTORY_OBJECTS keeps a commit when the server is killed between git and the log', async (t) => {
  const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-killed-kept-'))
  t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
  const first = await startPulls(t, { DATA_DIR, ...KEEP })
  const { branch, repoId, tip } = await first.repository(t, 'app')
  const tips = new Map<string, string | undefined>()
  for (const point of POINTS) {
    await branch(point.branch, { [point.branch]: 'lost\n' })
    tips.set(point.branch, await tip(point.branch))
  }
  await first.server.stop()
  const authorization = `Basic ${Buffer.from(`alice:${passwordOf('alice')}`).toString('base64')}`
  for (const { name, effect, branch } of POINTS) {
    await t.test(name, async (t) => {
      const path = `/api/v1/repos/alice/app/branches/${branch}`
      const act = (url: string) => fetch(`${url}${path}`, { method: 'DELETE', headers: { authorization } })
      await killedAfter(t, DATA_DIR, effect, act, KEEP)
      const server = await startTestServer(t, { DATA_DIR, ...KEEP })
      const dir = `${server.services.gitDir}/${repoId}.git`
      const hidden = await gitIn(dir, ['for-each-ref', '--format=%(objectname)', 'refs/mergelog/'])
      t.match(hidden, tips.get(branch) ?? 'a branch')
      const [last] = await movesOf(server, repoId, `refs/heads/${branch}`)
      t.match(last, { to: null }, 'the log has the deletion')
      await server.stop()
    })
  }
})
