import t from 'tap'
import { append } from '../../src/commands/execute.ts'
import type { DomainEvent } from '../../src/events/domain-events.ts'
import type { EventStore } from '../../src/events/event-store.ts'
import type { Fold } from '../../src/projections/read-model.ts'
import { createMilestones, MILESTONE } from '../../src/replay/milestones.ts'
import { replayStream } from '../../src/replay/replay-stream.ts'
import { aContext, openStores } from '../stores.ts'

const taken: DomainEvent = { type: 'NumberTaken', data: { sequence: 'a' } }
const tally: Fold<{ count: number }> = {
  collection: { name: 'tallies', indexes: [], arrays: [] },
  version: 1,
  touches: () => ['a'],
  evolve: (document) => ({ count: (document?.count ?? 0) + 1 }),
}

t.test(
  'a replay goes on from the last milestone before it, and gives the same as one from the start',
  async (t) => {
    const { events } = openStores(t)
    await append(events, aContext(), 'numbers-a', 'take', Array(3 * MILESTONE).fill(taken), 'any')
    const reads: number[] = []
    const watched: EventStore = {
      ...events,
      readStream(stream, options) {
        reads.push(options?.from ?? 0)
        return events.readStream(stream, options)
      },
    }
    const milestones = createMilestones<{ count: number }>()
    const at = (revision: number) =>
      replayStream(
        watched,
        'numbers-a',
        tally,
        'a',
        { revision },
        milestones.before(watched, 'numbers-a', revision),
        (passed) => milestones.keep(watched, 'numbers-a', passed),
      )
    const revisions = [2 * MILESTONE + 7, MILESTONE - 2, MILESTONE - 1, MILESTONE, 3 * MILESTONE - 1, 0]
    for (const revision of revisions) {
      const { document, last } = await at(revision)
      t.same([document, last?.revision], [{ count: revision + 1 }, revision])
    }
    t.same(reads, [0, 0, MILESTONE, MILESTONE, 2 * MILESTONE, 0])
    t.equal(milestones.before(events, 'numbers-a', MILESTONE), undefined, 'another store has others')
  },
)
