/** `mergelog rebuild`: read models made anew from the log, beside a running server or without one. */
import type { Command } from 'commander'
import { pino } from 'pino'
import { loadConfig } from '../../config.ts'
import { askToRebuild, ControlFailed } from '../../control/client.ts'
import { DataDirInUse, lockDataDir } from '../../data-lock.ts'
import { createProjector } from '../../projections/projector.ts'
import { createRebuild, type RebuildProgress } from '../../projections/rebuild.ts'
import { openReadStores } from '../../stores.ts'
import { modelsNamed, READ_MODELS, UnknownReadModel } from '../../views.ts'
import { CommandFailed } from '../explain.ts'
import { explainUse, STORE_SETTINGS } from '../help.ts'
import { openLog } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { styled } from '../terminal.ts'

interface Rebuilt {
  model: string
  events: number
}

/** Where a server runs, it does the work: it alone writes its read models. */
async function* rebuildAnywhere(names: readonly string[]): AsyncGenerator<RebuildProgress> {
  const config = loadConfig(process.env)
  modelsNamed(names)
  let unlock: () => void
  try {
    unlock = lockDataDir(config.dataDir)
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    yield* askToRebuild(config.dataDir, names)
    return
  }
  const events = await openLog(config)
  const { generations, readStore, secrets } = await openReadStores(config)
  const stopping = new AbortController()
  const projector = createProjector(pino({ level: config.logLevel }), events, readStore, READ_MODELS)
  try {
    await projector.start()
    const rebuild = createRebuild({
      events,
      generations,
      projector,
      exchanged: () => {},
      signal: stopping.signal,
    })
    yield* rebuild(modelsNamed(names))
  } finally {
    stopping.abort()
    await projector.stop()
    await Promise.all([events.close(), readStore.close(), secrets.close()])
    unlock()
  }
}

async function rebuildCommand({ model, json }: { model: string[]; json?: true }): Promise<void> {
  const rebuilt: Rebuilt[] = []
  try {
    await withProgressBar(async (onProgress) => {
      for await (const { model: name, events, position, end, done } of rebuildAnywhere(model)) {
        onProgress({ step: name, done: position, total: end, events })
        if (done) rebuilt.push({ model: name, events })
      }
    })
  } catch (error) {
    if (error instanceof ControlFailed || error instanceof UnknownReadModel) {
      throw new CommandFailed(error.message, { cause: error })
    }
    throw error
  }
  if (json) console.log(JSON.stringify({ rebuilt }))
  else for (const { model, events } of rebuilt) console.log(`${styled('green', model)} from ${events} events`)
}

export function addRebuild(program: Command): void {
  const collect = (name: string, names: string[]) => [...names, name]
  const command = program
    .command('rebuild')
    .description(
      'make read models anew from the log; a running server goes on serving the old ones until then',
    )
    .option('--model <name>', 'only this one; can be given several times', collect, [])
    .option('--json', 'print what was rebuilt as JSON')
    .action(rebuildCommand)
  explainUse(command, ['mergelog rebuild', 'mergelog rebuild --model pulls --model issues'], STORE_SETTINGS)
}
