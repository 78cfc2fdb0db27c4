/**
 * Read models in a store that several servers share. One server writes each model and holds the lease of its
 * checkpoint; the store rejects the checkpoint from other servers. The other servers follow: they read the checkpoints
 * and evict the documents that the events up to there have touched. Where events touch no document of a model,
 * followers advance without the checkpoint. So a server never caches older documents than the checkpoints that it has
 * read.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { nextRun } from '../../concurrency/coalesce.ts'
import type { Membership } from '../../events/nodes/nodes.ts'
import { LOG_START, type Position, StoreUnavailable } from '../../events/store/event-store.ts'
import type { ReadModel } from '../projector/read-model.ts'
import type { ReadBatch } from '../projector/readable-events.ts'
import {
  type Checkpoint,
  type LeasedCheckpoint,
  LeaseLost,
  type MovedCheckpoint,
  type SharedCheckpoints,
  type Touched,
} from '../store/read-store.ts'
import { createRecentBatches } from './recent-batches.ts'

/** Progress of a read model as this server knows it. */
export interface Progress {
  readonly model: ReadModel
  /** Last event that queries of this server show. */
  position: Position
  /** Event id as in a checkpoint, possibly of an earlier position. */
  event?: string
  stopped?: string
  /** End of the next batch that touches the model, if known. */
  touchedBy?: Position
  /** Position that another server has written; undefined while this server writes the model. */
  written?: Position
  /** Position where this server had to stop. A newer server may know the event. */
  refused?: Position
}

export interface Sharing {
  membership: Membership
  /** Evicts all documents of a collection. */
  forget(collection: string): void
}

/**
 * Time that a request waits for this server to catch up with the writes of other servers before it, in milliseconds. A
 * server that stays behind, or has lost its membership, refuses the request: the answer could lack acknowledged
 * changes.
 */
const CATCH_UP_MS = 5000
/** Pauses between two reads of the checkpoints while a request waits, in milliseconds. */
const PAUSES_MS = [0, 1, 2, 4, 8, 16]

export const isFollowed = ({ written }: Progress) => written !== undefined

export type SharedModels = ReturnType<typeof createSharedModels>

