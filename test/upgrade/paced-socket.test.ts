/** gRPC connections that are read in small chunks. */
import { pbkdf2Sync, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import t, { type Test } from 'tap'
import { pacedSocket } from '../../src/upgrade/paced-socket.ts'
import { until } from '../until.ts'

/** A client, and the server's end of its connection. */
async function pair(t: Test): Promise<{ client: Socket; socket: Socket; paced: Duplex }> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  const client = connect(address.port, '127.0.0.1')
  const [socket]: Socket[] = await once(server, 'connection')
  if (socket === undefined) throw new Error('nobody has connected')
  t.teardown(() => {
    client.destroy()
    socket.destroy()
    server.close()
  })
  return { client, socket, paced: pacedSocket(socket, '127.0.0.1') }
}

t.test('data that a client sends at once is read in small chunks, with other work in between', async (t) => {
  const { client, paced } = await pair(t)
  const sent = randomBytes(256 * 1024)
  const read: Buffer[] = []
  let turn = 0
  const turns = new Set<number>()
  const count = () => {
    turn += 1
    if (!paced.closed) setImmediate(count)
  }
  setImmediate(count)
  paced.on('data', (piece: Buffer) => {
    read.push(piece)
    turns.add(turn)
    // As long as HTTP/2 takes for small frames.
    pbkdf2Sync('', '', 5000, 32, 'sha256')
  })
  client.write(sent)
  await until('all of it is there', () => Buffer.concat(read).equals(sent))
  // Data of a client is dropped after its disconnect.
  client.end()
  await once(paced, 'close')
  t.equal(Math.max(...read.map(({ length }) => length)), 4096)
  t.ok(turns.size > 4, 'in many turns of the event loop')
})

t.test('a paused reader stops the client', async (t) => {
  const { client, socket, paced } = await pair(t)
  client.write(randomBytes(64 * 1024))
  paced.once('readable', () => {})
  await until('the connection is not read any more', () => socket.isPaused())
  t.ok(paced.readableLength <= 32 * 1024)
  let read = 0
  paced.on('data', (piece: Buffer) => {
    read += piece.length
  })
  await until('the rest is read', () => read === 64 * 1024)
})

t.test("written data reaches the client, and each end sees the other's close", async (t) => {
  const { client, paced } = await pair(t)
  const answers: Buffer[] = []
  client.on('data', (piece: Buffer) => void answers.push(piece))
  paced.write('an answer')
  await until('the answer is there', () => `${Buffer.concat(answers)}` === 'an answer')
  client.destroy()
  await once(paced, 'close')
  t.ok(paced.destroyed)

  const other = await pair(t)
  other.paced.destroy()
  await once(other.client, 'close')
  t.ok(other.socket.destroyed)
})
