import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { decode } from '../../src/events/codec.ts'
import { program } from '../program.ts'
import { passwordOf } from '../server-template.ts'
import { startTestServer, statusOf } from '../start-server.ts'

const seed = program('bench/seed/seed')

function run(dataDir: string, args: readonly string[], environment: Record<string, string> = {}) {
  const env = { ...process.env, DATA_DIR: dataDir, ...environment }
  return promisify(execFile)(process.execPath, [seed, ...args], { env })
}

t.test('npm run seed: the server has the requested data, and continues from it', async (t) => {
  const dataDir = t.testdir()
  const amounts = ['--issues', '100', '--pulls', '12', '--repos', '5', '--password', passwordOf('seed')]
  const { stdout } = await run(dataDir, amounts)
  t.match(stdout, '5 repositories, 100 issues, 12 pull requests')
  const server = await startTestServer(t, { DATA_DIR: dataDir })
  const { views, events } = server.services

  const { data: repositories, headers } = await server.anonymous.users.userListRepos('seed')
  t.equal(headers.get('X-Total-Count'), '5')
  t.same(
    repositories.map(({ name }) => name),
    ['repo-1', 'repo-2', 'repo-3', 'repo-4', 'repo-5'],
  )
  t.equal(
    (await server.anonymous.repos.repoListPullRequests('seed', 'repo-1', { state: 'all' })).data.length,
    12,
  )
  t.equal(await views.issues.count({ isPull: false }), 100)
  t.equal(await views.issues.count({ words: { $words: ['quokka'] } }), 30)
  t.ok((await views.issues.count({ isPull: false, state: 'closed' })) > 0)
  const { data: labels } = await server.anonymous.repos.issueListLabels('seed', 'repo-1')
  t.equal(labels.length, 5)
  const { data: milestones } = await server.anonymous.repos.issueGetMilestonesList('seed', 'repo-1')
  t.equal(milestones.length, 3)

  const numbers = new Map<string, number[]>()
  for await (const recorded of events.readAll()) {
    const event = decode(recorded)
    if (event.type === 'IssueOpened' || event.type === 'PullRequestOpened') {
      const { id, repoId, index } = event.data
      for (const [of, number] of [
        ['issue', id],
        [`numbers of ${repoId}`, index],
      ] as const) {
        numbers.set(of, [...(numbers.get(of) ?? []), number])
      }
    }
  }
  for (const [of, taken] of numbers) {
    t.same(
      taken.sort((a, b) => a - b),
      taken.map((_, i) => i + 1),
      `${of}: each number is taken once`,
    )
  }

  const { data: account } = await server.anonymous.users.userGet('seed')
  const { data: admin } = await (await server.as('admin')).user.userGetCurrent()
  t.not(account.id, admin.id, 'the site admin of the first start is another account')
  const opened = await server.fetch('seed', '/api/v1/user/repos', {
    method: 'POST',
    body: JSON.stringify({ name: 'next' }),
  })
  t.match(await opened.json(), { id: 6 }, 'new numbers continue after the seeded ones')
  const labelled = await server.fetch('seed', '/api/v1/repos/seed/repo-1/labels', {
    method: 'POST',
    body: JSON.stringify({ name: 'mine', color: '#123456' }),
  })
  t.match(await labelled.json(), { id: 26 })
  t.equal(
    await statusOf(fetch(`${server.url}/seed/repo-1.git/info/refs?service=git-upload-pack`)),
    404,
    'there is no git repository to clone',
  )

  await t.rejects(run(dataDir, []), { code: 1, stderr: /^seed: DATA_DIR: another process.* uses / })
})

t.test('npm run seed: a server starts on the data again', async (t) => {
  const dataDir = t.testdir()
  await run(dataDir, ['--issues', '0', '--pulls', '0', '--repos', '1'])
  const first = await startTestServer(t, { DATA_DIR: dataDir })
  await first.stop()
  const again = await startTestServer(t, { DATA_DIR: dataDir })
  t.equal((await again.anonymous.users.userListRepos('seed')).data.length, 1)
})

t.test('npm run seed: does not touch a directory with repositories', async (t) => {
  const dataDir = t.testdir()
  await run(dataDir, ['--issues', '0', '--pulls', '0', '--repos', '1'])
  await t.rejects(run(dataDir, []), { code: 2, stderr: /has repositories already/ })
})

t.test('npm run seed: names wrong arguments and settings in one line', async (t) => {
  const dataDir = t.testdir()
  const cases: [args: string[], environment: Record<string, string>, stderr: RegExp][] = [
    [['--issues', 'many'], {}, /^seed: --issues: must be a whole number from 0 to 10000000, not "many"\n$/],
    [['--repos', '0'], {}, /^seed: --repos: must be a whole number from 1 /],
    [['--stars', '5'], {}, /^seed: Unknown option '--stars'/],
    [['--password', 'short'], {}, /^seed: password: /],
    [[], { MONGODB_URL: 'mongodb://localhost' }, /^seed: only a data directory can be seeded/],
  ]
  for (const [args, environment, stderr] of cases) {
    const code = args[0] === '--password' ? 1 : 2
    await t.rejects(run(dataDir, args, environment), { code, stderr })
  }
  t.match((await run(dataDir, ['--help'])).stdout, '--issues')
})
