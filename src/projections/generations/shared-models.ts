/**
 * Read models in a store that several servers share. Each model has one server that writes it, its holder: the
 * checkpoint names it, and the store takes the checkpoint from no other. The other servers follow: they read the
 * checkpoints, and forget the documents that events up to there have touched. Where the next events touch no document of
 * a model, they go on without the checkpoint: its holder writes it later. So what a server remembers is never older
 * than the checkpoints that it has read last.
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

/** How far a read model is, as this server knows it. */
export interface Progress {
  readonly model: ReadModel
  /** The last event that queries of this server show. */
  position: Position
  /** As in a checkpoint. It may be of an earlier position. */
  event?: string
  stopped?: string
  /** The end of a batch after the position that touches the model, if one is known. */
  touchedBy?: Position
  /** How far another server has written the model; undefined while this server writes it. */
  written?: Position
  /** Where this server could not go on. Another one may be able to: it may be newer, and know the event. */
  refused?: Position
}

export interface Sharing {
  membership: Membership
  /** Forgets all documents of a collection. */
  forget(collection: string): void
}

/**
 * How long a request waits for this server to come as far as the others had written when it came. A server that is
 * further behind, or that the others have taken for gone, refuses it: the answer could lack what they have acknowledged.
 */
const MOST_BEHIND_MS = 5000
/** Pauses between two looks at the checkpoints while somebody waits for them. */
const PAUSES_MS = [0, 1, 2, 4, 8, 16]

export const isFollowed = ({ written }: Progress) => written !== undefined

export type SharedModels = ReturnType<typeof createSharedModels>

export function createSharedModels(
  progress: readonly Progress[],
  checkpoints: SharedCheckpoints,
  { membership, forget }: Sharing,
  /** Called with the documents that others have changed, and after each change of a position. */
  on: {
    touched(touched: readonly Touched[]): void
    moved(): void
    /** What this server writes has changed: the events after the models' positions must come again. */
    changed(): void
    /** This server goes on as another incarnation: `take` is to be called. */
    anotherIncarnation(): Promise<void>
  },
) {
  const names = progress.map(({ model }) => model.name)
  const recent = createRecentBatches()
  let delivered: Position = LOG_START
  /** The incarnation for which this server holds what it holds. */
  let incarnation = membership.self().id
  const followed = () => progress.filter(isFollowed)
  const isSame = () => membership.self().id === incarnation

  /**
   * What touches nothing needs no writer: its checkpoint follows later, and this server knows from the fold that the
   * documents are the same there.
   */
  function passUntouched(p: Progress): void {
    if (p.stopped !== undefined || (p.touchedBy ?? LOG_START) > p.position) return
    const { upTo, touchedBy } = recent.untouched(p.model, p.position)
    p.position = upTo
    if (touchedBy === undefined) delete p.touchedBy
    else p.touchedBy = touchedBy
  }

  /** Forgets what others have written, up to where the events have come. */
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

  async function look(): Promise<void> {
    const stored = await checkpoints.read(names)
    for (const p of followed()) {
      const at = stored.get(p.model.name)
      if (at !== undefined) note(p, at)
    }
    forgetWritten()
  }

  /** Looks at the checkpoints. The look begins after the call: all who call during one share the next. */
  const observe = nextRun(look)

  /** From now on this server follows the model. */
  function follow(p: Progress, written: Position): void {
    p.written = Math.max(p.position, written)
    delete p.stopped
    // It may remember what it could not write.
    forget(p.model.collection.name)
  }

  /** Waits until this server shows what others had written when it was called. */
  async function currentShared(): Promise<void> {
    const deadline = performance.now() + MOST_BEHIND_MS
    while (!membership.isMember()) {
      if (performance.now() > deadline) {
        throw new StoreUnavailable('the other servers have taken this one for gone; it is about to come back')
      }
      await delay(20)
    }
    // What it wrote before, another server may write since.
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
    /** The events after this position come next. */
    restart(after: Position): void {
      delivered = after
      recent.restart(after)
    },
    /** A batch has come. */
    add(read: ReadBatch, last: Position): void {
      delivered = Math.max(delivered, last)
      if (followed().length === 0) recent.restart(last)
      else recent.add(read, last)
      forgetWritten()
    },
    /** The log was read up to here; what came last has been added. */
    passed(position: Position): void {
      delivered = Math.max(delivered, position)
      forgetWritten()
    },
    /** Undefined when this server shows all that was written before the call. */
    current(): Promise<void> | undefined {
      if (membership.isMember() && isSame() && followed().length === 0) return undefined
      return currentShared()
    },
    /**
     * Looks for models whose holder is gone and takes them; follows those that it has lost. `begin` gives a model that
     * this server writes from now on its position. A model that has stopped is given up, for a server that can go on.
     * `forced`: a model that is taken even where this server could not go on. When a call of the store fails, some models
     * may have changed hands before.
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
      // All at once: when a call of the store fails below, no model may count as held by this incarnation.
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
          const mayGoOn = isForced || stopped === undefined || p.refused !== at?.position
          const isWanted = !isForced && wanted !== undefined && wanted !== id && !(await isGone(wanted))
          const isToGive = isOurs && (isWanted || !mayGoOn)
          if (isOurs && !isFollowed(p) && !isToGive) continue
          // Before it is given: if that fails, another server may have it or not.
          if (!isFollowed(p)) lose(p)
          if (isToGive) await checkpoints.give(name, id, isWanted ? wanted : undefined)
          const isFree = !isToGive && mayGoOn && (holder === undefined || isOurs || (await isGone(holder)))
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
          // What the holder has written last was perhaps not noticed here.
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
     * To be asked before documents are written. A server that was stopped between this and the write may still write
     * late: documents keep the later position, so it changes nothing that others have written since.
     * @throws LeaseLost when others may have taken the models
     */
    requireMember(): void {
      if (!membership.isMember() || !isSame()) throw new LeaseLost(names)
    },
    /** Asks who writes a model for it. */
    want: ({ model }: Progress) => checkpoints.want(model.name, membership.self().id),
    /** Gives up what this server writes, so that another one need not wait to take it. */
    async giveUp(): Promise<void> {
      for (const p of progress) if (!isFollowed(p)) await checkpoints.give(p.model.name, incarnation)
    },
  }
}
