/**
 * Pull requests whose merge takes long to try: the process leaves them to a worker. They are work of this installation and
 * not of the log, so they are no events and no read model: they are kept beside them. When they are lost, the next move of
 * a branch tries their merge again; a merge that somebody asks for is tried in any case.
 */

import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { Position } from '../../events/store/event-store.ts'
import type { Collection, ReadStore } from '../store/read-store.ts'

/** The pull requests into one repository. */
export interface LateMerges {
  /** The id of the base repository. */
  id: string
  repoId: number
  /** Whose event it was: its share of the work pays for it. */
  actor: AccountRef | null
  /** Whether they are tried one at a time, because some together took too long. */
  alone: boolean
  pulls: readonly LatePull[]
}

export interface LatePull {
  index: number
  /** The event after which it is to be tried. */
  position: Position
}

const collection: Collection<LateMerges> = { name: 'late_merges', indexes: [], arrays: [] }
/** What these documents replace is read first, and nobody else writes them. */
const NO_POSITION = 0

/** Opens the notes of a store. `prepare` must be called before anything else. */
export function openLateMerges(store: ReadStore) {
  const inTurn = createKeyedMutex()

  async function get(repoId: number): Promise<LateMerges | undefined> {
    const [found] = await store.getMany(collection, [`${repoId}`])
    return found?.body
  }

  /** Changes the note of a repository. One without pull requests is removed. */
  function change(
    repoId: number,
    next: (before: LateMerges | undefined) => LateMerges | undefined,
  ): Promise<void> {
    return inTurn(`${repoId}`, async () => {
      const body = next(await get(repoId))
      const id = `${repoId}`
      const isOver = body === undefined || body.pulls.length === 0
      await store.apply(
        [
          isOver
            ? { op: 'delete', collection, id }
            : { op: 'put', collection, id, position: NO_POSITION, body },
        ],
        new Map(),
      )
    })
  }

  return {
    prepare: () => store.prepare([collection]),
    get,
    /** All notes. They are few. */
    all: (): Promise<LateMerges[]> => store.find(collection, {}),

    /** Notes pull requests that are to be tried, also those that are being tried. */
    add(
      { repoId, actor }: Pick<LateMerges, 'repoId' | 'actor'>,
      indexes: readonly number[],
      position: Position,
    ): Promise<void> {
      const added = new Set(indexes)
      return change(repoId, (before) => ({
        id: `${repoId}`,
        repoId,
        actor,
        alone: before?.alone ?? false,
        pulls: [
          ...(before?.pulls ?? []).filter(({ index }) => !added.has(index)),
          ...[...added].map((index) => ({ index, position })),
        ],
      }))
    },

    /** Says that some together took too long. */
    separate: (repoId: number): Promise<void> =>
      change(repoId, (before) => before && { ...before, alone: true }),

    /** Removes those that were tried. One that was noted again meanwhile stays. */
    remove: (repoId: number, tried: readonly LatePull[]): Promise<void> =>
      change(
        repoId,
        (before) =>
          before && {
            ...before,
            pulls: before.pulls.filter(
              (pull) => !tried.some((one) => one.index === pull.index && one.position === pull.position),
            ),
          },
      ),

    /** Removes all of a repository. */
    forget: (repoId: number): Promise<void> => change(repoId, () => undefined),
  }
}
