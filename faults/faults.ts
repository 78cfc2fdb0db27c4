/**
 * `npm run faults [-- --rounds 5] [--seed N] [--stores embedded,doubles]`: kills a server under load again and again,
 * and checks each time that nothing is lost. Without real servers (`TEST_EVENTSTORE_URL`, `TEST_MONGODB_URL`) it uses
 * the embedded stores and then the test doubles, which it kills, too. The exit code is 1 when something is lost.
 */
import { randomInt } from 'node:crypto'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runFaults } from './run.ts'
import { doubles, embeddedStores, realServers, type Stores } from './stores.ts'

const KINDS = ['embedded', 'doubles']

function readOptions() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      seed: { type: 'string', default: `${randomInt(2 ** 31)}` },
      stores: { type: 'string', default: KINDS.join(',') },
    },
  })
  const number = (name: 'rounds' | 'seed', most: number) => {
    const value = Number(values[name])
    if (!Number.isInteger(value) || value < 1 || value > most) {
      throw new TypeError(`--${name}: must be a whole number from 1 to ${most}`)
    }
    return value
  }
  const stores = values.stores.split(',')
  const unknown = stores.find((name) => !KINDS.includes(name))
  if (unknown !== undefined) throw new TypeError(`--stores: ${unknown} is not one of ${KINDS.join(', ')}`)
  return { rounds: number('rounds', 10_000), seed: number('seed', 2 ** 32 - 1), stores }
}

/** The stores that are tried, one after the other. Each starts when its turn comes. */
function storesOf(wanted: readonly string[], run: string): ((directory: string) => Promise<Stores>)[] {
  const real = realServers(run)
  if (real !== undefined) return [async () => real]
  return wanted.map((kind) => (kind === 'doubles' ? doubles : async () => embeddedStores))
}

async function main(): Promise<number> {
  const { rounds, seed, stores } = readOptions()
  console.log(`seed ${seed}: the same faults come again with --seed ${seed}`)
  const run = `${seed}_${Date.now().toString(36)}`
  const directory = await mkdtemp(join(tmpdir(), 'mergelog-faults-'))
  let isLost = false
  for (const [i, start] of storesOf(stores, run).entries()) {
    const place = join(directory, `${i}`)
    await mkdir(place)
    const opened = await start(place)
    try {
      const name = `faults-${run}`
      const print = (line: string) => console.log(line)
      if (!(await runFaults({ stores: opened, directory: place, name, rounds, seed, print }))) isLost = true
    } finally {
      await opened.end()
    }
  }
  if (isLost) console.log(`the data and the output of all programs stay in ${directory}`)
  else await rm(directory, { recursive: true, force: true, maxRetries: 3 })
  return isLost ? 1 : 0
}

try {
  process.exit(await main())
} catch (error) {
  const isUsage = error instanceof TypeError
  console.error(isUsage ? error.message : error)
  process.exit(isUsage ? 2 : 1)
}
