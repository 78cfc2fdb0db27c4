import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { READ_MODELS } from '../../src/projections/views/views.ts'
import { openSqlite } from '../../src/storage/sqlite/sqlite.ts'
import { startTestServer } from '../start-server.ts'
import { mergelog } from './command-line.ts'

t.test('mergelog verify: sound beside a running server; names a wrong document', async (t) => {
  const server = await startTestServer(t)
  const environment = { DATA_DIR: server.dataDir }
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  await alice.repos.issueCreateIssue('alice', 'app', { title: 'Here' })
  const human = await mergelog(['verify'], environment)
  t.match(human, {
    code: 0,
    stderr: '',
    stdout: /^sound {2}\d+ events in \d+ streams\n {7}\d+ documents of \d+ read models\n$/,
  })
  const json = await mergelog(['verify', '--json'], environment)
  t.equal(json.code, 0)
  t.match(JSON.parse(json.stdout), { sound: true })

  const issues = READ_MODELS.find(({ name }) => name === 'issues')
  if (issues === undefined) throw new Error('no model of issues')
  const { readStore } = server.services
  const [issue] = await readStore.range(issues.collection, { limit: 1 })
  if (issue === undefined) throw new Error('no issue')
  const body = { ...issue.body, title: 'Elsewhere' }
  await readStore.apply([{ op: 'put', collection: issues.collection, ...issue, body }], new Map())
  const spoilt = await mergelog(['verify'], environment)
  t.match(spoilt, {
    code: 1,
    stdout: '',
    stderr: `mergelog: the log is sound, but document ${issue.id} of read model issues is wrong: title is "Elsewhere", not "Here". "mergelog rebuild --model issues" repairs it\n`,
  })
})

t.test('mergelog verify finds one changed byte in the log, and a start that reads it fails', async (t) => {
  const DATA_DIR = t.testdir()
  await t.test('a server runs and stops', async (t) => {
    const server = await startTestServer(t, { DATA_DIR })
    const alice = await server.as('alice')
    await alice.user.createCurrentUserRepo({ name: 'app' })
    await alice.repos.issueCreateIssue('alice', 'app', {
      title: 'Genuine',
      due_date: '2031-05-06T12:00:00Z',
    })
  })
  const file = join(DATA_DIR, 'events.db')
  const log = openSqlite(file, 'FULL')
  log.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  log.close()
  const bytes = await readFile(file)
  // The title is sealed.
  const at = bytes.indexOf('2031-05-06')
  t.ok(at > 0, 'the file contains the deadline')

  bytes.write('3', at)
  await writeFile(file, bytes)
  const changed = await mergelog(['verify'], { DATA_DIR })
  t.equal(changed.code, 1)
  t.match(
    changed.stderr,
    /^mergelog: the log is not sound at position \d+, issue-1\.1@0: .*sound up to position \d+/,
  )

  bytes[at] = 0xf5
  await writeFile(file, bytes)
  const noText = await mergelog(['verify'], { DATA_DIR })
  t.match(noText, { code: 1, stderr: /issue-1\.1@0: .* is broken: .*not UTF-8.*sound up to position \d+/ })

  bytes.write('\u0001', at)
  await writeFile(file, bytes)
  const broken = await mergelog(['verify'], { DATA_DIR })
  t.equal(broken.code, 1)
  t.match(broken.stderr, /events\.db is broken.*sound up to position \d+/)
  bytes[at] = 0xf5
  await writeFile(file, bytes)
  await t.rejects(startTestServer(t, { DATA_DIR }), {
    name: 'BrokenEvent',
    message: /events\.db is broken: .*position \d+/,
  })
})

t.test('mergelog verify reports a log that cannot be opened, and creates no files', async (t) => {
  const DATA_DIR = t.testdir({ 'events.db': 'Dear diary, '.repeat(1000), 'secrets.db': 'broken' })
  for (const contents of ['Dear diary, '.repeat(1000), '']) {
    await writeFile(join(DATA_DIR, 'events.db'), contents)
    const { code, stdout } = await mergelog(['verify', '--json'], { DATA_DIR })
    t.equal(code, 1)
    t.match(JSON.parse(stdout), {
      sound: false,
      log: { soundUpTo: 0, events: 0, difference: { problem: /events\.db is broken/ } },
    })
    t.equal(await readFile(join(DATA_DIR, 'events.db'), 'utf8'), contents)
  }
  t.strictSame(await readdir(DATA_DIR), ['events.db', 'secrets.db'])
})
