/** Closes connections without a request. Browsers and connection pools open them in advance. */
import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'

/** Closes unused connections when the app closes. Otherwise closing waits a minute for the first request of each. */
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
