/** `mergelog serve`: runs the server until SIGTERM, SIGINT or SIGHUP. `npm start` runs this. */
import { once } from 'node:events'
import type { Command } from 'commander'
import { loadConfig } from '../../config/config.ts'
import { settings } from '../../config/setting-table.ts'
import { setUpGarbageCollection } from '../../server/garbage-collection.ts'
import { requireOpenFiles } from '../../storage/open-files.ts'
import { bannerLines } from '../banner.ts'
import { refuseDebuggers } from '../debuggers.ts'
import { usage } from '../help.ts'
import { openServerLog } from '../server-log.ts'
import { startWarnings } from '../start-warnings.ts'

/** Runs a server with the settings of the environment. Resolves when a signal has stopped it cleanly. */
export async function serve(): Promise<void> {
  setUpGarbageCollection()
  refuseDebuggers()
  requireOpenFiles()
  const config = loadConfig(process.env)
  const { log, isJsonAlone, flushed } = await openServerLog(config, process.stdout.isTTY)
  for (const warning of startWarnings(process.env)) log.warn(warning)
  // Import the server only here, so that the other commands start faster.
  const { startServer } = await import('../../server/server.ts')
  const server = await startServer(config, log)
  // Registered before the first line is printed: a script that waits for it may stop the server at once.
  const stopped = untilSignal()

  const print = isJsonAlone ? console.error : console.log
  // In one write, so that no log line comes in between.
  print(bannerLines(server, config).join('\n'))

  await stopped
  const hurry = new AbortController()
  void untilSignal().then(() => hurry.abort())
  try {
    await server.stop(hurry.signal)
  } catch (error) {
    throw new Error('the server did not stop cleanly', { cause: error })
  } finally {
    await flushed()
  }
}

/**
 * Resolves at the next SIGTERM, SIGINT or SIGHUP (the terminal was closed). The handlers stay, so that a second signal
 * doesn't interrupt the shutdown: it only ends the wait of `DRAIN_MS`.
 */
export function untilSignal(): Promise<unknown> {
  const signals = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, () => {})
  return Promise.race(signals.map((signal) => once(process, signal)))
}

export function addServe(program: Command): void {
  const examples = ['mergelog serve', 'DATA_DIR=/srv/mergelog PORT=8080 mergelog serve']
  const environment = settings.map(({ name }) => name)
  program
    .command('serve')
    .description('run the server until SIGTERM, SIGINT or SIGHUP')
    .addHelpText('after', usage(examples, environment))
    .action(() => serve())
}
