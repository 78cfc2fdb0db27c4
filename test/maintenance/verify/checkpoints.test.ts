import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { type Checkpoint, checkpointText } from '../../../src/domain/transparency/checkpoint.ts'
import { growingTree } from '../../../src/domain/transparency/merkle-tree.ts'
import { signNote } from '../../../src/domain/transparency/signed-note.ts'
import { leafOf } from '../../../src/events/store/chain.ts'
import type { EventStore, NewEvent, RecordedEvent } from '../../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../../src/events/store/eventstoredb/eventstoredb.ts'
import { openSqliteEventStore } from '../../../src/events/store/sqlite/sqlite.ts'
import { LOG_CHECKPOINTS_STREAM } from '../../../src/events/streams.ts'
import type { CheckpointOptions } from '../../../src/maintenance/verify/checkpoints.ts'
import type { VerifyReport } from '../../../src/maintenance/verify/report.ts'
import { verifyServer } from '../../../src/maintenance/verify/verify.ts'
import { startEventStoreDouble } from '../../doubles/eventstore.ts'
import { eventStoreWithLongTimeouts } from '../../doubles/long-timeouts.ts'
import { newLogSigner, ORIGIN } from '../../log-signer.ts'
import { aDirectory, eventsIn } from './setup.ts'

type Written = NewEvent & { stream: string }

/** The checkpoint of a log that ends with these events. */
function checkpointOf(events: readonly RecordedEvent[]): Checkpoint {
  const tree = growingTree()
  for (const event of events) tree.add(leafOf(event))
  return { origin: ORIGIN, size: events.length, root: tree.root() }
}

/** Writes events with new hashes, as somebody does who may write to the store and knows the program. */
async function write(log: EventStore, events: readonly Written[]): Promise<void> {
  const makers = events.map(({ stream, ...event }) => () => ({
    stream,
    events: [event],
    expected: 'any' as const,
  }))
  if (log.appendTogether !== undefined) await log.appendTogether(makers)
  else for (const { stream, ...event } of events) await log.append(stream, [event], 'any')
}

async function verifiedLog(
  t: Test,
  events: readonly Written[],
  checkpoints: CheckpointOptions,
): Promise<VerifyReport> {
  const dir = t.testdir({})
  const log = openSqliteEventStore(join(dir, `${randomUUID()}.db`))
  try {
    await write(log, events)
    return await verifyServer({ events: log, models: [], scratchDir: dir, checkpoints })
  } finally {
    await log.close()
  }
}

const numberTaken = (sequence: string): Written => ({
  stream: `ids-${sequence}`,
  id: randomUUID(),
  type: 'NumberTaken',
  data: { sequence },
  metadata: { actor: null, at: '2026-11-27T00:00:00.000Z', correlationId: 'a', causationId: 'a', schema: 1 },
})

const signed = (size: number, root: string, note: string): Written => ({
  ...numberTaken('label'),
  stream: LOG_CHECKPOINTS_STREAM,
  type: 'LogCheckpointSigned',
  data: { size, root, note },
})

t.test('verify --since: a log that only grew is sound', async (t) => {
  const events = await eventsIn(await aDirectory(t))
  const since = checkpointOf(events)
  t.match(await verifiedLog(t, events, { since }), { sound: true, log: { checkpoints: 1 } })
  const grown = [...events, numberTaken('label'), numberTaken('milestone')]
  t.match(await verifiedLog(t, grown, { since }), { sound: true, log: { checkpoints: 1 } })
  for (const size of [0, 1, events.length - 1]) {
    const earlier = checkpointOf(events.slice(0, size))
    t.match(await verifiedLog(t, grown, { since: earlier }), { sound: true, log: { checkpoints: 1 } })
  }
})

t.test(
  'verify --since: a changed, removed, inserted or moved event is found although all hashes were recomputed',
  async (t) => {
    const events = await eventsIn(await aDirectory(t))
    const since = checkpointOf(events)
    const middle = Math.floor(events.length / 2)
    const event = events[middle]
    if (event === undefined) throw new Error('the log is too short')
    const other = events.slice(middle + 1).find(({ stream }) => stream !== event.stream)
    if (other === undefined) throw new Error('the log has one stream')
    const at = events.indexOf(other)
    const written: readonly Written[] = events
    const rewritten: Record<string, readonly Written[]> = {
      'changed data': written.with(middle, { ...event, data: { ...event.data, more: true } }),
      'a changed time': events.with(middle, {
        ...event,
        metadata: { ...event.metadata, at: '2001-01-01T00:00:00.000Z' },
      }),
      'an inserted event': written.toSpliced(middle, 0, numberTaken('webhook')),
      'an inserted event at the start': [numberTaken('webhook'), ...events],
      'a removed event': [...events.toSpliced(events.length - 2, 1), numberTaken('webhook')],
      'exchanged events of two streams': events.with(middle, other).with(at, event),
    }
    for (const [name, log] of Object.entries(rewritten)) {
      const report = await verifiedLog(t, log, { since })
      t.equal(report.log.difference, undefined, `${name}: the hash chains are sound`)
      t.match(
        report,
        {
          sound: false,
          log: {
            checkpoints: 0,
            rewritten: `its first ${events.length} events are not those of the checkpoint of ${ORIGIN}: an event was changed, removed or inserted`,
          },
        },
        name,
      )
    }
  },
)

