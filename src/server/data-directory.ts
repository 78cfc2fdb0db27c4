/** Prepares the data directory at the start of a server. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyBaseLogger } from 'fastify'
import { type Config, isShared } from '../config/config.ts'
import { createDataDir } from '../config/create-directories.ts'
import { HOOKS } from '../git/push/push-hook.ts'
import { openDataDir } from '../storage/data-format.ts'
import { compareClocks } from '../storage/disk.ts'
import { restrictDataDir } from '../storage/private-files.ts'
import { refuseUnfinishedRestore } from '../storage/unfinished-restore.ts'
import { VERSION } from '../storage/version.ts'
import { requirePushHook } from './start-checks.ts'

/** The facts in the first line of the server's log. */
const startFacts = ({ eventStoreUrl, mongodbUrl }: Config, git: string) => ({
  version: VERSION,
  nodejs: process.version,
  git,
  log: eventStoreUrl === undefined ? 'embedded' : 'EventStoreDB',
  readModels: mongodbUrl === undefined ? 'embedded' : 'MongoDB',
})

/** Minimum time that a start waits for the file system of DATA_DIR, also with a START_TIMEOUT_MS of 0. */
const MIN_WAIT_MS = 1000

/** Creates and locks the directory. `git`: the version of git. */
export async function prepareDataDir(config: Config, log: FastifyBaseLogger, git: string) {
  const gitDir = join(config.dataDir, 'git')
  await createDataDir(config.dataDir, Math.max(config.startTimeoutMs, MIN_WAIT_MS))
  await mkdir(gitDir, { recursive: true })
  const { unlock, news } = await openDataDir(config.dataDir, isShared(config) ? 'shared' : 'alone', () =>
    refuseUnfinishedRestore(config.dataDir, () => {}),
  )
  log.info(startFacts(config, git), `Mergelog ${VERSION} starts`)
  if (news !== undefined) log.info(news)
  await requirePushHook(gitDir)
  await compareClocks(join(gitDir, HOOKS))
  const unrestricted = await restrictDataDir(config.dataDir)
  if (unrestricted.length > 0) {
    log.warn({ paths: unrestricted }, 'cannot restrict permissions: another user owns these files')
  }
  return { gitDir, unlock }
}
