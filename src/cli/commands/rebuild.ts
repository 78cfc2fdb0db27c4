/** `mergelog rebuild`: read models made anew from the log, beside a running server or without one. */
import type { Command } from 'commander'
import { pino } from 'pino'
import { type Config, loadConfig } from '../../config.ts'
import { askToRebuild, ControlFailed } from '../../control/client.ts'
import { DataDirInUse, lockDataDir } from '../../data-lock.ts'
import { createProjector } from '../../projections/projector.ts'
import type { ReadModel } from '../../projections/read-model.ts'
import { createRebuild, type RebuildProgress, SharedReadModels } from '../../projections/rebuild.ts'
import { modelsNamed, READ_MODELS, UnknownReadModel } from '../../projections/views.ts'
import { CommandFailed, WrongUse } from '../explain.ts'
import { explainUse, STORE_SETTINGS } from '../help.ts'
import { openLog, openViews, requireLog } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { styled } from '../terminal.ts'

interface Rebuilt {
  model: string
  events: number
}

/** Where a server runs, it does the work: it alone writes its read models. */
async function* rebuildAnywhere(names: readonly string[]): AsyncGenerator<RebuildProgress> {
  const config = loadConfig(process.env)
  const models = chosen(names)
  if (config.mongodbUrl !== undefined) throw new SharedReadModels()
  // Before the lock, which would leave its file in a directory that was mistyped.
  await requireLog(config)
  let unlock: () => void
  try {
    unlock = lockDataDir(config.dataDir)
  } catch (error) {
    if (!(error instanceof DataDirInUse)) throw error
    yield* askToRebuild(config.dataDir, names)
    return
  }
  try {
    yield* rebuildHere(config, models)
  } finally {
    unlock()
  }
}

/** @throws WrongUse for a name that is no read model's */
function chosen(names: readonly string[]): readonly ReadModel[] {
  try {
    return modelsNamed(names)
  } catch (error) {
    throw error instanceof UnknownReadModel ? new WrongUse(error.message, { cause: error }) : error
  }
}

/** In a data directory that is locked for this process. */
async function* rebuildHere(config: Config, models: readonly ReadModel[]): AsyncGenerator<RebuildProgress> {
  const events = await openLog(config)
  try {
    const generations = await openViews(config)
    const stopping = new AbortController()
    // What is printed on standard output is for who asked.
    const log = pino({ level: config.logLevel }, pino.destination(2))
    const projector = createProjector(log, events, generations.current, READ_MODELS)
    try {
      await projector.start()
      const { rebuild, freeSpares } = createRebuild({
        events,
        generations,
        projector,
        exchanged: () => {},
        signal: stopping.signal,
      })
      yield* rebuild(models)
      // Nobody reads them, and there is no later.
      await freeSpares(READ_MODELS)
    } finally {
      stopping.abort()
      await projector.stop()
      await generations.current.close()
    }
  } finally {
    await events.close()
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
    if (error instanceof ControlFailed || error instanceof SharedReadModels) {
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
