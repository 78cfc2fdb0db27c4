/**
 * What the command line asks of a running server, over a socket that only the owner of the data directory can
 * open: `POST /rebuild?model=NAME` makes read models anew, and tells line by line how far it has come.
 */
import { chmod, rm } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox'
import Fastify from 'fastify'
import { Type } from 'typebox'
import type { Rebuilder, RebuildProgress } from '../projections/rebuild.ts'
import { modelsNamed, READ_MODELS } from '../projections/views.ts'
import { controlSocket } from './socket.ts'

const RebuildQuery = Type.Object({ model: Type.Array(Type.String(), { default: [] }) })

/** A start has better things to do. */
const FREE_AFTER_MS = 10_000

export interface ControlServer {
  stop(): Promise<void>
}

/**
 * Listens for `dataDir`, whose lock must be held: what is left of an earlier server is removed, also what its
 * rebuilds had no time to free, some seconds later.
 */
export async function startControl(
  dataDir: string,
  { rebuild, freeSpares }: Rebuilder,
): Promise<ControlServer> {
  const app = Fastify({ forceCloseConnections: true }).withTypeProvider<TypeBoxTypeProvider>()

  app.post('/rebuild', { schema: { querystring: RebuildQuery } }, async ({ query }, reply) => {
    const lines = progressLines(rebuild(modelsNamed(query.model)))
    return reply.type('application/x-ndjson').send(Readable.from(lines, { objectMode: false }))
  })

  const path = controlSocket(dataDir)
  await rm(path, { force: true })
  await app.listen({ path })
  await chmod(path, 0o600)
  freeSpares(READ_MODELS, FREE_AFTER_MS).catch(() => {})
  return { stop: () => app.close() }
}

/** A line for each progress; the last one says what went wrong, if anything but the server's end did. */
async function* progressLines(progress: AsyncIterable<RebuildProgress>): AsyncGenerator<string> {
  try {
    for await (const step of progress) yield `${JSON.stringify(step)}\n`
  } catch (error) {
    if (error instanceof Error && error.name === 'AbortError') return
    yield `${JSON.stringify({ failed: error instanceof Error ? error.message : String(error) })}\n`
  }
}
