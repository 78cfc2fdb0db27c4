/** `npm run seed`: fills an empty data directory with many issues, pull requests and repositories. */
import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { secretCollections } from '../../src/auth/secrets.ts'
import { withProgressBar } from '../../src/cli/progress-bar.ts'
import { createUser } from '../../src/commands/users/create.ts'
import { type Config, loadConfig } from '../../src/config/config.ts'
import { LOG_START } from '../../src/events/store/event-store.ts'
import { idsStream } from '../../src/events/streams.ts'
import { openEvents, openReadStores } from '../../src/server/stores.ts'
import { createWriteState } from '../../src/services/writes/write-state.ts'
import { lockDataDir } from '../../src/storage/data-lock.ts'
import { refuseUnfinishedRestore } from '../../src/storage/unfinished-restore.ts'
import { lastRevision, noteMissingGit, type SeededRepository, seedEvents, skipProcesses } from './events.ts'
import { RARE_WORD } from './issue.ts'

const LOGIN = 'seed'
const MARKED = 30
const MAX_AMOUNT = 10_000_000

const HELP = `DATA_DIR=<directory> npm run seed -- [--issues N] [--pulls N] [--repos N] [--password PASSWORD]

  --issues    number of issues (default: 1000): most in ${LOGIN}/repo-1, one in each other repository;
              exactly ${MARKED} of them have the word "${RARE_WORD}" in the title
  --pulls     number of pull requests, all in ${LOGIN}/repo-1 (default: 100)
  --repos     number of repositories ${LOGIN}/repo-1, ${LOGIN}/repo-2, … (default: 10)
  --password  password of their owner, the user "${LOGIN}" (default: a random one, printed once)

The data directory must not have repositories yet, and no server may use it meanwhile. The next start reads the
new events. The repositories have no git data: clones, pushes and merges answer 404.`

class UsageError extends Error {}

type Amounts = Record<'issues' | 'pulls' | 'repos', number>

/** @throws UsageError */
function readArguments(): Amounts & { password: string | undefined; help: boolean } {
  const options = {
    issues: { type: 'string', default: '1000' },
    pulls: { type: 'string', default: '100' },
    repos: { type: 'string', default: '10' },
    password: { type: 'string' },
    help: { type: 'boolean', short: 'h', default: false },
  } as const
  try {
    const { issues, pulls, repos, password, help } = parseArgs({ options }).values
    return {
      issues: amountOf('issues', issues, 0),
      pulls: amountOf('pulls', pulls, 0),
      repos: amountOf('repos', repos, 1),
      password,
      help,
    }
  } catch (error) {
    // The errors that parseArgs throws name the option.
    throw error instanceof TypeError ? new UsageError(error.message) : error
  }
}

function amountOf(name: string, text: string, min: number): number {
  const amount = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN
  if (amount >= min && amount <= MAX_AMOUNT) return amount
  throw new UsageError(`--${name}: must be a whole number from ${min} to ${MAX_AMOUNT}, not "${text}"`)
}

/** The first repository has at least half of the issues, and all of the marked ones. */
function repositoriesOf({ issues, pulls, repos }: Amounts): SeededRepository[] {
  const elsewhere = Math.min(repos - 1, Math.floor(issues / 2))
  return Array.from({ length: repos }, (_, i): SeededRepository => {
    const name = `repo-${i + 1}`
    if (i > 0) return { name, issues: i <= elsewhere ? 1 : 0 }
    return { name, pulls, issues: issues - elsewhere, marked: MARKED }
  })
}

/** Seeds a data directory that this process has locked. Resolves to the number of appended events. */
async function fill(config: Config, amounts: Amounts, password: string): Promise<number> {
  const events = await openEvents(config)
  const { readStore, secrets } = await openReadStores(config)
  try {
    if ((await lastRevision(events, idsStream('repository'))) !== null) {
      throw new UsageError(`DATA_DIR: ${config.dataDir} has repositories already; choose another directory`)
    }
    await secrets.prepare(secretCollections)
    const at = new Date().toISOString()
    const context = { actor: null, at, correlationId: 'seed', causationId: 'seed', written: LOG_START }
    const details = { login: LOGIN, email: `${LOGIN}@localhost`, fullName: '', siteAdmin: false }
    const services = { events, writeState: createWriteState(), secrets }
    const author = { id: await createUser(services, context, details, password), login: LOGIN }
    const plan = {
      owner: { ...author, kind: 'user' },
      author,
      repositories: repositoriesOf(amounts),
    } as const
    const total = amounts.issues + amounts.pulls + amounts.repos
    const appended = await withProgressBar((onProgress) =>
      seedEvents(events, plan, (done) => onProgress({ step: 'seeding', done, total })),
    )
    await skipProcesses(readStore, await events.lastPosition())
    await noteMissingGit(config.dataDir)
    return appended
  } finally {
    await Promise.all([events.close(), readStore.close(), secrets.close()])
  }
}

async function main(): Promise<void> {
  const given = readArguments()
  if (given.help) return console.log(HELP)
  const config = loadConfig(process.env)
  if (config.eventStoreUrl !== undefined || config.mongodbUrl !== undefined) {
    throw new UsageError('only a data directory can be seeded: unset EVENTSTORE_URL and MONGODB_URL')
  }
  await mkdir(config.dataDir, { recursive: true })
  const unlock = lockDataDir(config.dataDir)
  await refuseUnfinishedRestore(config.dataDir, unlock)
  const started = performance.now()
  const password = given.password ?? randomBytes(15).toString('base64url')
  const appended = await fill(config, given, password).finally(unlock)
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  const { issues, pulls, repos } = given
  console.log(
    `${repos} repositories, ${issues} issues, ${pulls} pull requests: ${appended} events in ${seconds} s`,
  )
  console.log(`  data     ${config.dataDir}`)
  const shown = given.password === undefined ? `"${password}" (shown only this once)` : 'as given'
  console.log(`  user     "${LOGIN}", password ${shown}`)
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? `seed: ${error.message}` : error)
  process.exit(error instanceof UsageError ? 2 : 1)
})
