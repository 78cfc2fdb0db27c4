import t from 'tap'
import { shortKey } from '../../src/concurrency/short-key.ts'

t.test('a key for a memory is never long, and different keys stay different', async (t) => {
  const long = 'x'.repeat(16_000)
  t.equal(shortKey('a name'), 'a name')
  t.ok(shortKey(long).length < 100)
  t.equal(shortKey(long), shortKey(`${long}`))
  t.not(shortKey(long), shortKey(`${long}y`))
})
