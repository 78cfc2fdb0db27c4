/**
 * Pull requests whose test merge is left to a worker because it takes long. This is work of the installation, so it is
 * kept beside the read models. When it is lost, the next move of a branch tests the merge again; a requested merge is
 * tried in any case.
 */

import { createKeyedMutex } from '../../concurrency/keyed-mutex.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import type { Position } from '../../events/store/event-store.ts'
import type { Collection, ReadStore } from '../store/read-store.ts'

/** The pull requests into one repository. */
export interface LateMerges {
  id: string
  repoId: number
  /** Actor of the event, whose scheduling share pays for the work. */
  actor: AccountRef | null
  /** Whether to test them one at a time, because a batch took too long. */
  alone: boolean
  pulls: readonly LatePull[]
}

export interface LatePull {
  index: number
  /** The event after which to test it. */
  position: Position
}

const collection: Collection<LateMerges> = { name: 'late_merges', indexes: [], arrays: [] }
/** These documents need no position: each write reads the document first, and only this code writes it. */
const NO_POSITION = 0

/** Opens the records of a store. Call `prepare` first. */
export function openLateMerges(store: ReadStore) {
  const runExclusive = createKeyedMutex()

  async function get(repoId: number): Promise<LateMerges | undefined> {
    const [found] = await store.getMany(collection, [`${repoId}`])
    return found?.body
  }

  /** Changes the record of a repository. A record without pull requests is removed. */
  function change(
    repoId: number,
    next: (before: LateMerges | undefined) => LateMerges | undefined,
  ): Promise<void> {
    return runExclusive(`${repoId}`, async () => {
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
    all: (): Promise<LateMerges[]> => store.find(collection, {}),

    /** Adds pull requests to test, also those that are being tested. */
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

    /** Records that a batch took too long. */
    separate: (repoId: number): Promise<void> =>
      change(repoId, (before) => before && { ...before, alone: true }),

    /** Removes tested pull requests. One that was added again meanwhile stays. */
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

    forget: (repoId: number): Promise<void> => change(repoId, () => undefined),
  }
}
