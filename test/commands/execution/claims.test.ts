import t from 'tap'
import { append } from '../../../src/commands/execution/append.ts'
import { claimHolder, releaseClaim, takeClaim } from '../../../src/commands/execution/claims.ts'
import type { CommandContext } from '../../../src/commands/execution/command-context.ts'
import { LOG_START } from '../../../src/events/store/event-store.ts'
import { writtenBy } from '../../../src/events/store/written-by.ts'
import type { WriteServices } from '../../../src/services/services.ts'
import { createClaimAges } from '../../../src/services/writes/claim-ages.ts'
import { aContext, openStores, writerOf } from '../../stores.ts'

/** Lets time pass for a server that began with an empty log. */
function timeOf({ writeState }: WriteServices): (ms: number) => void {
  let now = 0
  writeState.claimAges = createClaimAges({ node: 'here', position: LOG_START }, () => now)
  return (ms) => {
    now += ms
  }
}
const held = async () => true
const givenUp = async () => false

const make = (writer: WriteServices, holder: string) =>
  append(
    writer,
    aContext(),
    holder,
    'make',
    [{ type: 'NumberTaken', data: { sequence: holder } }],
    'no-stream',
  )

t.test('a key has one holder: of twenty at the same time, exactly one', async (t) => {
  const writer = writerOf(openStores(t).events)
  const results = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      takeClaim(writer, aContext(), { key: 'k', holder: `repo-${i}`, stillHolds: held }),
    ),
  )
  t.equal(results.filter((result) => result.taken).length, 1)
})

t.test('taking a key again succeeds, and a released key is free immediately', async (t) => {
  const writer = writerOf(openStores(t).events)
  const claim = { key: 'k', holder: 'repo-1', stillHolds: held }
  t.same(await takeClaim(writer, aContext(), claim), { taken: true })
  t.same(await takeClaim(writer, aContext(), claim), { taken: true })
  t.same(await takeClaim(writer, aContext(), { ...claim, holder: 'repo-2' }), {
    taken: false,
    holder: 'repo-1',
  })
  t.equal(await claimHolder(writer, claim), 'repo-1')
  await releaseClaim(writer, aContext(), 'k', 'repo-2')
  t.equal(await claimHolder(writer, claim), 'repo-1', 'only the holder can release')
  await releaseClaim(writer, aContext(), 'k', 'repo-1')
  t.equal(await claimHolder(writer, claim), undefined)
  t.same(await takeClaim(writer, aContext(), { ...claim, holder: 'repo-2' }), { taken: true })
})

t.test(
  'a claim without a holder is taken over after its grace period, and the holder cannot come back',
  async (t) => {
    const writer = writerOf(openStores(t).events)
    const pass = timeOf(writer)
    await takeClaim(writer, aContext(), { key: 'k', holder: 'repo-1', stillHolds: givenUp })
    const second = { key: 'k', holder: 'repo-2', stillHolds: givenUp }
    t.same(
      await takeClaim(writer, aContext(), second),
      { taken: false, holder: 'repo-1' },
      'it may be on its way',
    )
    pass(60_000)
    t.same(await takeClaim(writer, aContext(), second), { taken: true })
    await t.rejects(make(writer, 'repo-1'), { name: 'WrongExpectedRevision' })
  },
)

t.test('an old claim is kept while its holder has the key', async (t) => {
  const writer = writerOf(openStores(t).events)
  const pass = timeOf(writer)
  await takeClaim(writer, aContext(), { key: 'k', holder: 'repo-1', stillHolds: held })
  await make(writer, 'repo-1')
  const second = { key: 'k', holder: 'repo-2', stillHolds: held }
  t.same(await takeClaim(writer, aContext(), second), { taken: false, holder: 'repo-1' })
  pass(60_000)
  t.same(await takeClaim(writer, aContext(), second), { taken: false, holder: 'repo-1' })
  t.same(
    await takeClaim(writer, aContext(), { ...second, stillHolds: givenUp }),
    { taken: true },
    'given up in a crash',
  )
})

t.test(
  'a release keeps a key that its holder needs, or has taken again since, on another node',
  async (t) => {
    const writer = writerOf(openStores(t).events)
    const claim = { key: 'k', holder: 'repo-1', stillHolds: givenUp }
    await takeClaim(writer, aContext(), claim)
    await make(writer, 'repo-1')
    await releaseClaim(writer, aContext(), 'k', 'repo-1', held)
    t.equal(await claimHolder(writer, claim), 'repo-1', 'it needs the key')
    const takenMeanwhile = async () => {
      t.same(await takeClaim(writer, aContext(), claim), { taken: true })
      return false
    }
    await releaseClaim(writer, aContext(), 'k', 'repo-1', takenMeanwhile)
    t.equal(await claimHolder(writer, claim), 'repo-1', 'the answer was of before')
    await releaseClaim(writer, aContext(), 'k', 'repo-1', givenUp)
    t.equal(await claimHolder(writer, claim), undefined)
  },
)