t.test('verify --since: removed last events are found', async (t) => {
  const events = await eventsIn(await aDirectory(t))
  const since = checkpointOf(events)
  for (const removed of [1, 5, events.length]) {
    const report = await verifiedLog(t, events.slice(0, events.length - removed), { since })
    const left = events.length - removed
    t.match(report, {
      sound: false,
      log: {
        rewritten: `it has ${left} events, but the checkpoint of ${ORIGIN} has ${events.length}: events were removed`,
      },
    })
  }
})

t.test('verify compares the log with the checkpoints in it, and their signatures with the key', async (t) => {
  const { key, signer } = await newLogSigner(t.testdir({}))
  const events = await eventsIn(await aDirectory(t))
  const size = events.length - 2
  const checkpoint = checkpointOf(events.slice(0, size))
  const root = Buffer.from(checkpoint.root).toString('base64')
  const note = signNote(checkpointText(checkpoint), ORIGIN, signer.privateKey)
  const log = [...events, signed(size, root, note), numberTaken('label')]
  t.match(await verifiedLog(t, log, { key }), { sound: true, log: { checkpoints: 1 } })
  t.match(await verifiedLog(t, log, { key, since: checkpoint }), { sound: true, log: { checkpoints: 2 } })

  const rewritten = [numberTaken('webhook'), ...log]
  t.match(await verifiedLog(t, rewritten, {}), {
    sound: false,
    log: {
      rewritten: new RegExp(`^its first ${size} events are not those of its checkpoint 0 of 2026-11-27T`),
    },
  })

  // As after a deletion of whole streams: the hash chains of the others are sound.
  const { stream } = events[size - 1] ?? numberTaken('label')
  const removed = [...events.filter((event) => event.stream !== stream), signed(size, root, note)]
  t.ok(removed.length < size, 'so that the root is never compared')
  t.match(await verifiedLog(t, removed, {}), {
    sound: false,
    log: { rewritten: / but its checkpoint 0 of \S+ has \d+: events were removed$/ },
  })

  const other = await newLogSigner(t.testdir({}))
  const foreign = signNote(checkpointText(checkpoint), ORIGIN, other.signer.privateKey)
  t.match(
    await verifiedLog(t, [...events, signed(size, root, foreign)], { key }),
    { sound: true },
    'a checkpoint of an earlier key',
  )
  const forged = note.replace(/(?<=— \S+ .{20})./, (letter) => (letter === 'A' ? 'B' : 'A'))
  t.match(await verifiedLog(t, [...events, signed(size, root, forged)], { key }), {
    log: {
      rewritten: /^the note of its checkpoint 0 of \S+ is not genuine: the signature of \S+ does not match/,
    },
  })
  for (const [size_, root_, note_] of [
    [size - 1, root, note],
    [size, Buffer.alloc(32).toString('base64'), note],
    [size, root, 'no note'],
  ] as const) {
    t.match(await verifiedLog(t, [...events, signed(size_, root_, note_)], {}), {
      sound: false,
      log: { rewritten: /^the note of its checkpoint 0 of \S+ says something else than its event$/ },
    })
  }
})

t.test('a checkpoint holds for the same log in EventStoreDB, where positions have gaps', async (t) => {
  const dir = await aDirectory(t)
  const events = await eventsIn(dir)
  const since = checkpointOf(events)
  const double = await startEventStoreDouble({ port: 0, file: join(dir.dir, 'eventstore.db') })
  t.teardown(() => double.close())
  const log = openEventStoreDb(eventStoreWithLongTimeouts(double))
  t.teardown(() => log.close())
  await write(log, events)
  const verify = () => verifyServer({ events: log, models: [], scratchDir: dir.dir, checkpoints: { since } })
  t.match(await verify(), { sound: true, log: { checkpoints: 1 } })
  await write(log, [numberTaken('label')])
  t.match(await verify(), { sound: true, log: { checkpoints: 1 } })
})
