import t from 'tap'
import { ownBytes } from '../../src/concurrency/own-bytes.ts'

t.test(
  'bytes that are kept are alone in their memory, and not copied when they are so already',
  async (t) => {
    const part = Buffer.from('a small text')
    t.not(part.buffer.byteLength, part.length)
    const own = ownBytes(part)
    t.same(own, part)
    t.equal(own.buffer.byteLength, own.length)
    t.equal(ownBytes(own), own)
  },
)
