/** The checkpoints of a MongoDB that several servers share: one server moves each. */
import type { Collection } from 'mongodb'
import { LeaseLost, type SharedCheckpoints } from '../read-store.ts'
import { DUPLICATE_KEY, unless } from './errors.ts'

/** The collection. Names of read models cannot contain a dot, so no read model can have this name. */
export const CHECKPOINTS = 'mergelog.checkpoints'

/** A checkpoint as it is stored. */
export interface StoredCheckpoint {
  _id: string
  position: number
  version: number
  event?: string
  holder?: string
  stopped?: string
  wanted?: string
}

const WITHOUT_HOLDER = { $unset: { holder: '', wanted: '' } } as const

interface Calls {
  /** Runs a command. @throws StoreUnavailable */
  ask<T>(command: () => Promise<T>): Promise<T>
  /** Runs a read, which may be repeated. @throws StoreUnavailable */
  read<T>(query: () => Promise<T>): Promise<T>
}

/** `limits`: the options of each read. */
export function sharedCheckpoints(
  checkpoints: Collection<StoredCheckpoint>,
  { ask, read }: Calls,
  limits: { maxTimeMS: number },
): SharedCheckpoints {
  return {
    async read(names) {
      const found = await read(() => checkpoints.find({ _id: { $in: [...names] } }, limits).toArray())
      return new Map(found.map(({ _id, ...checkpoint }) => [_id, checkpoint]))
    },
    async take(_id, before, { position, version, event, holder }) {
      const after = { position, version, holder, ...(event !== undefined && { event }) }
      if (before === undefined) {
        const make = () => checkpoints.insertOne({ _id, ...after }).then(() => true)
        return ask(() => make().catch(unless(DUPLICATE_KEY, false)))
      }
      // At the position that was read: an expired holder may have moved the checkpoint since.
      const still = { _id, holder: before.holder ?? { $exists: false }, position: before.position }
      const { matchedCount } = await ask(() => checkpoints.replaceOne(still, after))
      return matchedCount === 1
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
      if (matchedCount < moved.size) throw new LeaseLost([...moved.keys()])
    },
    async request(_id, wanted) {
      await ask(() => checkpoints.updateOne({ _id }, { $set: { wanted } }))
    },
    async remove(_id, { position, holder }) {
      const still = { _id, position, holder: holder ?? { $exists: false } }
      const { deletedCount } = await ask(() => checkpoints.deleteOne(still))
      return deletedCount === 1
    },
    async release(_id, holder, to) {
      const given =
        to === undefined ? WITHOUT_HOLDER : { $set: { holder: to }, $unset: { wanted: '' } as const }
      await ask(() => checkpoints.updateOne({ _id, holder }, given))
    },
  }
}
