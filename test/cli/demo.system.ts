import t from 'tap'
import { ADMIN_PASSWORD } from '../server-template.ts'
import { startTestServer } from '../start-server.ts'
import { mergelog } from './command-line.ts'

t.test('the demo shows the special features, and ends with three URLs to open', async (t) => {
  const server = await startTestServer(t)
  const args = ['demo', '--url', server.url, '--grpc', server.grpcAddress]
  const environment = { ADMIN_PASSWORD }
  const first = await mergelog(args, environment)
  t.match(first, { code: 0, stderr: '' })
  const parts = [
    /=> a repository: admin\/demo\n/,
    /=> a push of the first commit, and a branch/,
    /=> a pull request: #1\n/,
    /=> the check ci\/demo fails, so a merge is refused\n {3}\S/,
    /=> a review: demo-reviewer approves\n/,
    /=> a scheduled merge: it waits for the check\n/,
    /=> the check passes, and the server merges\n\* +[0-9a-f]+ Merge pull request 'Say hello' \(#1\)/,
    /PullRequestOpened[\s\S]*MergeScheduled[\s\S]*PullRequestMerged/,
    /after revision \d+: state open, merged false\n {3}after revision \d+: state closed, merged true\n/,
    /=> an upgrade plan: demo-v2\n {3}HTTP .*: demo-v2 at height 1000000\n {3}gRPC .*: demo-v2 at height 1000000\n/,
    /=> open these: .*\n {3}\S+\n {3}\S+\n {3}\S+\n$/,
  ]
  for (const part of parts) t.match(first.stdout, part)
  for (const url of first.stdout.trim().split('\n').slice(-3)) {
    t.equal((await fetch(url.trim())).status, 200, url)
  }

  await t.test('a second run says that the repository exists and continues with it', async (t) => {
    const second = await mergelog(args, environment)
    t.match(second, { code: 0, stderr: '' })
    t.match(second.stdout, /=> the repository admin\/demo exists: the demo continues with it\n/)
    t.match(second.stdout, /=> a pull request: #2\n/)
    t.match(second.stdout, /=> the upgrade plan demo-v2 is there already\n/)
    const json = await mergelog([...args, '--json'], environment)
    t.match(JSON.parse(json.stdout), { repository: 'admin/demo', continued: true, pull: 3, plan: 'demo-v2' })
    t.equal(JSON.parse(json.stdout).urls.length, 3)
  })

  await t.test('a failure of the demo is one line', async (t) => {
    const cases: [args: string[], environment: Record<string, string>, line: RegExp][] = [
      [args, {}, /^mergelog: ADMIN_PASSWORD or --password is needed; see --help\n$/],
      [
        args,
        { ADMIN_PASSWORD: 'not the password' },
        /^mergelog: GET \/api\/v1\/user: answered 401 [^\n]*\n$/,
      ],
      [
        ['demo', '--url', 'http://127.0.0.1:1'],
        environment,
        /^mergelog: no healthy server at http:\S+: run /,
      ],
      [
        [...args, '--grpc', '127.0.0.1:1'],
        environment,
        /^mergelog: gRPC at 127\.0\.0\.1:1 does not answer: [^\n]*\n$/,
      ],
      [
        [...args, '--user', 'alice', '--password', 'password of alice'],
        {},
        /^mergelog: alice is not a site admin. [^\n]*\n$/,
      ],
    ]
    for (const [args, environment, stderr] of cases) {
      t.match(await mergelog(args, environment), { code: 1, stderr }, `${stderr}`)
    }
  })
})
