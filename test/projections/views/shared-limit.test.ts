import { LRUCache } from 'lru-cache'
import t from 'tap'
import { createSharedLimit } from '../../../src/projections/views/shared-limit.ts'

const cacheOf = (maxSize: number) =>
  new LRUCache<string, number>({ maxSize, sizeCalculation: (size: number) => size })

t.test('one cache may use the whole shared limit', async (t) => {
  const limit = createSharedLimit(10)
  const [one] = [limit.share(cacheOf(10)), limit.share(cacheOf(10))]
  one.set('a', 9)
  limit.keep()
  t.equal(one.calculatedSize, 9)
})

t.test('when the caches exceed the limit, the largest evicts its oldest entries', async (t) => {
  const limit = createSharedLimit(10)
  const [large, small] = [limit.share(cacheOf(10)), limit.share(cacheOf(10))]
  for (const key of ['a', 'b', 'c']) large.set(key, 3)
  large.get('a')
  small.set('d', 2)
  limit.keep()
  t.same([[...large.keys()].sort(), [...small.keys()]], [['a', 'c'], ['d']])
  small.set('e', 4)
  limit.keep()
  t.same([[...large.keys()].sort(), [...small.keys()].sort()], [['a'], ['d', 'e']])
})