const DAY_MS = 24 * 3_600_000
const atOff = (ms: number) => aContext({ at: new Date(Date.now() + ms).toISOString() })

t.test('a claim of a live server is kept while the clock of another one is ahead', async (t) => {
  const writer = writerOf(openStores(t).events)
  await takeClaim(writer, aContext(), { key: 'k', holder: 'repo-1', stillHolds: givenUp })
  const second = { key: 'k', holder: 'repo-2', stillHolds: givenUp }
  t.same(await takeClaim(writer, atOff(DAY_MS), second), { taken: false, holder: 'repo-1' })
  await t.resolves(make(writer, 'repo-1'))
})

t.test('a claim without a holder is free after its grace period, also if its clock was ahead', async (t) => {
  const writer = writerOf(openStores(t).events)
  const pass = timeOf(writer)
  await takeClaim(writer, atOff(365 * DAY_MS), { key: 'k', holder: 'repo-1', stillHolds: givenUp })
  const second = { key: 'k', holder: 'repo-2', stillHolds: givenUp }
  t.same(await takeClaim(writer, aContext(), second), { taken: false, holder: 'repo-1' })
  pass(60_000)
  t.same(await takeClaim(writer, aContext(), second), { taken: true })
})

t.test('claims of a former process of the same name are free at once, unless it is alive', async (t) => {
  const writer = writerOf(openStores(t).events)
  const claim = { key: 'k', holder: 'repo-1', stillHolds: givenUp }
  await takeClaim(writerOf(writtenBy('here', writer.events)), aContext(), claim)
  const position = await writer.events.lastPosition()
  let isOnly = false
  writer.writeState.claimAges = createClaimAges({ node: 'here', position, isOnly: () => isOnly }, () => 0)
  const second = { ...claim, holder: 'repo-2' }
  t.same(await takeClaim(writer, aContext(), second), { taken: false, holder: 'repo-1' })
  isOnly = true
  t.same(await takeClaim(writer, aContext(), second), { taken: true })
})

t.test("a claim from before a server's start is as old as the server", async (t) => {
  const writer = writerOf(openStores(t).events)
  await takeClaim(writer, aContext(), { key: 'k', holder: 'repo-1', stillHolds: givenUp })
  let now = 0
  const position = await writer.events.lastPosition()
  writer.writeState.claimAges = createClaimAges({ node: 'here', position }, () => now)
  const second = { key: 'k', holder: 'repo-2', stillHolds: givenUp }
  now = 59_999
  t.same(await takeClaim(writer, aContext(), second), { taken: false, holder: 'repo-1' })
  now = 60_000
  t.same(await takeClaim(writer, aContext(), second), { taken: true })
})

const more = (writer: WriteServices, context: CommandContext, holder: string, revision: number) =>
  append(writer, context, holder, 'more', [{ type: 'NumberTaken', data: { sequence: holder } }], revision)

t.test('an event that relies on a claim is written within 20 seconds or not at all', async (t) => {
  const writer = writerOf(openStores(t).events)
  const pass = timeOf(writer)
  await make(writer, 'repo-1')
  const claim = { key: 'k', holder: 'repo-1', stillHolds: givenUp }
  const slow = aContext()
  await takeClaim(writer, slow, claim)
  pass(20_000)
  await takeClaim(writer, slow, { ...claim, key: 'another' })
  pass(1)
  await t.rejects(more(writer, slow, 'repo-1', 0), { message: /took too long/ }, 'its first claim is too old')
  await releaseClaim(writer, slow, 'k', 'repo-1')
  await t.resolves(more(writer, slow, 'repo-1', 0), 'the event relies on the other claim alone')
  pass(60_000)
  await t.resolves(more(writer, slow, 'repo-1', 1), 'what comes later relies on no claim')
})

t.test('a first event needs no time limit: a takeover of its claim closes the stream', async (t) => {
  const writer = writerOf(openStores(t).events)
  const pass = timeOf(writer)
  const slow = aContext()
  await takeClaim(writer, slow, { key: 'k', holder: 'repo-1', stillHolds: givenUp })
  pass(300_000)
  const made = [{ type: 'NumberTaken', data: { sequence: 'repo-1' } }] as const
  await t.resolves(append(writer, slow, 'repo-1', 'make', made, 'no-stream'))
})

t.test('a claim that an earlier request left is renewed by its holder: others wait anew', async (t) => {
  const writer = writerOf(openStores(t).events)
  const pass = timeOf(writer)
  await make(writer, 'repo-1')
  await make(writer, 'repo-2')
  const claim = { key: 'k', holder: 'repo-1', stillHolds: givenUp }
  const rival = { ...claim, holder: 'repo-2' }
  await takeClaim(writer, aContext(), claim)
  await takeClaim(writer, aContext(), rival)
  pass(59_999)
  t.same(await takeClaim(writer, aContext(), claim), { taken: true })
  pass(1)
  t.same(await takeClaim(writer, aContext(), rival), { taken: false, holder: 'repo-1' })
})
