import { request } from 'node:http'
import Fastify from 'fastify'
import t from 'tap'
import { limitBodies } from '../../../src/http/bodies/request-bodies.ts'
import { until } from '../../until.ts'

const NEVER = 3_600_000

t.test('a body that is refused before its end releases its share', async (t) => {
  const app = Fastify({ bodyLimit: 100_000 })
  const arriving = limitBodies(app, { all: 10_000_000, perNetwork: 10_000_000, timeoutMs: NEVER })
  app.post('/', async () => 'read')
  t.teardown(() => app.close())
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  /** Sends more chunks than allowed, with or without a declared length. */
  const send = (pieces: number, length?: number) =>
    new Promise<void>((resolve) => {
      const headers = {
        'content-type': 'application/json',
        ...(length !== undefined && { 'content-length': length }),
      }
      // The server may close the connection before it has read all.
      const sent = request(url, { method: 'POST', headers }, (answer) => answer.resume().on('end', resolve))
      sent.on('error', () => resolve())
      for (let i = 0; i < pieces; i++) sent.write(Buffer.alloc(50_000, ' '))
      sent.end()
    })
  for (const pieces of [3, 100]) {
    await send(pieces)
    await send(pieces, pieces * 50_000)
  }
  await until('nothing is on its way', () => arriving().bodies === 0)
  t.same(arriving(), { bodies: 0, bytes: 0 })
})
