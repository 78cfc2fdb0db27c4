/** The checkpoints of a MongoDB that several servers share: each has one server that moves it. */
import type { Collection } from 'mongodb'
import { DUPLICATE_KEY, unless } from './mongodb-errors.ts'
import { type HeldCheckpoint, LostHold, type SharedCheckpoints } from './read-store.ts'

/** The collection. Names of read models cannot contain a dot, so no read model can have this name. */
export const CHECKPOINTS = 'mergelog.checkpoints'

/** A checkpoint as it is stored. Versions for one server alone wrote no holder. */
export interface StoredCheckpoint {
  _id: string
  position: number
  version: number
  event?: string
  holder?: string
  stopped?: string
  wanted?: string
}

interface Calls {
  /** Runs a command. @throws StoreUnavailable when MongoDB cannot answer now */
  ask<T>(command: () => Promise<T>): Promise<T>
  /** The same for a read, which may be repeated. */
  read<T>(query: () => Promise<T>): Promise<T>
}

/** `limits`: the options of each read. */
export function sharedCheckpoints(
  checkpoints: Collection<StoredCheckpoint>,
  { ask, read }: Calls,
  limits: { maxTimeMS: number },
): SharedCheckpoints {
  /** Replaces a checkpoint of this holder (null: of nobody). Returns whether it was still held so. */
  async function replace(
    name: string,
    holder: string | null,
    after: HeldCheckpoint,
    upsert: boolean,
  ): Promise<boolean> {
    const { matchedCount, upsertedCount } = await ask(() =>
      checkpoints
        .replaceOne({ _id: name, holder: holder ?? { $exists: false } }, after, { upsert })
        // Somebody else holds it: the upsert found none without a holder.
        .catch(unless(DUPLICATE_KEY, { matchedCount: 0, upsertedCount: 0 })),
    )
    return matchedCount + upsertedCount === 1
  }

  return {
    async read(names) {
      const found = await read(() => checkpoints.find({ _id: { $in: [...names] } }, limits).toArray())
      return new Map(found.map(({ _id, ...checkpoint }) => [_id, checkpoint]))
    },
    take: (name, before, { position, version, event, holder }) => {
      const after = { position, version, holder, ...(event !== undefined && { event }) }
      return replace(name, before?.holder ?? null, after, before?.holder === undefined)
    },
    async move(moved, holder) {
      if (moved.size === 0) return
      const operations = [...moved].map(([_id, { position, version, event, stopped }]) => ({
        updateOne: {
          filter: { _id, holder },
          update: {
            $set: {
              position,
              version,
              ...(event !== undefined && { event }),
              ...(stopped !== undefined && { stopped }),
            },
          },
        },
      }))
      const { matchedCount } = await ask(() => checkpoints.bulkWrite(operations, { ordered: false }))
      if (matchedCount < moved.size) throw new LostHold([...moved.keys()])
    },
    async want(_id, wanted) {
      await ask(() => checkpoints.updateOne({ _id }, { $set: { wanted } }))
    },
    async remove(_id, { position, holder }) {
      const still = { _id, position, holder: holder ?? { $exists: false } }
      const { deletedCount } = await ask(() => checkpoints.deleteOne(still))
      return deletedCount === 1
    },
    async give(name, holder, to) {
      const held = await read(() => checkpoints.findOne({ _id: name, holder }, limits))
      if (held === null) return
      const { position, version, event, stopped } = held
      const after = {
        position,
        version,
        ...(event !== undefined && { event }),
        ...(stopped !== undefined && { stopped }),
        ...(to !== undefined && { holder: to }),
      }
      await replace(name, holder, after, false)
    },
  }
}
