/** Visibility of push options (`--push-option`). */
import t from 'tap'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { type HistoryRow, linesOf, listen, pageOf } from './history-client.ts'

const server = await startTestServer(t)
const [alice] = await Promise.all(['alice', 'bob', 'carol'].map((login) => server.as(login)))
if (alice === undefined) throw new Error('no client')

t.test('push options are in the history only for writers of the repository', async (t) => {
  const path = '/repos/alice/app/history'
  await alice.user.createCurrentUserRepo({ name: 'app' })
  await alice.repos.repoAddCollaborator('alice', 'app', 'bob', { permission: 'write' })
  await alice.repos.repoAddCollaborator('alice', 'app', 'carol', { permission: 'read' })
  const live = await listen(t, server, 'carol', path)
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  await work.commit('Mine', { 'a.txt': 'a\n' })
  await work.git('push', '-o', 'token=hunter2', 'origin', 'HEAD:refs/heads/main')

  const pushOf = (rows: readonly HistoryRow[]) => rows.find(({ type }) => type === 'RefsUpdated')
  const asked = async (login: string | null) => [
    pushOf((await pageOf(server, login, path)).rows),
    pushOf(await linesOf(server, login, path)),
  ]
  for (const login of ['alice', 'bob', 'admin']) {
    for (const push of await asked(login)) t.same(push?.data.options, ['token=hunter2'], login)
  }
  for (const login of ['carol', null]) {
    for (const push of await asked(login)) {
      t.match(push?.data, { cause: 'push', refs: [{ ref: 'refs/heads/main' }] })
      t.notOk(push && 'options' in push.data, `${login}`)
    }
  }
  const count = (await pageOf(server, 'carol', path)).rows.length
  t.notMatch(JSON.stringify(await live.has(count)), 'hunter2', 'nor live')
  t.match(live.text(), 'refs/heads/main')
})
