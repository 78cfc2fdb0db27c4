/** A server that is killed (`kill -9`) right after an effect, as `faults/effects.ts` names it. */
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Test } from 'tap'
import { exists } from '../src/storage/disk.ts'
import { startServerProcess } from './server-process.ts'
import { until } from './until.ts'

/**
 * Starts a server on the data directory and lets it work: by itself, or on the requests of `act`. Resolves when it has
 * died right after the first matching effect.
 */
export async function killedAfter(
  t: Test,
  DATA_DIR: string,
  effect: RegExp,
  act: (url: string) => Promise<unknown> = async () => {},
  environment: Record<string, string> = {},
): Promise<void> {
  const point = join(t.testdir(), 'point')
  await rm(`${point}.reached`, { force: true })
  await writeFile(point, effect.source)
  const started = startServerProcess(
    t,
    DATA_DIR,
    { ...environment, FAULTS_POINT: point },
    { before: 'faults/effects' },
  )
  // It may die before it listens.
  const server = await started.catch(() => undefined)
  if (server !== undefined) await act(server.url).catch(() => undefined)
  await until(`${effect} is reached`, () => exists(`${point}.reached`))
  await until('it is gone', () => server === undefined || server.child.signalCode === 'SIGKILL')
}
