import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { program } from '../program.ts'
import { startTestServer } from '../start-server.ts'
import { mergelog } from './command-line.ts'

const NASTY = 'Title \u001b]0;owned\u0007 \u202e\nsecond line'

t.test('the history of an issue, beside a running server', async (t) => {
  const server = await startTestServer(t)
  const alice = await server.as('alice')
  const bob = await server.as('bob')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  await alice.repos.issueCreateIssue('alice', 'app', { title: NASTY, body: 'x'.repeat(3000) })
  await bob.repos.issueCreateComment('alice', 'app', 1, { body: 'Hello' })
  await alice.repos.issueEditIssue('alice', 'app', 1, { state: 'closed' })
  const environment = { DATA_DIR: server.dataDir }

  const human = await mergelog(['history', 'alice/app#1'], environment)
  t.match(human, { code: 0, stderr: '' })
  const lines = human.stdout.trimEnd().split('\n')
  t.match(lines, [
    /^0 \S+Z alice IssueOpened {3}\{.*…$/,
    /^1 \S+Z bob {3}CommentAdded {2}\{/,
    /^2 \S+Z alice StatusChanged \{/,
  ])
  t.ok(lines.every((line) => line.length <= 120))
  t.notMatch(human.stdout.replaceAll('\n', ''), /\p{Cc}|\p{Bidi_Control}/u, 'no control characters')
  const coloured = await mergelog(['history', 'alice/app#1'], { ...environment, FORCE_COLOR: '1' })
  t.match(coloured.stdout, '\u001b[36m')

  const json = await mergelog(['history', 'Alice/APP#1', '--json'], environment)
  const answer = await server.fetch('alice', '/api/v1/repos/alice/app/issues/1/history')
  const events = json.stdout.trimEnd().split('\n')
  t.same(
    events.map((line) => JSON.parse(line)),
    JSON.parse(await answer.text()),
    'the same events as from the server',
  )
  const filter = ['--actor', 'Bob', '--type', 'CommentAdded,IssueOpened']
  const byBob = await mergelog(['history', 'alice/app#1', ...filter], environment)
  t.match(byBob.stdout, /^1 \S+ bob CommentAdded [^\n]*\n$/)
  const missing = {
    'alice/app#2': 'there is no issue or pull request "alice/app#2"',
    'alice/other#1': 'there is no repository "alice/other"',
    'nobody/app#1': 'there is no user or organization "nobody"',
  }
  for (const [name, line] of Object.entries(missing)) {
    const end = await mergelog(['history', name], environment)
    t.same(end, { code: 1, stdout: '', stderr: `mergelog: ${line}\n` })
  }

  const { stdout } = await promisify(execFile)(
    'bash',
    [
      '-c',
      `set -o pipefail; ${[process.execPath, program('src/cli/mergelog')].join(' ')} history alice/app#1 --json | true`,
    ],
    { env: { ...process.env, ...environment } },
  )
  t.equal(stdout, '', 'a closed pipe is not a failure')
})
