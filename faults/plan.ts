/** The faults of a run, chosen before it begins, so that a seed repeats them on any machine. */
import type { Kind } from './ledger.ts'
import type { Point } from './points.ts'
import { type Random, randomOf } from './random.ts'

/** Maximum duration of the load before a fault, in milliseconds. */
const MAX_LOAD_MS = 2000
/** Maximum time until a killed process restarts, in milliseconds. */
const MAX_DOWN_MS = 2500
/** Duration of a stop, in milliseconds: other nodes evict a node after 6 s, so both cases occur. */
const STOP_MS = [1000, 10_000] as const

/** The moment of a fault: this many milliseconds after a server has acknowledged a new one of these. */
interface Moment {
  after: Kind
  afterMs: number
  /** Duration of the fault, in milliseconds. */
  forMs: number
}

/** `server` is the index of a node, `store` the index of a store. */
export type Fault = Moment &
  (
    | { how: 'kill'; server: number | undefined; store: number | undefined }
    /** Killed right after a step of a saga: the first node that reaches it. `store` is stopped during the recovery. */
    | { how: 'point'; point: Point; store: number | undefined }
    | { how: 'stop'; server: number | undefined; store: number | undefined }
    /** Asked to end (SIGTERM). */
    | { how: 'end'; server: number }
  )

export interface PlanOptions {
  seed: number
  rounds: number
  nodes: number
  /** Number of stores that may be killed and stopped. */
  stores: number
  /** The named points, which alternate with random moments. */
  points: readonly Point[]
}

/** Every second round kills at a named point. Each point is used once, in random order, before any repeats. */
export function planOf({ seed, rounds, nodes, stores, points }: PlanOptions): Fault[] {
  const random = randomOf(seed)
  let waiting: Point[] = []
  return Array.from({ length: rounds }, (_, i): Fault => {
    const moment = momentOf(random)
    const fault = atRandom(random, nodes, stores)
    if (waiting.length === 0) waiting = random.shuffled(points)
    const point = i % 2 === 1 ? waiting.pop() : undefined
    const store = stores > 0 && random.isOneIn(2) ? random.between(0, stores - 1) : undefined
    return point === undefined ? { ...moment, ...fault } : { ...moment, how: 'point', point, store }
  })
}

const momentOf = (random: Random): Moment => ({
  after: random.oneOf<Kind>('issues', 'comments', 'pushes', 'pulls', 'merges'),
  afterMs: random.between(0, MAX_LOAD_MS),
  forMs: random.between(0, MAX_DOWN_MS),
})

/** A single node is only killed: no other node could detect that it is frozen, and another test ends it. */
function atRandom(random: Random, nodes: number, stores: number) {
  const server = random.between(0, nodes - 1)
  const store = stores > 0 && random.isOneIn(2) ? random.between(0, stores - 1) : undefined
  const both = random.isOneIn(3)
  const stopMs = random.between(...STOP_MS)
  const how = nodes === 1 ? 'kill' : random.oneOf('kill', 'stop', 'end')
  const target = store === undefined ? { server, store } : { server: both ? server : undefined, store }
  if (how === 'stop') return { how, ...target, forMs: stopMs } as const
  if (how === 'end') return { how, server } as const
  return { how: 'kill', ...target } as const
}

const ONE: Record<Kind, string> = {
  issues: 'an issue',
  comments: 'a comment',
  pushes: 'a push',
  pulls: 'a pull request',
  merges: 'a merge',
}

/** Describes a fault: "killed the server, 120 ms after a push". */
export function inWords(fault: Fault, nodes: number, stores: readonly string[]): string {
  const { after, afterMs, forMs } = fault
  const when = `${afterMs} ms after ${ONE[after]}`
  if (fault.how === 'point') {
    const { saga, step } = fault.point
    const who = nodes === 1 ? 'the server' : 'a node'
    const goes =
      fault.store === undefined ? '' : `, and ${stores[fault.store]} while it recovered for ${forMs} ms`
    return `killed ${who} when ${step} (${saga}), from ${when}${goes}`
  }
  const server = fault.server === undefined ? [] : nodes === 1 ? ['the server'] : [`node ${fault.server + 1}`]
  const store = fault.how !== 'end' && fault.store !== undefined ? [stores[fault.store] ?? ''] : []
  const what = [...server, ...store].join(' and ')
  const done = { kill: 'killed', stop: 'stopped', end: 'ended' }[fault.how]
  // A single server restarts immediately, and needs its store for that.
  const lasts = nodes > 1 || store.length > 0
  return `${done} ${what}, ${when}${lasts ? `, back after ${forMs} ms` : ''}`
}
