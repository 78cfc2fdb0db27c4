import t from 'tap'
import { type Decider, deciderOf } from '../../src/commands/execution/decider.ts'
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import { type EventOf, type Handlers, handle, handledBy } from '../../src/events/handlers.ts'
import { type Fold, foldOf } from '../../src/projections/projector/read-model.ts'

type Token = 'TokenCreated' | 'TokenDeleted'

const user = { id: 1, login: 'alice' }
const added: EventOf<'TokenCreated'> = {
  type: 'TokenCreated',
  data: { user, tokenId: 4, name: 'ci', lastEight: '12345678', scopes: [] },
}
const deleted: EventOf<'TokenDeleted'> = { type: 'TokenDeleted', data: { user, tokenId: 4, name: 'ci' } }

const names: Handlers<Token, readonly string[]> = {
  TokenCreated: (before, { data }) => [...before, data.name],
  TokenDeleted: (before, { data }) => before.filter((name) => name !== data.name),
}

t.test('an event goes to the handler of its type; events without a handler are not handled', async (t) => {
  t.same(handle(names, ['a'], added), ['a', 'ci'])
  t.same(handle(names, ['a', 'ci'], deleted), ['a'])
  const isOne = handledBy(names)
  t.ok(isOne(added))
  // Properties of every object are not handlers.
  for (const type of ['UserCreated', 'constructor', 'toString', '__proto__', ''])
    t.notOk(isOne({ type }), type)
})

t.test('a decider changes an existing state, and ignores events of other aggregates', async (t) => {
  type State = { name: string } | { none: true }
  const decider: Decider<State, EventOf<Token>> = deciderOf({
    initialState: { none: true },
    exists: (state: State) => 'name' in state,
    becomes: { TokenDeleted: () => ({ none: true }) },
    changes: { TokenCreated: (_, { data }) => ({ name: data.name }) },
  })
  t.same(decider.evolve(decider.initialState, added), { none: true })
  t.same(decider.evolve({ name: 'x' }, added), { name: 'ci' })
  t.same(decider.evolve({ name: 'x' }, deleted), { none: true })
  t.notOk(decider.handles({ type: 'constructor' }))
})

t.test(
  'a fold touches documents only for events with a handler; `changes` does nothing without a document',
  async (t) => {
    interface Tally {
      name: string
      times: number
      even: boolean
      at: string
    }
    const fold: Fold<Tally> = foldOf({
      name: 'tallies',
      version: 1,
      ids: ({ data }) => [`${data.tokenId}`],
      becomes: { TokenDeleted: (before) => before && { ...before, name: 'gone' } },
      onEveryChange: ({ metadata }) => ({ at: metadata.at }),
      changes: { TokenCreated: ({ times }, { data }) => ({ times: times + 1, name: data.name }) },
      derived: ({ times }) => ({ even: times % 2 === 0 }),
    })
    const recorded = (event: DomainEvent): Recorded<DomainEvent> => ({
      ...event,
      id: 'x',
      stream: 's',
      revision: 0,
      position: 1,
      metadata: { actor: null, at: 'now', correlationId: 'c', causationId: 'c', schema: 1 },
    })
    const before: Tally = { name: '', times: 1, even: false, at: 'then' }
    t.same(fold.touches(recorded(added)), ['4'])
    t.same(fold.touches(recorded({ type: 'NumberTaken', data: { sequence: 's' } })), [])
    t.equal(fold.evolve(undefined, recorded(added), '4'), undefined)
    t.same(fold.evolve(before, recorded(added), '4'), { name: 'ci', times: 2, even: true, at: 'now' })
    t.same(before, { name: '', times: 1, even: false, at: 'then' }, 'the earlier document is unchanged')
    t.same(fold.evolve(before, recorded(deleted), '4'), { ...before, name: 'gone' })
  },
)