export function createSharedModels(
  progress: readonly Progress[],
  checkpoints: SharedCheckpoints,
  { membership, forget }: Sharing,
  /** Called with the documents that other servers have changed, and after each change of a position. */
  on: {
    touched(touched: readonly Touched[]): void
    moved(): void
    /**
     * The set of models that this server writes has changed: the events after their positions must be delivered again.
     */
    changed(): void
    /** This server has become another incarnation: call `take`. */
    anotherIncarnation(): Promise<void>
  },
) {
  const names = progress.map(({ model }) => model.name)
  const recent = createRecentBatches()
  let delivered: Position = LOG_START
  /** Incarnation that holds this server's leases. */
  let incarnation = membership.self().id
  const followed = () => progress.filter(isFollowed)
  const isSame = () => membership.self().id === incarnation

  /** Advances over events that touch no document: the documents stay the same, and the checkpoint follows later. */
  function passUntouched(p: Progress): void {
    if (p.stopped !== undefined || (p.touchedBy ?? LOG_START) > p.position) return
    const { upTo, touchedBy } = recent.untouched(p.model, p.position)
    p.position = upTo
    if (touchedBy === undefined) delete p.touchedBy
    else p.touchedBy = touchedBy
  }

  /** Evicts what other servers have written, up to the received events. */
  function forgetWritten(): void {
    const touched: Touched[] = []
    let hasMoved = false
    for (const p of followed()) {
      const { model, position, written = LOG_START } = p
      if (position < written && written <= delivered) {
        const own = recent.touched(model, position, written)
        if (own === undefined) forget(model.collection.name)
        else touched.push(...own)
        p.position = written
      }
      passUntouched(p)
      hasMoved ||= p.position > position
    }
    if (touched.length > 0) on.touched(touched)
    recent.trim(followed().reduce((least, { position }) => Math.min(least, position), delivered))
    if (hasMoved) on.moved()
  }

  function note(p: Progress, { position, stopped }: LeasedCheckpoint): void {
    p.written = Math.max(p.written ?? LOG_START, position)
    if (stopped === undefined) delete p.stopped
    else p.stopped = stopped
  }

  async function readCheckpoints(): Promise<void> {
    const stored = await checkpoints.read(names)
    for (const p of followed()) {
      const at = stored.get(p.model.name)
      if (at !== undefined) note(p, at)
    }
    forgetWritten()
  }

  /** Reads the checkpoints. The read begins after the call; concurrent calls share the next one. */
  const observe = nextRun(readCheckpoints)

  /** Follows the model from now on. */
  function follow(p: Progress, written: Position): void {
    p.written = Math.max(p.position, written)
    delete p.stopped
    // The cache may hold documents that this server failed to write.
    forget(p.model.collection.name)
  }

  /** Waits until this server shows all that other servers wrote before the call. */
  async function currentShared(): Promise<void> {
    const deadline = performance.now() + CATCH_UP_MS
    while (!membership.isMember()) {
      if (performance.now() > deadline) {
        throw new StoreUnavailable('this server lost its membership and is about to rejoin')
      }
      await delay(20)
    }
    // Another server may since write the models of the earlier incarnation.
    if (!isSame()) await on.anotherIncarnation()
    await observe()
    const behind = followed().filter(({ position, written = LOG_START }) => position < written)
    const wanted = behind.map((p) => [p, p.written ?? LOG_START] as const)
    const isThere = () => wanted.every(([p, written]) => !isFollowed(p) || p.position >= written)
    for (let i = 0; !isThere(); i++) {
      if (performance.now() > deadline) throw new StoreUnavailable('this server is behind the others')
      await delay(PAUSES_MS[i] ?? 20)
    }
  }

  return {
    observe,
    restart(after: Position): void {
      delivered = after
      recent.restart(after)
    },
    add(read: ReadBatch, last: Position): void {
      delivered = Math.max(delivered, last)
      if (followed().length === 0) recent.restart(last)
      else recent.add(read, last)
      forgetWritten()
    },
    /** Records the position up to which the log was read and all batches were added. */
    passed(position: Position): void {
      delivered = Math.max(delivered, position)
      forgetWritten()
    },
    /** Undefined when this server shows everything written before the call. */
    current(): Promise<void> | undefined {
      if (membership.isMember() && isSame() && followed().length === 0) return undefined
      return currentShared()
    },
    /**
     * Takes models whose lease has expired, and follows those that it has lost. `begin` returns the start position of a
     * model that this server writes from now on. A stopped model is released for a server that can continue. `forced`
     * is a model to take even where this server had to stop. After an error of the store, some models may have changed
     * hands.
     */
    async take(
      begin: (p: Progress, at: Checkpoint | undefined) => Promise<void>,
      forced?: string,
    ): Promise<void> {
      const { id } = membership.self()
      const gone = new Map<string, Promise<boolean>>()
      const isGone = (holder: string) => {
        const known = gone.get(holder) ?? membership.isGone(holder)
        gone.set(holder, known)
        return known
      }
      const stored = await checkpoints.read(names)
      let hasChanged = false
      const lose = (p: Progress) => {
        const at = stored.get(p.model.name)
        follow(p, at?.position ?? LOG_START)
        if (at !== undefined) note(p, at)
        hasChanged = true
      }
      // Before any call that may fail: no model may count as leased by this incarnation.
      if (!isSame()) for (const p of progress) if (!isFollowed(p)) lose(p)
      incarnation = id
      try {
        for (const p of progress) {
          const { name, version } = p.model
          const at = stored.get(name)
          const { holder, stopped, wanted } = at ?? {}
          const isOurs = holder === id
          const hasStopped = stopped !== undefined && p.stopped !== undefined
          if (at !== undefined && isOurs && !isFollowed(p) && hasStopped) p.refused = at.position
          const isForced = forced === name
          const mayContinue = isForced || stopped === undefined || p.refused !== at?.position
          const isWanted = !isForced && wanted !== undefined && wanted !== id && !(await isGone(wanted))
          const isToRelease = isOurs && (isWanted || !mayContinue)
          if (isOurs && !isFollowed(p) && !isToRelease) continue
          // Before the release: if that fails, the owner is unknown.
          if (!isFollowed(p)) lose(p)
          if (isToRelease) await checkpoints.release(name, id, isWanted ? wanted : undefined)
          const isFree =
            !isToRelease && mayContinue && (holder === undefined || isOurs || (await isGone(holder)))
          const after = {
            position: at?.position ?? LOG_START,
            version: at?.version ?? version,
            holder: id,
            ...(at?.event !== undefined && { event: at.event }),
          }
          if (!membership.isMember() || !isFree || !(await checkpoints.take(name, at, after))) continue
          await begin(p, at)
          hasChanged = true
          delete p.written
          delete p.stopped
          // This server may have missed the last writes of the lease holder.
          forget(p.model.collection.name)
        }
      } finally {
        if (hasChanged) on.changed()
      }
    },
    /** Moves checkpoints of models that this server writes. @throws LeaseLost */
    move(moved: ReadonlyMap<string, MovedCheckpoint>): Promise<void> {
      return checkpoints.move(moved, incarnation)
    },
    /**
     * Call it before a write of documents. A suspended server may still write later: documents keep the later position,
     * so newer writes of other servers win.
     * @throws LeaseLost when others may have taken the models
     */
    requireMember(): void {
      if (!membership.isMember() || !isSame()) throw new LeaseLost(names)
    },
    /** Asks the lease holder to release a model. */
    request: ({ model }: Progress) => checkpoints.request(model.name, membership.self().id),
    /** Releases this server's leases, so that another server can take them at once. */
    async releaseAll(): Promise<void> {
      for (const p of progress) if (!isFollowed(p)) await checkpoints.release(p.model.name, incarnation)
    },
  }
}
