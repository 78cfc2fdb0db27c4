import t from 'tap'
import { createIdsAhead } from '../../../src/services/writes/ids-ahead.ts'

/**
 * With a clock that only the test moves. `ask` gives an id as `sequences.ts` does: from an append when the pool is
 * empty.
 */
function aheadAt(start = 0) {
  const clock = { now: start }
  const ahead = createIdsAhead(() => clock.now)
  const appends: number[] = []
  let last = 0
  function ask(sequence = 'ids-issue'): number {
    const id = ahead.take(sequence)
    if (id !== undefined) return id
    const first = last + 1
    const more = ahead.aheadFor(sequence, 1)
    last = first + more
    appends.push(1 + more)
    ahead.fill(sequence, first + 1, last)
    return first
  }
  return { clock, ahead, appends, ask }
}

t.test('at low demand, no id is taken ahead', (t) => {
  const { clock, appends, ask } = aheadAt()
  const ids = Array.from({ length: 20 }, () => {
    clock.now += 1000
    return ask()
  })
  t.same(
    ids,
    ids.map((_, i) => i + 1),
    'without a gap',
  )
  t.same([...new Set(appends)], [1])
  t.end()
})

t.test('at high demand, an append takes up to 100 ids ahead, and each is used once and in order', (t) => {
  const { clock, appends, ask } = aheadAt()
  const ids = Array.from({ length: 2000 }, () => {
    clock.now += 2
    return ask()
  })
  t.same(
    ids,
    ids.map((_, i) => i + 1),
    'none was too old',
  )
  t.equal(Math.max(...appends), 101)
  t.ok(appends.length < 40, `${appends.length} appends`)
  t.end()
})

t.test('an id that was taken ahead expires after a second', (t) => {
  const { clock, ahead, ask } = aheadAt()
  for (let i = 0; i < 50; i++) ask()
  ahead.fill('ids-issue', 1000, 1010)
  t.equal(ahead.take('ids-issue'), 1000)
  clock.now += 999
  t.equal(ahead.take('ids-issue'), 1001)
  clock.now += 1
  t.equal(ahead.take('ids-issue'), undefined)
  t.end()
})

t.test('each sequence has its own ids', (t) => {
  const { ahead } = aheadAt()
  ahead.fill('ids-issue', 7, 8)
  t.equal(ahead.take('ids-comment'), undefined)
  t.same(
    [1, 2, 3].map(() => ahead.take('ids-issue')),
    [7, 8, undefined],
  )
  t.end()
})
