import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import {
  type RecordedEvent,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../../src/events/store/event-store.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { BackupProblem } from '../../../src/maintenance/backup/manifest.ts'
import { importLog } from '../../../src/maintenance/transfer/log-import.ts'
import { batchesOf, LARGEST_APPEND, type SizedEvent } from '../../../src/maintenance/transfer/runs.ts'
import { asInterrupted } from '../../../src/maintenance/transfer/target.ts'
import { aContext } from '../../stores.ts'

const metadata = { ...aContext(), schema: 1 }

function event(position: number, stream: string, revision: number): RecordedEvent {
  return { position, stream, revision, id: `${stream}@${revision}`, type: 'Happened', data: {}, metadata }
}

/** Events of streams in their order, at positions with gaps. */
function eventsOf(...streams: string[]): RecordedEvent[] {
  const revisions = new Map<string, number>()
  return streams.map((stream, i) => {
    const revision = (revisions.get(stream) ?? -1) + 1
    revisions.set(stream, revision)
    return event((i + 1) * 10, stream, revision)
  })
}

async function* sized(events: readonly RecordedEvent[], size: number): AsyncGenerator<SizedEvent> {
  for (const event of events) yield { event, size }
}

async function runsOf(events: readonly RecordedEvent[], size = 100, ends: number[] = []) {
  const runs: [stream: string, expected: number | string, events: number][] = []
  for await (const batch of batchesOf(sized(events, size), new Set(ends))) {
    for (const run of batch) runs.push([run.stream, run.expected, run.events.length])
  }
  return runs
}

t.test('consecutive events of one stream are one append', async (t) => {
  t.same(await runsOf(eventsOf('a', 'a', 'b', 'a', 'b', 'b')), [
    ['a', 'no-stream', 2],
    ['b', 'no-stream', 1],
    ['a', 1, 1],
    ['b', 0, 2],
  ])
  t.same(await runsOf(eventsOf('a', 'a', 'a'), 100, [20]), [
    ['a', 'no-stream', 2],
    ['a', 1, 1],
  ])
})

t.test('no append comes near the limit of EventStoreDB', async (t) => {
  const many = eventsOf(...Array.from({ length: 40 }, () => 'a'))
  for (const [, , events] of await runsOf(many, 100_000)) t.ok(events * 100_000 < LARGEST_APPEND)
})

async function aTarget(t: Test, events: readonly RecordedEvent[]) {
  const dir = t.testdir()
  const path = join(dir, 'log.ndjson')
  await writeFile(path, events.map((event) => `${JSON.stringify(event)}\n`).join(''))
  const log = openSqliteEventStore(join(dir, 'events.db'), { linked: false })
  t.teardown(() => log.close())
  const options = { path, total: events.length, log, retried: true, onEvents: () => {} }
  const stored = async () => {
    const ids: string[] = []
    for await (const { id } of log.readAll()) ids.push(id)
    return ids
  }
  return { ...options, stored }
}

t.test('an interrupted import continues after the existing events', async (t) => {
  const events = eventsOf('a', 'b', 'a', 'b', 'c')
  const { stored, ...target } = await aTarget(t, events)
  for (const { stream, revision, id, type, data } of events.slice(0, 3)) {
    await target.log.append(
      stream,
      [{ id, type, data, metadata }],
      revision === 0 ? 'no-stream' : revision - 1,
    )
  }
  const processes = [
    { process: 'pull_heads', position: 20 },
    { process: 'head_branches', position: 45 },
    { process: 'scheduled_merges', position: 5 },
  ] as const
  const places = await importLog({ ...target, continues: true, processes })
  t.same(
    await stored(),
    events.map(({ id }) => id),
  )
  t.same(places, [
    { process: 'pull_heads', position: 2 },
    { process: 'head_branches', position: 4 },
    { process: 'scheduled_merges', position: 0 },
  ])
})

t.test('a log with other events is not continued', async (t) => {
  const { stored, ...target } = await aTarget(t, eventsOf('a', 'b'))
  await target.log.append('other', [{ id: 'x', type: 'Happened', data: {}, metadata }], 'no-stream')
  const importing = importLog({ ...target, continues: true, processes: [] })
  await t.rejects(importing, { name: 'BackupProblem', message: /events that are not in this export/ })
  t.same(await stored(), ['x'])
})

t.test('an existing stream does not shift revisions', async (t) => {
  const { stored: _, ...target } = await aTarget(t, eventsOf('a'))
  // Like EventStoreDB for a deleted stream.
  const log = { ...target.log, append: async () => ({ revision: 7, position: 8 }) }
  const importing = importLog({ ...target, log, continues: false, processes: [] })
  await t.rejects(importing, { message: /the log once had a stream a, and continues its revisions/ })
})

t.test('an event missing from the export is named', async (t) => {
  const { stored: _, ...target } = await aTarget(t, [event(1, 'a', 0), event(3, 'a', 2)])
  const importing = importLog({ ...target, continues: false, processes: [] })
  await t.rejects(importing, { name: 'BackupProblem', message: /lacks an event of a before revision 2/ })
})

t.test('of appends that fail together, the first error is reported: it caused the others', async (t) => {
  const { stored: _, ...target } = await aTarget(t, eventsOf('a', 'b', 'a'))
  let appends = 0
  const append = async (stream: string) => {
    appends += 1
    if (appends > 1) throw new WrongExpectedRevision(stream, 0, -1)
    await new Promise(setImmediate)
    throw new StoreUnavailable('database or disk is full')
  }
  const log = { ...target.log, append }
  const importing = importLog({ ...target, log, retried: false, continues: false, processes: [] })
  await t.rejects(importing, { name: 'StoreUnavailable', message: 'database or disk is full' })
  t.equal(appends, 3, 'nothing is tried again')
})

t.test('many appends are pending at once, and an outage meanwhile changes nothing', async (t) => {
  const events = eventsOf(...Array.from({ length: 90 }, (_, n) => `stream-${n % 7}`))
  const { stored, ...target } = await aTarget(t, events)
  let running = 0
  let most = 0
  let appends = 0
  const append: typeof target.log.append = async (...given) => {
    running += 1
    appends += 1
    most = Math.max(most, running)
    try {
      // A failing server has accepted the appends before that moment, and none after it.
      if (appends > 40 && appends <= 90) throw new StoreUnavailable('the connection is cut')
      return await target.log.append(...given)
    } finally {
      running -= 1
    }
  }
  const log = { ...target.log, append }
  await importLog({ ...target, log, continues: false, processes: [] })
  t.same(
    await stored(),
    events.map(({ id }) => id),
  )
  t.equal(most, 90)
})

t.test('a line that is not an event is named', async (t) => {
  const { stored, ...target } = await aTarget(t, eventsOf('a', 'b'))
  await writeFile(target.path, '{"position": 1}\n')
  const importing = importLog({ ...target, continues: false, processes: [] })
  await t.rejects(importing, { name: 'BackupProblem', message: /log\.ndjson, line 1: .*stream/ })
  t.same(await stored(), [])
})

t.test(
  'an import whose store has failed ends with one sentence for the reason, and one for the remedy',
  (t) => {
    const gone = asInterrupted(new StoreUnavailable('EventStoreDB does not answer: a:2113: start it'))
    t.ok(gone instanceof BackupProblem)
    const sentences =
      'the import was interrupted: EventStoreDB does not answer: a:2113: start it. Then run the same import again: it continues'
    t.match(gone, { message: sentences })
    const bug = new Error('a bug')
    t.equal(asInterrupted(bug), bug)
    t.end()
  },
)
