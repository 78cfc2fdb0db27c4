/**
 * A keyed mutex across nodes: `docs/architecture/nodes.md#locks-across-nodes`. A lock is a document in MongoDB with the
 * incarnation of its holder. Work queues within its node; only the first in the queue requests the lock from the store.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { MongoServerError } from 'mongodb'
import { type RunExclusive, sharedFailures } from '../../concurrency/keyed-mutex.ts'
import { isOutage } from '../store/event-store.ts'
import { joinIfNeeded, type Nodes, type NodesDatabase, type NodesLog } from './nodes.ts'

export const NODE_LOCKS = 'mergelog.turns'

/** Polling interval for a taken lock, in milliseconds; it grows up to LONGEST_PAUSE_MS. */
const FIRST_PAUSE_MS = 5
const LONGEST_PAUSE_MS = 100
/** Maximum number of times that a lock is passed on within this node before it is released. */
const MAX_PASSES = 8
/** Interval of checks for unused locks of this node, in milliseconds. */
const CHECK_MS = 2000
/** Time limit of a read of this small collection. */
const READ = { maxTimeMS: 2000 }
const DUPLICATE_KEY = 11000

interface LockDocument {
  _id: string
  /** The incarnation that holds the lock. When it is gone, the lock is free. */
  holder: string
  /** Whether another node waits for the lock. */
  wanted?: boolean
}

interface Queue {
  /** Resolves when all queued work has run. Never rejects. */
  last: Promise<void>
  waiting: number
  /** The incarnation for which this node holds the lock, if any. */
  held: string | undefined
  passes: number
  /** Shares failures within this node. */
  place: ReturnType<typeof sharedFailures>
}

export interface NodeMutex {
  /**
   * Runs one piece of work at a time per key, on all nodes. Keeps the order within a node.
   * @throws StoreUnavailable, without starting the work, when this node is not a member or the store does not answer
   */
  runExclusive: RunExclusive
  /**
   * Releases the locks that this node holds in the store and does not use: those of commands with an unknown outcome.
   * Other nodes would wait for them as long as this node lives. Never rejects.
   */
  releaseUnused(): Promise<void>
  /** Resolves when no lock is held or waited for. */
  idle(): Promise<void>
}

export interface NodeMutexOptions extends NodesDatabase {
  nodes: Pick<Nodes, 'self' | 'isMember' | 'confirm' | 'isGone' | 'all'>
  log: NodesLog
  /** Recovers the work that a dead node may have left under this key. The lock is held meanwhile. */
  takeOver(key: string): Promise<void>
}

export function createNodeMutex({ database, ask, nodes, log, takeOver }: NodeMutexOptions): NodeMutex {
  const locks = database.collection<LockDocument>(NODE_LOCKS)
  const queues = new Map<string, Queue>()

  async function isInserted(key: string, holder: string): Promise<boolean> {
    try {
      await ask(() => locks.insertOne({ _id: key, holder }))
      return true
    } catch (error) {
      if (error instanceof MongoServerError && error.code === DUPLICATE_KEY) return false
      throw error
    }
  }

  /** Whether the lock can be taken from its holder: a dead node, or this one after a failed release. */
  async function isAbandoned(holder: string, self: string): Promise<boolean> {
    if (holder === self) return true
    return !nodes.all().some(({ id }) => id === holder) && (await nodes.isGone(holder))
  }

  async function takeFrom(key: string, before: string, self: string): Promise<boolean> {
    const exchange = async (from: string, to: string) => {
      const { matchedCount } = await ask(() => locks.replaceOne({ _id: key, holder: from }, { holder: to }))
      return matchedCount === 1
    }
    if (!(await exchange(before, self))) return false
    try {
      await takeOver(key)
    } catch (error) {
      // The next holder must recover that work. If this write fails too, this node still holds the lock, and must.
      await exchange(self, before).catch(() => {})
      throw error
    }
    return true
  }

  /** Takes the lock for this node. Resolves to the incarnation that holds it. */
  async function take(key: string): Promise<string> {
    let isFree = true
    for (let pause = FIRST_PAUSE_MS; ; ) {
      await joinIfNeeded(nodes)
      const { id } = nodes.self()
      if (isFree && (await isInserted(key, id))) return id
      const found = await ask(() => locks.findOneAndUpdate({ _id: key }, { $set: { wanted: true } }))
      isFree = found === null
      if (found === null) continue
      if ((await isAbandoned(found.holder, id)) && (await takeFrom(key, found.holder, id))) return id
      await delay(pause)
      pause = Math.min(pause * 1.5, LONGEST_PAUSE_MS)
    }
  }

  async function hold(key: string, queue: Queue): Promise<void> {
    await joinIfNeeded(nodes)
    if (queue.held === nodes.self().id) return
    queue.held = undefined
    queue.passes = 0
    queue.held = await take(key)
  }

  /** Keeps the lock for the next work of this node, or releases it. */
  async function pass(key: string, queue: Queue): Promise<void> {
    const { held } = queue
    if (held === undefined) return
    queue.passes += 1
    if (queue.waiting > 0 && queue.passes < MAX_PASSES && held === nodes.self().id) return
    queue.held = undefined
    const wanted = await free(key, held)
    // Other nodes retry within this time.
    if (wanted && queue.waiting > 0) await delay(2 * LONGEST_PAUSE_MS)
  }

  /** Releases the lock. Returns whether another node waits for it. */
  async function free(key: string, holder: string): Promise<boolean> {
    try {
      const freed = await ask(() => locks.findOneAndDelete({ _id: key, holder }))
      return freed?.wanted === true
    } catch (error) {
      log.warn({ err: error, key }, 'a lock could not be released; this node retries')
      return false
    }
  }

  const runExclusive: RunExclusive = (key, work) => {
    const queue: Queue = queues.get(key) ?? {
      last: Promise.resolve(),
      waiting: 0,
      held: undefined,
      passes: 0,
      place: sharedFailures(isOutage),
    }
    queues.set(key, queue)
    queue.waiting += 1
    const placed = queue.place(async () => {
      await hold(key, queue)
      return work()
    })
    const mine = queue.last.then(() => {
      queue.waiting -= 1
      return placed()
    })
    // The caller does not wait for the release.
    const ended = mine
      .then(
        () => {},
        () => {},
      )
      .then(() => pass(key, queue))
      .then(() => {
        if (queue.last === ended) queues.delete(key)
      })
    queue.last = ended
    return mine
  }

  return {
    runExclusive,
    async releaseUnused() {
      if (!nodes.isMember()) return
      const { id: holder } = nodes.self()
      try {
        const held = await ask(() => locks.find({ holder }, READ).toArray())
        const left = held.filter(({ _id }) => !queues.has(_id))
        // Through the queue, because concurrent work may take such a lock, too; and this recovers its work.
        await Promise.all(left.map(({ _id }) => runExclusive(_id, async () => {})))
      } catch (error) {
        log.warn({ err: error }, 'locks could not be released; this node retries')
      }
    },
    async idle() {
      while (queues.size > 0) await Promise.all(queues.values().map(({ last }) => last))
    },
  }
}

/** Creates the mutex, and releases unused locks periodically until the signal aborts. */
export function startNodeMutex(options: NodeMutexOptions, signal: AbortSignal): NodeMutex {
  const nodeMutex = createNodeMutex(options)
  async function keepReleasing(): Promise<void> {
    while (!signal.aborted) {
      await delay(CHECK_MS, undefined, { signal, ref: false }).catch(() => {})
      if (!signal.aborted) await nodeMutex.releaseUnused()
    }
  }
  void keepReleasing()
  return nodeMutex
}
