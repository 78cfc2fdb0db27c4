/** Connections that have asked nothing yet: browsers and pools open them ahead. */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Closes them when the app closes, which would wait a minute for the first request of each. */
export function closeUnusedConnections(app: FastifyInstance): void {
  const unused = new Set<Socket>()
  app.server.on('connection', (socket: Socket) => {
    unused.add(socket)
    socket.once('close', () => unused.delete(socket))
  })
  app.server.on('request', ({ socket }) => unused.delete(socket))
  app.addHook('preClose', async () => {
    for (const socket of unused) socket.destroy()
  })
}
