/**
 * `npm run faults [-- --rounds 6] [--seconds 3600] [--seed N] [--nodes 1] [--stores embedded,doubles] [--points
 * push,merge]`: repeatedly kills a server under load, at random moments and between any two steps of its work, and
 * checks each time that no data is lost. `--nodes 3` does this to three servers that share their data behind a proxy,
 * and also freezes and ends them. Without real servers (`TEST_EVENTSTORE_URL`, `TEST_MONGODB_URL`) it uses the embedded
 * stores and then the test doubles, which it also kills. The exit code is 1 when data is lost.
 */
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Options, readOptions } from './options.ts'
import { planOf } from './plan.ts'
import { runFaults } from './run.ts'
import { doubles, embeddedStores, realServers, type Stores, sharedStores } from './stores.ts'

/** The stores, used one after the other. Each starts when it is needed. */
function storesOf(
  wanted: readonly string[],
  run: string,
  nodes: number,
): ((directory: string) => Promise<Stores>)[] {
  if (nodes > 1) return [(directory) => sharedStores(directory, run)]
  const real = realServers(run)
  if (real !== undefined) return [async () => real]
  return wanted.map((kind) => (kind === 'doubles' ? doubles : async () => embeddedStores))
}

async function main({ stores, ...options }: Options): Promise<number> {
  const { seed, nodes } = options
  console.log(`seed ${seed}: --seed ${seed} repeats the same faults and the same work`)
  const run = `${seed}_${Date.now().toString(36)}`
  const directory = await mkdtemp(join(tmpdir(), 'mergelog-faults-'))
  let isLost = false
  for (const [i, start] of storesOf(stores, run, nodes).entries()) {
    const subdirectory = join(directory, `${i}`)
    await mkdir(subdirectory)
    const opened = await start(subdirectory)
    try {
      const name = `faults-${run}`.replace('_', '-')
      const plan = planOf({ ...options, stores: opened.killable.length })
      const print = (line: string) => console.log(line)
      if (!(await runFaults({ ...options, stores: opened, directory: subdirectory, name, plan, print })))
        isLost = true
    } finally {
      await opened.end()
    }
  }
  if (isLost) console.log(`the data and the output of all programs stay in ${directory}`)
  else await rm(directory, { recursive: true, force: true, maxRetries: 3 })
  return isLost ? 1 : 0
}

/** Parses the options. Reports a wrong one in one line. */
function options(): Options {
  try {
    return readOptions(process.argv.slice(2))
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    process.exit(2)
  }
}

try {
  process.exit(await main(options()))
} catch (error) {
  console.error(error)
  process.exit(1)
}
