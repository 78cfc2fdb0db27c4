import t from 'tap'
import { unpooledBuffer } from '../../src/concurrency/unpooled-buffer.ts'

t.test(
  'bytes that are kept are alone in their memory, and not copied when they are so already',
  async (t) => {
    const part = Buffer.from('a small text')
    t.not(part.buffer.byteLength, part.length)
    const own = unpooledBuffer(part)
    t.same(own, part)
    t.equal(own.buffer.byteLength, own.length)
    t.equal(unpooledBuffer(own), own)
  },
)
