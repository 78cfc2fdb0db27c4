/** Rounds of faults on one kind of stores: load, a fault, and checks at every node. */
import { execFile } from 'node:child_process'
import { access, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { PROGRAM_ENVIRONMENT, program } from '../test/program.ts'
import { until } from '../test/until.ts'
import { problemsOf } from './checks.ts'
import { type Client, connect } from './client.ts'
import { type Follower, follow } from './followers.ts'
import { amounts, type Ledger, newLedger } from './ledger.ts'
import { makeLoad } from './load.ts'
import { type Node, startNodes } from './nodes.ts'
import { type Fault, inWords } from './plan.ts'
import type { Point } from './points.ts'
import { startProxy } from './proxy.ts'
import { packRefs } from './refs-to-pack.ts'
import type { Killable, Stores } from './stores.ts'

const ADMIN_PASSWORD = 'the password of all faults'

/** Timeout for a server on a busy machine, in milliseconds. */
const TIMEOUT_MS = 180_000
/** Duration of the load after a fault, in milliseconds. */
const AFTERWARDS_MS = 500
/** Number of followed live histories. */
const FOLLOWERS = 2
/** Number of printed problems. */
const MAX_PRINTED = 12

export interface Run {
  stores: Stores
  /** Directory of the servers' data and logs. */
  directory: string
  /** The name of the repository. */
  name: string
  nodes: number
  /** The fault of each round. */
  plan: readonly Fault[]
  /** Time after which no further round begins, in seconds. */
  seconds: number
  /** The seed of the clients' work. */
  seed: number
  print: (line: string) => void
}

/** Runs the rounds and prints a line for each. Resolves to false at the first loss, and skips the rest. */
export async function runFaults(run: Run): Promise<boolean> {
  const { stores, directory, name, plan, seconds, seed, print } = run
  const rounds = plan.length
  const end = performance.now() + seconds * 1000
  const proxy = await startProxy(run.nodes)
  const pointFile = join(directory, 'point')
  const environment = {
    ...stores.environment,
    DATA_DIR: join(directory, 'data'),
    ADMIN_PASSWORD,
    PORT: '0',
    GRPC_PORT: '0',
    PUBLIC_URL: proxy.url,
    TRUST_PROXY: 'loopback',
    LOG_LEVEL: 'info',
    FAULTS_POINT: pointFile,
  }
  const nodes = await startNodes(run.nodes, environment, directory, proxy)
  const followers: Follower[] = []
  const everyNode = async (what: (node: Node) => Promise<void>) => void (await Promise.all(nodes.map(what)))
  try {
    await everyNode((node) => node.healthy())
    if (stores.isShared) await requireSound(environment, 'before the first fault')
    const client = await connect(proxy.url, ADMIN_PASSWORD, name, directory)
    const ledger = newLedger()
    const load = makeLoad({ client, ledger, password: ADMIN_PASSWORD, seed })
    for (let i = 0; i < FOLLOWERS; i++) followers.push(follow(client))

    /** Applies one fault under load. Resolves when all nodes are healthy again and all is checked. */
    async function round(fault: Fault): Promise<string> {
      const before = amounts(ledger)
      const { repeated, looks, lagging } = ledger
      const stopping = new AbortController()
      const working = load.work(stopping.signal)
      const pauses = measurePauses(ledger)
      let healthy = ''
      try {
        const count = ledger[fault.after].size
        // Some checks need a merge.
        await until(
          'the server has acknowledged the first things',
          () => ledger[fault.after].size > count && ledger.merges.size > 0,
          TIMEOUT_MS,
        )
        await delay(fault.afterMs)
        await apply(fault, client)
        const since = performance.now()
        await everyNode((node) => node.healthy())
        healthy = ((performance.now() - since) / 1000).toFixed(1)
        await delay(AFTERWARDS_MS)
      } finally {
        stopping.abort()
        await working
      }
      const pause = pauses.stop()
      const problems = [...ledger.problems]
      ledger.problems.clear()
      problems.push(...(await unfinished(client, ledger)))
      for (const [i, node] of nodes.entries()) {
        const found = await problemsOf(client.at(node.url()), ledger, ADMIN_PASSWORD)
        problems.push(...found.map((problem) => (nodes.length === 1 ? problem : `node ${i + 1}: ${problem}`)))
      }
      problems.push(...(await unseen(client)))
      if (problems.length > 0) throw new Error(named(problems))
      await requireSound(environment, 'after the fault')
      const done = added(before, amounts(ledger))
      const read = `${ledger.looks - looks} reads after writes${lagging < ledger.lagging ? ` (${ledger.lagging - lagging} lagging)` : ''}`
      return `${done} acknowledged, ${ledger.repeated - repeated} repeated, ${read}, longest pause ${pause} s; nothing lost, sound; healthy after ${healthy} s`
    }

    async function apply(fault: Fault, { request }: Client): Promise<void> {
      if (fault.how === 'point') {
        const goes = fault.store === undefined ? undefined : stores.killable[fault.store]
        return reach(fault.point, fault.forMs, request, goes)
      }
      const node = fault.server === undefined ? undefined : nodes[fault.server]
      const store =
        fault.how === 'end' || fault.store === undefined ? undefined : stores.killable[fault.store]
      if (fault.how === 'stop') {
        for (const one of [node, store]) one?.freeze()
        await delay(fault.forMs)
        for (const one of [node, store]) one?.thaw()
        return
      }
      await Promise.all([fault.how === 'end' ? node?.end() : node?.kill(), store?.kill()])
      // A single server restarts immediately.
      if (nodes.length > 1 || store !== undefined) await delay(fault.forMs)
      await store?.start()
      await node?.start()
    }

    /**
     * Waits until a node has reached the point, where it is killed, and restarts it. `store` is stopped during the
     * recovery.
     */
    async function reach(
      { saga, step, effect }: Point,
      forMs: number,
      request: Client['request'],
      store: Killable | undefined,
    ): Promise<void> {
      await writeFile(pointFile, effect.source)
      const isReached = async () => (await access(`${pointFile}.reached`).catch(() => false)) === undefined
      await until(
        `${step} (${saga})`,
        async () => {
          if (saga === 'rebuild') await request('POST', '/admin/rebuild', { body: { models: ['labels'] } })
          if (saga === 'packing') await packRefs(client, environment.DATA_DIR)
          return isReached()
        },
        TIMEOUT_MS,
      )
      await until('the node is dead', () => nodes.some((node) => node.hasEnded()), TIMEOUT_MS)
      await rm(`${pointFile}.reached`)
      if (nodes.length > 1) await delay(forMs)
      for (const node of nodes) if (node.hasEnded()) await node.start()
      // Interrupted work is recovered by the time the server listens.
      await store?.kill()
      if (store !== undefined) await delay(forMs)
      await store?.start()
    }

    /** Waits for the followers. Returns the events that they have missed or seen twice. */
    async function unseen(client: Client): Promise<string[]> {
      const wanted = (await client.history()).map(({ id }) => String(id))
      const problems: string[] = []
      for (const [i, { seen }] of followers.entries()) {
        const isSame = () => seen.length === wanted.length && seen.every((id, at) => id === wanted[at])
        const isOver = () => seen.length > wanted.length
        await until('a follower has seen all', () => isSame() || isOver(), TIMEOUT_MS).catch(() => {})
        if (isSame()) continue
        const missing = wanted.filter((id) => !seen.includes(id)).length
        const twice = seen.length - new Set(seen).size
        problems.push(
          `follower ${i + 1} lacks ${missing} of ${wanted.length} events, and has ${twice} twice, or another order`,
        )
      }
      return problems
    }

    let done = 0
    for (const [i, fault] of plan.entries()) {
      if (performance.now() > end) break
      const what = inWords(
        fault,
        nodes.length,
        stores.killable.map((store) => store.name),
      )
      const line = `${stores.name}, round ${i + 1} of ${rounds}: ${what}: `
      try {
        print(line + (await round(fault)))
      } catch (error) {
        print(`${line}FAILED: ${error instanceof Error ? error.message : error}`)
        return false
      }
      done += 1
    }
    if (done < rounds) print(`${stores.name}: the time is over after ${done} of ${rounds} rounds`)
    return true
  } finally {
    for (const follower of followers) await follower.stop()
    await everyNode((node) => node.kill())
    await proxy.close()
  }
}

/** Waits for work that follows an acknowledgement: scheduled merges, and branches that a merge deletes. */
async function unfinished(client: Client, ledger: Ledger): Promise<string[]> {
  const waiting = new Set(ledger.schedules)
  await until(
    'scheduled merges are done',
    async () => {
      for (const number of waiting) {
        const answer = await client.request('GET', `${client.path}/pulls/${number}`)
        if (answer?.text.includes('"merged":true')) waiting.delete(number)
      }
      return waiting.size === 0
    },
    TIMEOUT_MS,
  ).catch(() => {})
  const isDeleted = async () => {
    const branches = await client.branches()
    return [...ledger.deletedBranches].every((branch) => !branches.has(branch))
  }
  // The checks report the remaining ones.
  await until('branches are deleted', isDeleted, TIMEOUT_MS).catch(() => {})
  return [...waiting].map((number) => `pull request #${number} was not merged when its checks had succeeded`)
}

/** Describes the growth of the load: "12 issues, 3 pushes, …". */
function added(before: Record<string, number>, after: Record<string, number>): string {
  return Object.entries(after)
    .map(([name, count]) => `${count - (before[name] ?? 0)} ${name}`)
    .join(', ')
}

function named(problems: readonly string[]): string {
  const remaining = problems.length - MAX_PRINTED
  return problems.slice(0, MAX_PRINTED).join('; ') + (remaining > 0 ? `; and ${remaining} more` : '')
}

/** Measures the longest time without an acknowledgement. `stop` returns it in seconds. */
function measurePauses(ledger: Ledger): { stop(): string } {
  const count = () => Object.values(amounts(ledger)).reduce((sum, one) => sum + one, 0)
  let [last, at, longest] = [count(), performance.now(), 0]
  const look = () => {
    const now = performance.now()
    longest = Math.max(longest, now - at)
    if (count() === last) return
    last = count()
    at = now
  }
  const timer = setInterval(look, 50)
  return {
    stop() {
      clearInterval(timer)
      return (longest / 1000).toFixed(1)
    },
  }
}

/** Runs `mergelog verify` beside the server. @throws Error with the first difference */
async function requireSound(environment: Record<string, string>, when: string): Promise<void> {
  const args = [program('src/cli/mergelog'), 'verify']
  const env = { ...PROGRAM_ENVIRONMENT, ...environment }
  try {
    await promisify(execFile)(process.execPath, args, { env })
  } catch (error) {
    const output = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : error
    throw new Error(`verify ${when}: ${output}`)
  }
}
