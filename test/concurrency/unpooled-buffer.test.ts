import t from 'tap'
import { unpooledBuffer } from '../../src/concurrency/unpooled-buffer.ts'

t.test('cached bytes have their own memory, and are copied only if they do not', async (t) => {
  const part = Buffer.from('a small text')
  t.not(part.buffer.byteLength, part.length)
  const own = unpooledBuffer(part)
  t.same(own, part)
  t.equal(own.buffer.byteLength, own.length)
  t.equal(unpooledBuffer(own), own)
})
