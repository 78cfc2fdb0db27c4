/**
 * `npm run bench [-- --quick] [--only get,list]`: measures each kind of work, and a ceiling for it in the same run.
 * Prints a table. Does not fail when a goal is missed. `--nodes 2` only compares two servers behind a proxy with one.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startChild } from './child.ts'
import { measureClones } from './clones.ts'
import { measureEventStore } from './eventstore.ts'
import { measureHistory } from './history.ts'
import { measureIssues } from './issues.ts'
import { measureLog } from './log.ts'
import { measureMoments } from './moments.ts'
import { measureNodes } from './nodes.ts'
import { measureReads } from './reads.ts'
import { measureSealing } from './sealing.ts'
import type { ServerReady } from './server-process.ts'
import { printTable, type Row } from './table.ts'
import { measureUpgrade } from './upgrade.ts'
import { measureMerges, measurePosts } from './writes.ts'

/** The groups of rows that `--only` accepts. */
const GROUPS = [
  'get',
  'list',
  'create',
  'merge',
  'log',
  'upgrade',
  'memory',
  'issues',
  'clones',
  'history',
  'eventstore',
] as const
export type Group = (typeof GROUPS)[number]
/** Groups with a separate log. The other groups share one. */
const OWN_LOG: ReadonlySet<Group> = new Set(['issues', 'history', 'clones', 'eventstore'])

/** The amounts of data and work. */
export interface Sizes {
  /** Pull requests in each of the two repositories whose lists are read. */
  small: number
  large: number
  /** Repetitions of each measurement. The median counts. */
  rounds: number
  /** Duration of one measurement, in seconds. */
  seconds: number
  /** Repositories without pull requests: each gets one light PUT. */
  light: number
  /** Pull requests to open in a measurement, after the same number in a warm-up. */
  pullsToOpen: number
  merges: number
  /** Issues of the server with few issues, and of the one with many. */
  fewIssues: number
  manyIssues: number
  /** Repositories of each of these two servers. */
  repositories: number
  /** Issues to open. The first half is the warm-up, which compiles most of the server. */
  issuesToOpen: number
  /** Events of the pull request whose history is read and replayed. */
  historyEvents: number
  /** Pull requests and events of the repository that is read at past moments. */
  momentPulls: number
  momentEvents: number
  /** Pushes of the repository that is cloned. */
  pushes: number
}

const FULL: Sizes = {
  small: 1000,
  large: 100_000,
  rounds: 3,
  seconds: 2,
  light: 20_000,
  pullsToOpen: 300,
  merges: 25,
  fewIssues: 1000,
  manyIssues: 100_000,
  repositories: 1000,
  issuesToOpen: 18_000,
  historyEvents: 10_000,
  momentPulls: 3000,
  momentEvents: 100_000,
  pushes: 20_000,
}
const QUICK: Sizes = {
  small: 200,
  large: 2000,
  rounds: 3,
  seconds: 0.7,
  light: 2000,
  pullsToOpen: 300,
  merges: 7,
  fewIssues: 200,
  manyIssues: 5000,
  repositories: 100,
  issuesToOpen: 9000,
  historyEvents: 10_000,
  momentPulls: 300,
  momentEvents: 10_000,
  pushes: 3000,
}

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string' },
    nodes: { type: 'string', default: '1' },
  },
})
const named = options.only?.split(',').map((name) => name.trim())
const unknown = named?.filter((name) => !GROUPS.some((group) => group === name)) ?? []
if (unknown.length > 0) {
  console.error(`--only: ${unknown.join(', ')} is not one of ${GROUPS.join(', ')}`)
  process.exit(2)
}
const nodes = Number(options.nodes)
if (!Number.isInteger(nodes) || nodes < 1 || nodes > 9) {
  console.error('--nodes: must be a whole number from 1 to 9')
  process.exit(2)
}
const wanted: readonly Group[] = GROUPS.filter((group) => named?.includes(group) ?? true)

async function run(sizes: Sizes): Promise<Row[]> {
  const directory = await mkdtemp(join(tmpdir(), 'mergelog-bench-'))
  try {
    if (nodes > 1) return await measureNodes(join(directory, 'nodes'), sizes, nodes)
    const rows: Row[] = []
    if (wanted.some((group) => !OWN_LOG.has(group)))
      rows.push(...(await measurePulls(join(directory, 'pulls'), sizes)))
    if (wanted.includes('issues')) rows.push(...(await measureIssues(join(directory, 'issues'), sizes)))
    if (wanted.includes('history')) {
      rows.push(...(await measureHistory(join(directory, 'history'), sizes)))
      rows.push(...(await measureMoments(join(directory, 'moments'), sizes)))
    }
    if (wanted.includes('clones')) rows.push(...(await measureClones(join(directory, 'clones'), sizes)))
    if (wanted.includes('eventstore'))
      rows.push(...(await measureEventStore(join(directory, 'eventstore'), sizes)))
    return rows
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** All groups that need a long log of pull requests. */
async function measurePulls(dataDir: string, sizes: Sizes): Promise<Row[]> {
  const rows: Row[] = []
  const { environment, admin, logRows } = await measureLog(dataDir, sizes, wanted)
  if (wanted.includes('log')) {
    const sealing = await mkdtemp(join(dataDir, '..', 'sealing-'))
    rows.push(...logRows, ...(await measureSealing(sealing, sizes.small, sizes.rounds)))
  }

  const server = await startChild<ServerReady>('server', environment)
  await server.ask({ what: 'recovered' })
  const target = { server, dataDir, admin, sizes }
  if (wanted.includes('get') || wanted.includes('list')) rows.push(...(await measureReads(target, wanted)))
  if (wanted.includes('create')) rows.push(...(await measurePosts(target)))
  if (wanted.includes('merge')) rows.push(...(await measureMerges(target)))
  if (wanted.includes('upgrade')) rows.push(...(await measureUpgrade(target)))
  if (wanted.includes('memory')) {
    const { peak }: { peak: number } = await server.ask({ what: 'memory' })
    const measured = `${Math.round(peak)} MB`
    rows.push({
      work: 'peak resident memory of all this',
      measured,
      ceiling: '',
      ratio: undefined,
      goal: '< 250 MB',
      met: peak < 250,
    })
  }
  await server.stop()
  return rows
}

try {
  printTable(await run(options.quick ? QUICK : FULL))
} catch (error) {
  console.error('the measurement could not be finished:', error)
}
// After a failure, children may still run. They end when this process disconnects.
process.exit(0)
