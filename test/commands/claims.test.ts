import t from 'tap'
import { claimHolder, releaseClaim, takeClaim } from '../../src/commands/claims.ts'
import { append } from '../../src/commands/execute.ts'
import type { EventStore } from '../../src/events/event-store.ts'
import { aContext, openStores } from '../stores.ts'

const later = () => aContext({ at: new Date(Date.now() + 61_000).toISOString() })
const held = async () => true
const givenUp = async () => false

const make = (events: EventStore, holder: string) =>
  append(
    events,
    aContext(),
    holder,
    'make',
    [{ type: 'NumberTaken', data: { sequence: holder } }],
    'no-stream',
  )

t.test('a key has one holder: of twenty at once exactly one', async (t) => {
  const { events } = openStores(t)
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      takeClaim(events, aContext(), { key: 'k', holder: `repo-${i}`, stillHolds: held }),
    ),
  )
  t.equal(results.filter((result) => result.taken).length, 1)
})

t.test('taking what one has already is fine, and a released key is free at once', async (t) => {
  const { events } = openStores(t)
  const claim = { key: 'k', holder: 'repo-1', stillHolds: held }
  t.same(await takeClaim(events, aContext(), claim), { taken: true })
  t.same(await takeClaim(events, aContext(), claim), { taken: true })
  t.same(await takeClaim(events, aContext(), { ...claim, holder: 'repo-2' }), {
    taken: false,
    holder: 'repo-1',
  })
  t.equal(await claimHolder(events, aContext(), claim), 'repo-1')
  await releaseClaim(events, aContext(), 'k', 'repo-2')
  t.equal(await claimHolder(events, aContext(), claim), 'repo-1', 'only the holder can release')
  await releaseClaim(events, aContext(), 'k', 'repo-1')
  t.equal(await claimHolder(events, aContext(), claim), undefined)
  t.same(await takeClaim(events, aContext(), { ...claim, holder: 'repo-2' }), { taken: true })
})

t.test(
  'a claim whose holder was never made is taken over after its grace, and the holder can not come back',
  async (t) => {
    const { events } = openStores(t)
    await takeClaim(events, aContext(), { key: 'k', holder: 'repo-1', stillHolds: givenUp })
    const second = { key: 'k', holder: 'repo-2', stillHolds: givenUp }
    t.same(
      await takeClaim(events, aContext(), second),
      { taken: false, holder: 'repo-1' },
      'it may be on its way',
    )
    t.same(await takeClaim(events, later(), second), { taken: true })
    await t.rejects(make(events, 'repo-1'), { name: 'WrongExpectedRevision' })
  },
)

t.test('a claim whose holder holds it is kept, however old', async (t) => {
  const { events } = openStores(t)
  await takeClaim(events, aContext(), { key: 'k', holder: 'repo-1', stillHolds: held })
  await make(events, 'repo-1')
  const second = { key: 'k', holder: 'repo-2', stillHolds: held }
  t.same(await takeClaim(events, later(), second), { taken: false, holder: 'repo-1' })
  t.same(
    await takeClaim(events, later(), { ...second, stillHolds: givenUp }),
    { taken: true },
    'given up in a crash',
  )
})
