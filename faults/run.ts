/** Rounds of faults on one kind of stores: load, a fault at a random moment, and checks. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { NODE_ARGS, program } from '../test/program.ts'
import { until } from '../test/until.ts'
import { problemsOf } from './checks.ts'
import { connect } from './client.ts'
import { type Kind, type Ledger, newLedger, repeatUnanswered, unanswered, work } from './load.ts'
import { type Running, startProgram } from './programs.ts'
import { type Random, randomOf } from './random.ts'
import type { Killable, Stores } from './stores.ts'

const ADMIN_PASSWORD = 'the password of all faults'

/** How long the load goes on before a fault, and how long a store stays away, at most, in milliseconds. */
const MAX_LOAD_MS = 2000
const MAX_AWAY_MS = 2500

/** How long a server may take, which may have much to do on a busy machine, in milliseconds. */
const PATIENCE_MS = 180_000

/** What is killed in a round. */
interface Fault {
  server: boolean
  store: Killable | undefined
  /** The load runs until the server has acknowledged a new one of these, and then so many milliseconds. */
  after: Kind
  afterMs: number
  awayMs: number
}

/** Chosen before the round, so that a seed repeats all faults, whatever the timing of the machine. */
function chooseFault(random: Random, { killable }: Stores): Fault {
  const store = random.oneOf<Killable | undefined>(undefined, ...killable)
  return {
    store,
    server: store === undefined || random.between(1, 3) === 1,
    after: random.oneOf<Kind>('issues', 'pushes', 'pulls', 'merges'),
    afterMs: random.between(0, MAX_LOAD_MS),
    awayMs: random.between(0, MAX_AWAY_MS),
  }
}

const ONE: Record<Kind, string> = {
  issues: 'an issue',
  pushes: 'a push',
  pulls: 'a pull request',
  merges: 'a merge',
}

const inWords = ({ server, store, after, afterMs, awayMs }: Fault) =>
  `killed ${[server ? ['the server'] : [], store?.name ?? []].flat().join(' and ')}, ${afterMs} ms after ${ONE[after]}` +
  (store === undefined ? '' : `, back after ${awayMs} ms`)

/** What the load added, in words: "12 issues, 3 pushes, …". */
function added(before: Record<string, number>, after: Record<string, number>): string {
  return Object.entries(after)
    .map(([name, count]) => `${count - (before[name] ?? 0)} ${name}`)
    .join(', ')
}

const amounts = ({ issues, pushes, pulls, merges }: Ledger) => ({
  issues: issues.size,
  pushes: pushes.size,
  'pull requests': pulls.size,
  merges: merges.size,
})

/** Runs the rounds and prints a line for each. Resolves to false when something was lost: then the rest is left out. */
export async function runFaults(options: {
  stores: Stores
  /** For the server's data and for logs. */
  directory: string
  /** Of the repository. */
  name: string
  rounds: number
  seed: number
  print: (line: string) => void
}): Promise<boolean> {
  const { stores, directory, name, rounds, seed, print } = options
  const random = randomOf(seed)
  const environment = {
    ...stores.environment,
    DATA_DIR: join(directory, 'data'),
    ADMIN_PASSWORD,
    PORT: '0',
    GRPC_PORT: '0',
    LOG_LEVEL: 'info',
  }
  const startServer = () =>
    startProgram('src/main', [], environment, join(directory, 'server.log'), /listens on (http:\S+)/)

  let server = await startServer()
  await healthy(server, server.ready)
  if (stores.isShared) await requireSound(environment, 'before the first fault')
  const client = await connect(server.ready, ADMIN_PASSWORD, name, directory)
  const ledger = newLedger()

  /** Applies one fault under load. Resolves when the server is healthy again and all is checked. */
  async function round(fault: Fault): Promise<string> {
    const before = amounts(ledger)
    const stopping = new AbortController()
    const working = work(client, ledger, stopping.signal)
    try {
      const seconds = await applyUnderLoad(fault, async () => {
        stopping.abort()
        await working
      })
      stopping.abort()
      await working
      const [open, acks] = [unanswered(ledger), added(before, amounts(ledger))]
      await repeatUnanswered(client, ledger)
      const problems = await problemsOf(client, ledger)
      if (problems.length > 0) throw new Error(problems.join('; '))
      await requireSound(environment, 'after the fault')
      return `${acks} acknowledged, ${open} repeated; nothing lost, sound; healthy after ${seconds} s`
    } finally {
      stopping.abort()
    }
  }

  /**
   * Kills, and starts again. `endLoad` is called before a new server starts, which has another port. Resolves to the
   * seconds until the server is healthy, counted from when the stores are back.
   */
  async function applyUnderLoad(
    { server: isServer, store, after, afterMs, awayMs }: Fault,
    endLoad: () => Promise<void>,
  ): Promise<string> {
    const before = ledger[after].size
    // A merge is needed once, because some checks say nothing without one.
    await until(
      `the server has acknowledged ${ONE[after]}`,
      () => ledger[after].size > before && ledger.merges.size > 0,
      PATIENCE_MS,
    )
    await delay(afterMs)
    await Promise.all([isServer && server.kill(), store?.kill()])
    if (isServer) await endLoad()
    if (store !== undefined) {
      await delay(awayMs)
      await store.start()
    }
    const since = performance.now()
    if (isServer) {
      server = await startServer()
      client.url = server.ready
    }
    await healthy(server, client.url)
    return ((performance.now() - since) / 1000).toFixed(1)
  }

  try {
    for (let i = 1; i <= rounds; i++) {
      const fault = chooseFault(random, stores)
      const line = `${stores.name}, round ${i} of ${rounds}: ${inWords(fault)}: `
      try {
        print(line + (await round(fault)))
      } catch (error) {
        print(`${line}FAILED: ${error instanceof Error ? error.message : error}`)
        return false
      }
    }
    return true
  } finally {
    await server.kill()
  }
}

/** Waits until the server is healthy. @throws Error when it ends, or is not healthy in time */
async function healthy(server: Running, url: string): Promise<void> {
  await until(
    'the server is healthy',
    async () => {
      if (server.hasEnded()) throw new Error('the server ended by itself')
      const answer = await fetch(`${url}/healthz`).catch(() => undefined)
      await answer?.text()
      return answer?.status === 200
    },
    PATIENCE_MS,
  )
}

/** Runs `mergelog verify` beside the server. @throws Error with the first difference */
async function requireSound(environment: Record<string, string>, when: string): Promise<void> {
  const args = [...NODE_ARGS, program('src/cli/mergelog'), 'verify']
  const env = { PATH: process.env.PATH, ...environment }
  try {
    await promisify(execFile)(process.execPath, args, { env })
  } catch (error) {
    const output = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : error
    throw new Error(`verify ${when}: ${output}`)
  }
}
