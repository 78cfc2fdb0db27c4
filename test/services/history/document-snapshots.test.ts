import t from 'tap'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import type { EventStore } from '../../../src/events/store/event-store.ts'
import type { Fold } from '../../../src/projections/projector/read-model.ts'
import { replayStream } from '../../../src/queries/history/replay/replay-stream.ts'
import {
  createDocumentSnapshots,
  SNAPSHOT_INTERVAL,
} from '../../../src/services/history/document-snapshots.ts'
import { appendMany, openStores, readerOf } from '../../stores.ts'

const taken: DomainEvent = { type: 'NumberTaken', data: { sequence: 'a' } }
const tally: Fold<{ count: number }> = {
  collection: { name: 'tallies', indexes: [], arrays: [] },
  version: 1,
  handles: () => true,
  touches: () => ['a'],
  evolve: (document) => ({ count: (document?.count ?? 0) + 1 }),
}

t.test(
  'a replay continues from the latest snapshot, and gives the same result as one from the start',
  async (t) => {
    const { events } = openStores(t)
    await appendMany(events, 'numbers-a', Array(3 * SNAPSHOT_INTERVAL).fill(taken))
    const reads: number[] = []
    const watched: EventStore = {
      ...events,
      readStream(stream, options) {
        reads.push(options?.from ?? 0)
        return events.readStream(stream, options)
      },
    }
    const snapshots = createDocumentSnapshots<{ count: number }>(events)
    const at = (revision: number) =>
      replayStream(
        readerOf(watched),
        'numbers-a',
        tally,
        'a',
        { revision },
        snapshots.before('numbers-a', revision),
        (passed) => snapshots.keep('numbers-a', passed),
      )
    const revisions = [
      2 * SNAPSHOT_INTERVAL + 7,
      SNAPSHOT_INTERVAL - 2,
      SNAPSHOT_INTERVAL - 1,
      SNAPSHOT_INTERVAL,
      3 * SNAPSHOT_INTERVAL - 1,
      0,
    ]
    const starts: typeof reads = []
    for (const revision of revisions) {
      const { document, last } = await at(revision)
      starts.push(...reads.splice(0).slice(0, 1))
      t.same([document, last?.revision], [{ count: revision + 1 }, revision])
    }
    // At a snapshot no event is read.
    t.same(starts, [0, 0, SNAPSHOT_INTERVAL, 2 * SNAPSHOT_INTERVAL, 0])
  },
)

t.test('for a revision far after the end, the latest snapshot is found immediately', async (t) => {
  const { events } = openStores(t)
  await appendMany(events, 'numbers-a', Array(2 * SNAPSHOT_INTERVAL + 1).fill(taken))
  const snapshots = createDocumentSnapshots<{ count: number }>(events)
  const far = Number.MAX_SAFE_INTEGER - 1
  t.equal(snapshots.before('numbers-a', far), undefined)
  const replay = (revision: number) =>
    replayStream(
      readerOf(events),
      'numbers-a',
      tally,
      'a',
      { revision },
      snapshots.before('numbers-a', revision),
      (passed) => snapshots.keep('numbers-a', passed),
    )
  await replay(2 * SNAPSHOT_INTERVAL)
  t.match(snapshots.before('numbers-a', far), { last: { revision: 2 * SNAPSHOT_INTERVAL - 1 } })
  t.equal(snapshots.before('numbers-b', far), undefined, 'another stream has its own snapshots')
  t.match(await replay(far), {
    document: { count: 2 * SNAPSHOT_INTERVAL + 1 },
    last: { revision: 2 * SNAPSHOT_INTERVAL },
  })
})

t.test('snapshots stay within the size limit; an evicted one is created again', async (t) => {
  const { events } = openStores(t)
  const wide: Fold<{ text: string; count: number }> = {
    ...tally,
    collection: { name: 'wide', indexes: [], arrays: [] },
    evolve: (document) => ({ text: 'x'.repeat(10_000), count: (document?.count ?? 0) + 1 }),
  }
  await appendMany(events, 'numbers-a', Array(3 * SNAPSHOT_INTERVAL).fill(taken))
  const revision = 3 * SNAPSHOT_INTERVAL - 1
  for (const [room, kept] of [
    [100_000, [1, 2, 3]],
    [50_000, [2, 3]],
    [10_000, []],
  ] as const) {
    const snapshots = createDocumentSnapshots<{ text: string; count: number }>(events, room)
    const start = (revision: number) => snapshots.before('numbers-a', revision)
    await replayStream(readerOf(events), 'numbers-a', wide, 'a', { revision }, undefined, (passed) =>
      snapshots.keep('numbers-a', passed),
    )
    const starts = [1, 2, 3].map((n) => start(n * SNAPSHOT_INTERVAL - 1)?.last?.revision)
    const remembered = new Set(starts.filter((start) => start !== undefined))
    t.strictSame(
      [...remembered],
      kept.map((n) => n * SNAPSHOT_INTERVAL - 1),
    )
    const again = await replayStream(readerOf(events), 'numbers-a', wide, 'a', { revision }, start(revision))
    t.match(again, { document: { count: revision + 1 }, last: { revision } })
  }
})
