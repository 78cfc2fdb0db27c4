/** The server does no further work for a disconnected client. */
import { join } from 'node:path'
import { Writable } from 'node:stream'
import t, { type Test } from 'tap'
import { createLongReads } from '../../src/projections/store/sqlite/long-reads.ts'
import { ABORT_CHECK, openSqliteReader, type SqliteReader } from '../../src/storage/sqlite/reader.ts'
import { basic } from '../server-template.ts'
import { startTestServer, type TestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { rawClient, requestText } from './raw-client.ts'

/** A SELECT that never ends. */
const ENDLESS = `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE ${ABORT_CHECK})
  SELECT count(*) FROM numbers`

const LIST = '/api/v1/repos/alice/app/issues'
const WARNING = 40

/** Collects the lines of a log. */
function linesOf() {
  const lines: { level: number; msg: string; status?: number; aborted?: boolean }[] = []
  const log = new Writable({
    write(line, _encoding, done) {
      lines.push(JSON.parse(`${line}`))
      done()
    },
  })
  return { lines, log }
}

/** Makes lists of issues hang. Returns the numbers of started and ended searches. */
function endlessLists(t: Test, { services, dataDir }: TestServer) {
  const counts = { begun: 0, ended: 0 }
  const open = (file: string): SqliteReader => {
    const reader = openSqliteReader(file)
    return {
      ...reader,
      async value(sql, values, signal) {
        counts.begun += 1
        try {
          return await reader.value(sql, values, signal)
        } finally {
          counts.ended += 1
        }
      },
    }
  }
  const reads = createLongReads(join(dataDir, 'views.db'), { deadlineMs: 600_000, open })
  const { page } = services.readStore
  services.readStore.page = async (collection, ...asked) => {
    if (collection.name === 'issues') await reads.read(ENDLESS, [])
    return page(collection, ...asked)
  }
  t.teardown(async () => {
    services.readStore.page = page
    await reads.close()
  })
  return counts
}

t.test('the search for a list ends when its last client disconnects', async (t) => {
  const { lines, log } = linesOf()
  const server = await startTestServer(t, { LOG_LEVEL: 'info' }, log)
  const alice = await server.as('alice')
  await alice.user.createCurrentUserRepo({ name: 'app' })
  const counts = endlessLists(t, server)
  const ask = (headers: Record<string, string>) => rawClient(t, server.url, requestText('GET', LIST, headers))
  const signedIn = { Authorization: basic('alice') }

  const clients = [signedIn, signedIn, {}].map(ask)
  await until('the lists are looked for', () => counts.begun === 2)
  for (const { socket } of clients) socket.destroy()
  await until('that has ended', () => counts.ended === 2)
  await until('the requests are in the log', () => lines.filter(({ aborted }) => aborted).length === 3)

  const again = ask(signedIn)
  await until('a list is looked for again', () => counts.begun === 3)
  again.socket.destroy()
  await until('that has ended', () => counts.ended === 3)
  t.equal((await server.fetch('bob', '/api/v1/repos/alice/app')).status, 200)
  await until('the request is in the log', () => lines.filter(({ aborted }) => aborted).length === 4)
  t.equal(counts.begun, 3, 'who waited for its turn has left the line')
  t.strictSame(
    lines.filter(({ level, status }) => level >= WARNING || (status ?? 0) >= 500),
    [],
    'it is nothing to worry about',
  )
})
