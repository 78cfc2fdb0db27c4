/** `mergelog seal`: seals the texts that older versions wrote into the embedded log, so that they can be erased. */
import { existsSync } from 'node:fs'
import type { Command } from 'commander'
import { loadConfig } from '../../config.ts'
import { lockDataDir, STOP_THE_SERVER } from '../../data-lock.ts'
import { rewrite, sealLog } from '../../events/sqlite-seal.ts'
import { secretCollections } from '../../rights/secrets.ts'
import { createTextKeys } from '../../rights/text-keys.ts'
import { openSqlite } from '../../sqlite.ts'
import { eventsFile, openReadStores, viewsFile } from '../../stores.ts'
import { CommandFailed } from '../explain.ts'
import { STORE_SETTINGS, usage } from '../help.ts'
import { requireLog } from '../open-log.ts'
import { withProgressBar } from '../progress-bar.ts'
import { styled } from '../terminal.ts'

async function sealCommand({ json }: { json?: true }): Promise<void> {
  const config = loadConfig(process.env)
  if (config.eventStoreUrl !== undefined) {
    throw new CommandFailed(
      'EVENTSTORE_URL: the events of EventStoreDB cannot be changed; export, import into embedded stores, seal there, and go back in the same way',
    )
  }
  await requireLog(config)
  const unlock = lockDataDir(config.dataDir, 'alone', STOP_THE_SERVER)
  try {
    const { readStore, secrets } = await openReadStores(config)
    await readStore.close()
    try {
      await secrets.prepare(secretCollections)
      const keys = createTextKeys(secrets)
      const result = await withProgressBar((onProgress) =>
        sealLog(eventsFile(config.dataDir), keys, (done, total) => onProgress({ step: 'log', done, total })),
      )
      // An older version may have left texts in it that were deleted or replaced.
      const views = viewsFile(config.dataDir)
      if (config.mongodbUrl === undefined && existsSync(views)) {
        const db = openSqlite(views, 'NORMAL')
        rewrite(db)
        db.close()
      }
      if (json) console.log(JSON.stringify(result))
      else {
        const { events, sealed, streams } = result
        console.log(`${styled('green', 'Sealed')} the texts of ${sealed} of ${events} events`)
        if (streams > 0) console.log(`  the hashes of ${streams} streams are others now`)
      }
    } finally {
      await secrets.close()
    }
  } finally {
    unlock()
  }
}

export function addSeal(program: Command): void {
  program
    .command('seal')
    .summary('seal the texts of old events, so that they can be erased')
    .description(
      'seal the texts that older versions recorded clear, so that they can be erased; with an embedded log, while no ' +
        'server runs. The hash chains of their streams are linked anew: hashes that were noted before do not match any more.',
    )
    .option('--json', 'print how many as JSON')
    .addHelpText('after', usage(['mergelog seal'], STORE_SETTINGS))
    .action(sealCommand)
}
