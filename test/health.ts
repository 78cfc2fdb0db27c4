/** The health of a server, and a data directory that outlives it, for tests of restarts. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestServer } from './start-server.ts'

export async function dataDirectory(t: { teardown(work: () => Promise<void>): void }): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-server-'))
  t.teardown(() => rm(dir, { recursive: true, force: true, maxRetries: 3 }))
  return dir
}

export async function healthOf(server: TestServer) {
  const answer = await server.fetch(null, '/healthz')
  return { code: answer.status, ...JSON.parse(await answer.text()) }
}

export const isHealthy = (server: TestServer) => async () => (await healthOf(server)).code === 200
