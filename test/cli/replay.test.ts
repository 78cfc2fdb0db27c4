import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { mergelog } from './command-line.ts'

t.test('an issue and a pull request as they were, beside a running server', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app', private: true, auto_init: true })
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'First' })
  await alice.repos.issueEditIssue('alice', 'app', 1, { title: 'Second' })
  const work = await workTree(t, server.gitUrl('alice', 'alice/app'))
  await work.git('push', '-q', 'origin', 'main:topic')
  await alice.repos.repoCreatePullRequest('alice', 'app', { head: 'topic', base: 'main', title: 'Pull' })
  const environment = { DATA_DIR: server.dataDir, PUBLIC_URL: server.url }
  const replay = (...args: string[]) => mergelog(['replay', 'alice/app#1', ...args], environment)

  const first = await replay('--revision', '0')
  t.match(first, { code: 0, stderr: '' })
  t.match(first.stdout, /^alice\/app#1 after revision 0, \S+Z\n/)
  t.match(first.stdout, /\ntitle {2,}First\n/)
  t.match(first.stdout, /\nuser {2,}alice\n/)
  t.match((await replay('--revision', '1')).stdout, /\ntitle {2,}Second\n/)

  const answer = await server.fetch('alice', '/api/v1/repos/alice/app/issues/1/replay?revision=0')
  const history = await server.fetch('alice', '/api/v1/repos/alice/app/issues/1/history')
  const [opened]: { at: string }[] = JSON.parse(await history.text())
  const json = await replay('--at', `${opened?.at}`, '--json')
  t.same(JSON.parse(json.stdout), await answer.json(), 'the same JSON as from the server')

  const pull = await mergelog(['replay', 'alice/app#2', '--revision', '0'], environment)
  t.match(pull.stdout, /\nhead {2,}topic [0-9a-f]{10}\n/)
  t.match(pull.stdout, /\nmerged {2,}false\n/)

  const cases: [args: string[], line: RegExp, code?: number][] = [
    [[], /^mergelog: revision: either this or at must be given\n$/, 2],
    [['--at', 'yesterday'], /^mergelog: at: must be a date as 2026-11-26, or a date-time/, 2],
    [
      ['--revision', '0', '--at', '2026-01-01T00:00:00Z'],
      /^mergelog: at: cannot be given together with revision\n$/,
      2,
    ],
    [['--revision', '9'], /^mergelog: there is nothing at that moment; revision: 0 to 1; at: from [^()]*\n$/],
    [['--at', '2001-01-01T00:00:00Z'], /^mergelog: there is nothing at that moment; revision: 0 to 1;/],
    [['--at', '2001-01-01'], /^mergelog: there is nothing at that moment; revision: 0 to 1;/],
    [['--at', '2001-02-30'], /^mergelog: at: must be a date/, 2],
  ]
  for (const [args, line, code = 1] of cases) {
    t.match(await replay(...args), { code, stdout: '', stderr: line }, args.join(' '))
  }
})

t.test('a replay without a server creates no files', async (t) => {
  const DATA_DIR = t.testdir()
  const server = await startTestServer(t, { DATA_DIR })
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'First' })
  await server.stop()
  const databases = async () => (await readdir(DATA_DIR)).filter((name) => /^(views|secrets)\.db$/.test(name))
  const replay = () => mergelog(['replay', 'alice/app#1', '--revision', '0'], { DATA_DIR })
  t.match(await replay(), { code: 0, stdout: /\ntitle {2,}First\n/ })
  await rm(join(DATA_DIR, 'secrets.db'))
  t.match(await replay(), { code: 0, stdout: /\ntitle {2,}lost: its key is missing\n/ })
  t.same(await databases(), ['views.db'])
  await rm(join(DATA_DIR, 'views.db'))
  t.match(await replay(), {
    code: 1,
    stdout: '',
    stderr: /^mergelog: DATA_DIR: it has no read models yet/,
  })
  t.match(await mergelog(['history', 'alice/app#1'], { DATA_DIR }), { code: 0, stdout: /IssueOpened/ })
  t.same(await databases(), [])
})
