import { join } from 'node:path'
import { Writable } from 'node:stream'
import t from 'tap'
import type { RecordedEvent } from '../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../src/events/store/sqlite/sqlite.ts'
import { mergelog } from './cli/command-line.ts'
import { startTestServer } from './start-server.ts'
import { aContext, appendMany } from './stores.ts'

async function eventsOf(dataDir: string): Promise<RecordedEvent[]> {
  const log = openSqliteEventStore(join(dataDir, 'events.db'))
  const all = await Array.fromAsync(log.readAll())
  await log.close()
  return all
}

t.test(
  "NODE_NAME is in each log line and in events' metadata; events of a command without a name lack it, and the log is sound",
  async (t) => {
    const DATA_DIR = t.testdir()
    const nameless = openSqliteEventStore(join(DATA_DIR, 'events.db'))
    const taken = { type: 'NumberTaken', data: { sequence: 'ids-account' } } as const
    await appendMany(nameless, 'ids-account', [taken, taken], aContext())
    await nameless.close()

    const lines: string[] = []
    const log = new Writable({
      write(chunk, _, done) {
        lines.push(...String(chunk).trim().split('\n'))
        done()
      },
    })
    const server = await startTestServer(t, { DATA_DIR, NODE_NAME: 'node-1', LOG_LEVEL: 'debug' }, log)
    const admin = await server.as('admin')
    await admin.user.createCurrentUserRepo({ name: 'app' })
    await admin.repos.issueCreateIssue('admin', 'app', { title: 'T' })
    const history = await server.fetch('admin', '/api/v1/repos/admin/app/issues/1/history')
    t.notMatch(await history.text(), 'node-1', 'readers of a repository learn no names of machines')
    await server.stop()

    t.ok(lines.length > 3)
    for (const line of lines) t.match(JSON.parse(line), { node: 'node-1' }, line.slice(0, 200))
    const events = await eventsOf(DATA_DIR)
    const [first, second, ...later] = events.filter(({ stream }) => stream === 'ids-account')
    for (const event of [first, second]) t.notOk(event !== undefined && 'node' in event.metadata)
    t.ok(later.length > 0, 'the stream goes on')
    for (const event of events.slice(2)) t.equal(event.metadata.node, 'node-1', event.type)

    // A node of another name takes over, and a command also appends.
    await mergelog(['set-password', 'admin'], { DATA_DIR, NODE_NAME: 'the-operator' })
    t.match((await eventsOf(DATA_DIR)).at(-1), {
      type: 'PasswordChanged',
      metadata: { node: 'the-operator' },
    })
    const { stdout } = await mergelog(['verify'], { DATA_DIR })
    t.match(stdout, /^sound /)
  },
)
