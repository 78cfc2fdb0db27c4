/**
 * Turns that hold across nodes: `docs/architecture/nodes.md#turns-across-nodes`. A turn is a document in MongoDB with the
 * incarnation that has it. Work waits within its own node first; only the first in line asks for the turn.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { MongoServerError } from 'mongodb'
import { type RunExclusive, sharedFailures } from '../../concurrency/keyed-mutex.ts'
import { isOutage } from '../store/event-store.ts'
import { joinIfNeeded, type Nodes, type NodesDatabase, type NodesLog } from './nodes.ts'

export const NODE_LOCKS = 'mergelog.turns'

/** How long the first in line waits before it asks again, in milliseconds: longer each time. */
const FIRST_PAUSE_MS = 5
const LONGEST_PAUSE_MS = 100
/** How often a turn goes to the next one on this node before it is free for all. */
const MAX_PASSES = 8
/** How often a node looks for turns that it has and does not use, in milliseconds. */
const LOOK_MS = 2000
/** A read of this small collection that takes longer has failed. */
const READ = { maxTimeMS: 2000 }
const DUPLICATE_KEY = 11000

interface TurnDocument {
  _id: string
  /** An incarnation. When it is gone, the turn is free. */
  holder: string
  /** Whether another node has asked for it. */
  wanted?: boolean
}

interface Line {
  /** Ends when everyone in line until now has had their turn. It never rejects. */
  last: Promise<void>
  waiting: number
  /** The incarnation for which this node has the turn; undefined when it has not. */
  held: string | undefined
  passes: number
  /** On this node: who waits on another one asks the store by itself. */
  place: ReturnType<typeof sharedFailures>
}

export interface NodeMutex {
  /**
   * One at a time per key, on all nodes. The order is kept within a node.
   * @throws StoreUnavailable, and the work is not started, when this node is no member or the store does not answer
   */
  runExclusive: RunExclusive
  /**
   * Gives up the turns that this node has in the store, and that nothing on it uses. They are left by commands that failed
   * for this node: the store may not have carried out that a turn was given up, and may have carried out that one was
   * taken. Others would wait for them as long as this node lives. It never rejects.
   */
  releaseUnused(): Promise<void>
  /** Resolves when no turn is held or waited for. */
  idle(): Promise<void>
}

export interface NodeMutexOptions extends NodesDatabase {
  nodes: Pick<Nodes, 'self' | 'isMember' | 'confirm' | 'isGone' | 'all'>
  log: NodesLog
  /** Brings in order what a node that is gone may have left under this key. The turn is held meanwhile. */
  takeOver(key: string): Promise<void>
}

export function createNodeMutex({ database, ask, nodes, log, takeOver }: NodeMutexOptions): NodeMutex {
  const turns = database.collection<TurnDocument>(NODE_LOCKS)
  const lines = new Map<string, Line>()

  async function isInserted(key: string, holder: string): Promise<boolean> {
    try {
      await ask(() => turns.insertOne({ _id: key, holder }))
      return true
    } catch (error) {
      if (error instanceof MongoServerError && error.code === DUPLICATE_KEY) return false
      throw error
    }
  }

  /** Whether the turn can be taken from its holder: a node that is gone, or this one, which could not give it up. */
  async function isAbandoned(holder: string, self: string): Promise<boolean> {
    if (holder === self) return true
    return !nodes.all().some(({ id }) => id === holder) && (await nodes.isGone(holder))
  }

  async function takeFrom(key: string, before: string, self: string): Promise<boolean> {
    const exchange = async (from: string, to: string) => {
      const { matchedCount } = await ask(() => turns.replaceOne({ _id: key, holder: from }, { holder: to }))
      return matchedCount === 1
    }
    if (!(await exchange(before, self))) return false
    try {
      await takeOver(key)
    } catch (error) {
      // Whoever has the turn next must bring that in order. When this fails too, the turn is still ours: then we must.
      await exchange(self, before).catch(() => {})
      throw error
    }
    return true
  }

  /** Takes the turn for this node. Resolves to the incarnation that has it. */
  async function take(key: string): Promise<string> {
    let isFree = true
    for (let pause = FIRST_PAUSE_MS; ; ) {
      await joinIfNeeded(nodes)
      const { id } = nodes.self()
      if (isFree && (await isInserted(key, id))) return id
      const found = await ask(() => turns.findOneAndUpdate({ _id: key }, { $set: { wanted: true } }))
      isFree = found === null
      if (found === null) continue
      if ((await isAbandoned(found.holder, id)) && (await takeFrom(key, found.holder, id))) return id
      await delay(pause)
      pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)
    }
  }

  async function hold(key: string, line: Line): Promise<void> {
    await joinIfNeeded(nodes)
    if (line.held === nodes.self().id) return
    line.held = undefined
    line.passes = 0
    line.held = await take(key)
  }

  /** Leaves the turn to the next one on this node, or gives it up. */
  async function pass(key: string, line: Line): Promise<void> {
    const { held } = line
    if (held === undefined) return
    line.passes += 1
    if (line.waiting > 0 && line.passes < MAX_PASSES && held === nodes.self().id) return
    line.held = undefined
    const wanted = await free(key, held)
    // Who waits elsewhere asks again within this time.
    if (wanted && line.waiting > 0) await delay(2 * LONGEST_PAUSE_MS)
  }

  /** Whether another node wants the turn that is given up. */
  async function free(key: string, holder: string): Promise<boolean> {
    try {
      const freed = await ask(() => turns.findOneAndDelete({ _id: key, holder }))
      return freed?.wanted === true
    } catch (error) {
      log.warn({ err: error, key }, 'a turn could not be given up; it will be tried again')
      return false
    }
  }

  const runExclusive: RunExclusive = (key, work) => {
    const line: Line = lines.get(key) ?? {
      last: Promise.resolve(),
      waiting: 0,
      held: undefined,
      passes: 0,
      place: sharedFailures(isOutage),
    }
    lines.set(key, line)
    line.waiting += 1
    const placed = line.place(async () => {
      await hold(key, line)
      return work()
    })
    const mine = line.last.then(() => {
      line.waiting -= 1
      return placed()
    })
    // Whoever waits for this work does not wait until the turn is given up.
    const ended = mine
      .then(
        () => {},
        () => {},
      )
      .then(() => pass(key, line))
      .then(() => {
        if (line.last === ended) lines.delete(key)
      })
    line.last = ended
    return mine
  }

  return {
    runExclusive,
    async releaseUnused() {
      if (!nodes.isMember()) return
      const { id: holder } = nodes.self()
      try {
        const held = await ask(() => turns.find({ holder }, READ).toArray())
        const left = held.filter(({ _id }) => !lines.has(_id))
        // In line, because work that comes meanwhile takes such a turn, too; and what it was taken for is brought in order.
        await Promise.all(left.map(({ _id }) => runExclusive(_id, async () => {})))
      } catch (error) {
        log.warn({ err: error }, 'turns could not be given up; it will be tried again')
      }
    },
    async idle() {
      while (lines.size > 0) await Promise.all(lines.values().map(({ last }) => last))
    },
  }
}

/** The same, and gives up what is left until the signal aborts. */
export function startNodeMutex(options: NodeMutexOptions, signal: AbortSignal): NodeMutex {
  const nodeTurns = createNodeMutex(options)
  async function keepLooking(): Promise<void> {
    while (!signal.aborted) {
      await delay(LOOK_MS, undefined, { signal, ref: false }).catch(() => {})
      if (!signal.aborted) await nodeTurns.releaseUnused()
    }
  }
  void keepLooking()
  return nodeTurns
}
