import t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import type { RecordedEvent } from '../../../src/events/store/event-store.ts'
import { createRecentBatches } from '../../../src/projections/generations/recent-batches.ts'
import { type Fold, readModel } from '../../../src/projections/projector/read-model.ts'

const fold: Fold<{ id: string }> = {
  collection: { name: 'keys', indexes: [], arrays: [] },
  version: 1,
  handles: ({ type }) => type === 'NumberTaken',
  touches: (event) => (event.type === 'NumberTaken' ? [event.data.sequence.slice(0, 1)] : []),
  evolve: (_, __, id) => ({ id }),
}

const metadata = {
  actor: null,
  at: '2026-01-01T00:00:00.000Z',
  correlationId: 'c',
  causationId: 'c',
  schema: 1,
}
const eventAt = (position: number, sequence: string): RecordedEvent => ({
  position,
  stream: 'numbers-1',
  revision: position,
  id: `${position}`,
  type: 'NumberTaken',
  data: { sequence },
  metadata,
})

t.test(
  'recent batches are bounded by their size: after an eviction, every document counts as changed',
  async (t) => {
    const model = readModel(fold)
    const recent = createRecentBatches()
    const add = (position: number, sequence: string) => {
      const events = [decode(eventAt(position, sequence))]
      recent.add({ events, types: new Set(['NumberTaken']), unreadable: [] }, position)
    }
    for (let position = 1; position <= 64; position++) add(position, 'a'.repeat(1024 * 1024))
    t.equal(recent.touched(model, 1, 64), undefined)
    t.match(recent.touched(model, 60, 64), [{ id: 'a' }, { id: 'a' }, { id: 'a' }, { id: 'a' }])
  },
)
