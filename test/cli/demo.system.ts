import { execFile } from 'node:child_process'
import { readdir } from 'node:fs/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { program } from '../program.ts'
import { ADMIN_PASSWORD } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { mergelog } from './command-line.ts'

const run = promisify(execFile)
const MERGELOG = [program('src/cli/mergelog')]

/** The demo pushes the history of the checkout that it runs in, so it needs one. */
const complete = await run('git', ['rev-parse', '--is-shallow-repository']).then(
  ({ stdout }) => stdout.trim() === 'false',
  () => false,
)
const options = complete
  ? {}
  : { skip: 'this checkout is not a complete git clone, so there is no history to push' }

t.test('mergelog demo pushes and merges this repository, and prints the events', options, async (t) => {
  const server = await startTestServer(t)
  const env = { ...process.env, DATA_DIR: server.dataDir, PUBLIC_URL: server.url, ADMIN_PASSWORD }
  const { stdout } = await run(process.execPath, [...MERGELOG, 'demo'], {
    env,
    cwd: process.cwd(),
  })
  t.match(stdout, /PullRequestOpened[\s\S]*MergeStarted[\s\S]*PullRequestMerged/)
  t.match(stdout, /everything is as expected/)
  const wrong = { DATA_DIR: server.dataDir, PUBLIC_URL: server.url, ADMIN_PASSWORD: 'not the password' }
  t.match(await mergelog(['demo'], wrong), { code: 1 }, 'it fails when a result differs')

  const json = await run(process.execPath, [...MERGELOG, 'demo', '--json'], { env })
  t.match(JSON.parse(json.stdout), { repository: /^admin\/demo-/, pull: 1, events: ['RepositoryCreated'] })
})

t.test('mergelog demo refuses a log of another server', options, async (t) => {
  const server = await startTestServer(t)
  const none = t.testdir()
  const environment = { DATA_DIR: none, PUBLIC_URL: server.url, ADMIN_PASSWORD }
  const unread = `set -o pipefail; ${[process.execPath, ...MERGELOG].join(' ')} demo | true`
  const demo = () => run('bash', ['-c', unread], { env: { ...process.env, ...environment } })
  await t.rejects(demo(), { code: 1, stderr: /^mergelog: DATA_DIR: there is no log in \S+\n$/ })
  t.same(await readdir(none), [], 'it creates no log')

  const other = await startTestServer(t)
  const make = { method: 'POST', body: JSON.stringify({ name: 'other' }) }
  t.equal(
    (await other.fetch('admin', '/api/v1/user/repos', make)).status,
    201,
    'a repository with the same id',
  )
  environment.DATA_DIR = other.dataDir
  // A closed pipe is not a failure, but the real failure must still be reported.
  await t.rejects(demo(), {
    code: 1,
    stderr: /^mergelog: the environment names another log than that of \S+ \S+ at \S+\n$/,
  })
  const repositories = await server.fetch('admin', '/api/v1/user/repos')
  t.same(await repositories.json(), [], 'it leaves nothing on the server')
})
