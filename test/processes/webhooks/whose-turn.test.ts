import t from 'tap'
import { type Ready, whoseTurn } from '../../../src/processes/webhooks/whose-turn.ts'
import { createRecentUse } from '../../../src/recent-use.ts'

const hooks = (ownerId: number, count: number): Ready[] =>
  Array.from({ length: count }, (_, i) => ({ hookId: ownerId * 1000 + i, ownerId, at: i }))

t.test('receivers that hang, of however many organizations, keep no place from another account', (t) => {
  const used = createRecentUse(60_000, () => 0)
  const hanging = Array.from({ length: 30 }, (_, i) => i + 1)
  for (const owner of hanging) used.add(`${owner}`, 10_000)
  used.add('99', 20)
  const ready = [...hanging.flatMap((owner) => hooks(owner, 50)), ...hooks(99, 3)]
  const owners = (free: number, freeForSlow = free) =>
    whoseTurn(ready, { free, freeForSlow, freeFor: () => 4, used }).map(({ ownerId }) => ownerId)
  t.same(owners(1), [99])
  t.same(owners(5), [99, 99, 99, 1, 2], 'the others in turn')
  t.same(owners(5, 1), [99, 99, 99, 1], 'and never in the last places')
  t.end()
})

t.test('of one account those go first that have waited longest, in the places that it has left', (t) => {
  const used = createRecentUse(60_000, () => 0)
  const ready = hooks(1, 9).reverse()
  const chosen = whoseTurn(ready, { free: 16, freeForSlow: 12, freeFor: () => 2, used })
  t.same(
    chosen.map(({ at }) => at),
    [0, 1],
  )
  t.same(whoseTurn(ready, { free: 16, freeForSlow: 12, freeFor: () => 0, used }), [])
  t.same(whoseTurn(ready, { free: 0, freeForSlow: 12, freeFor: () => 4, used }), [])
  t.end()
})
