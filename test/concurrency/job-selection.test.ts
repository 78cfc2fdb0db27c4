import t from 'tap'
import { selectJobs } from '../../src/concurrency/job-selection.ts'
import { createRecentUse } from '../../src/concurrency/recent-use.ts'

const works = (account: string, count: number) =>
  Array.from({ length: count }, (_, due) => ({ account, due }))

t.test('hanging jobs, of any number of accounts, take no slot from another account', (t) => {
  const used = createRecentUse(60_000, () => 0)
  const hanging = Array.from({ length: 30 }, (_, i) => `${i + 1}`)
  for (const account of hanging) used.add(account, 10_000)
  used.add('99', 20)
  const ready = [...hanging.flatMap((account) => works(account, 50)), ...works('99', 3)]
  const isSlow = (account: string) => account !== '99'
  const accounts = (free: number, freeForSlow = free) =>
    selectJobs(ready, { free, freeForSlow, freeFor: () => 4, isSlow, used }).map(({ account }) => account)
  t.same(accounts(1), ['99'])
  t.same(accounts(5), ['99', '99', '99', '1', '2'], 'the others in turn')
  t.same(accounts(5, 1), ['99', '99', '99', '1'], 'and never in the last places')
  t.end()
})

t.test('of one account, the jobs that have waited longest run first, in its free slots', (t) => {
  const used = createRecentUse(60_000, () => 0)
  const ready = works('1', 9).reverse()
  const chosen = (free: number, ofOne: number) =>
    selectJobs(ready, { free, freeForSlow: 12, freeFor: () => ofOne, isSlow: () => false, used })
  t.same(
    chosen(16, 2).map(({ due }) => due),
    [0, 1],
  )
  t.same(chosen(16, 0), [])
  t.same(chosen(0, 4), [])
  t.end()
})
