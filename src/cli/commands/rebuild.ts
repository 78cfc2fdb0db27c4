/** `mergelog rebuild`: rebuilds read models from the log, with or without a running server. */
import { setMaxListeners } from 'node:events'
import type { Command } from 'commander'
import { pino } from 'pino'
import { type Config, loadConfig } from '../../config/config.ts'
import { createProjector } from '../../projections/projector/projector.ts'
import type { ReadModel } from '../../projections/projector/read-model.ts'
import { createRebuild, type RebuildProgress } from '../../projections/projector/rebuild.ts'
import { modelsNamed, READ_MODELS, UnknownReadModel } from '../../projections/views/views.ts'
import { openNodes } from '../../server/stores.ts'
import { argument } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { openTexts, openViews } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { askToRebuild } from '../running-server.ts'
import { tokenOption, urlOption } from '../server-options.ts'
import { type ServerArguments, serverOrLocal } from '../server-or-local.ts'
import { printable, styled } from '../terminal.ts'

interface RebuildArguments extends ServerArguments {
  model: string[]
  json?: true
}

/** A running server does the rebuild itself: only the server may write its read models. */
async function* rebuildAnywhere({ model, ...server }: RebuildArguments): AsyncGenerator<RebuildProgress> {
  const config = loadConfig(process.env)
  const models = argument(() => modelsNamed(model), UnknownReadModel)
  yield* serverOrLocal(
    config,
    server,
    (url, authorization) => askToRebuild(url, authorization, model),
    () => rebuildHere(config, models),
  )
}

/** Rebuilds in this process, which must have locked the data directory. */
async function* rebuildHere(config: Config, models: readonly ReadModel[]): AsyncGenerator<RebuildProgress> {
  const events = await openTexts(config)
  try {
    const stopping = new AbortController()
    // Each rebuilt model has a listener until its old documents are deleted.
    setMaxListeners(0, stopping.signal)
    // Log to standard error: standard output is for the result.
    const log = pino({ level: config.logLevel }, pino.destination(2))
    // Servers on other machines may use the stores, although this process has locked the data directory here.
    const { nodes, close: leaveNodes } = await openNodes(config, {
      log,
      isReady: () => false,
      takeOver: async () => {},
    })
    const generations = await openViews(config, nodes)
    const projector = createProjector({
      log,
      events,
      views: generations.current,
      models: READ_MODELS,
      sharing: {
        membership: nodes,
        forget: () => {},
      },
    })
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
      // On a shared store, old documents remain for queries of other servers, which delete them later.
      await freeSpares(READ_MODELS)
    } finally {
      stopping.abort()
      await projector.stop()
      await leaveNodes()
      await generations.current.close()
    }
  } finally {
    await events.close()
  }
}

async function rebuildCommand(options: RebuildArguments): Promise<void> {
  const rebuilt: Pick<RebuildProgress, 'model' | 'events' | 'lacks'>[] = []
  await withProgressBar(async (onProgress) => {
    for await (const { model, events, position, end, done, lacks } of rebuildAnywhere(options)) {
      onProgress({ step: model, done: position, total: end, events })
      if (done) rebuilt.push({ model, events, ...(lacks && { lacks }) })
    }
  })
  if (options.json) console.log(JSON.stringify({ rebuilt }))
  else {
    for (const { model, events } of rebuilt) console.log(`${styled('green', model)} from ${events} events`)
    const lacks = new Set(rebuilt.flatMap((one) => one.lacks ?? []))
    if (lacks.size > 0)
      console.log(printable(`the log lacks, and so do the read models: ${[...lacks].join('; ')}`))
  }
}

export function addRebuild(program: Command): void {
  const collect = (name: string, names: string[]) => [...names, name]
  const examples = ['mergelog rebuild', 'mergelog rebuild --model pulls --model issues']
  const environment = ['HOST', 'PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD', ...STORE_SETTINGS] as const
  program
    .command('rebuild')
    .description('rebuild read models from the log; meanwhile a running server answers from the old ones')
    .option('--model <name>', 'only this read model; can be repeated', collect, [])
    .addOption(urlOption())
    .addOption(tokenOption("a site admin's token"))
    .option('--json', 'print what was rebuilt as JSON')
    .addHelpText('after', usage(examples, environment))
    .action(rebuildCommand)
}
