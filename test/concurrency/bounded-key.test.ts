import t from 'tap'
import { boundedKey } from '../../src/concurrency/bounded-key.ts'

t.test('a cache key is never long, and different keys stay different', async (t) => {
  const long = 'x'.repeat(16_000)
  t.equal(boundedKey('a name'), 'a name')
  t.ok(boundedKey(long).length < 100)
  t.equal(boundedKey(long), boundedKey(`${long}`))
  t.not(boundedKey(long), boundedKey(`${long}y`))
})
