/** Selects the comparable read models, and compares each with its replay. */
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import type { ReadModel } from '../../projections/projector/read-model.ts'
import type { ReadSnapshot, ReadStore } from '../../projections/store/read-store.ts'
import { compareDocuments, type DocumentDifference } from './compare.ts'
import type { Replay } from './replay.ts'
import { bare, type ReplayedDocuments } from './replayed-documents.ts'

/** The checkpoint position of each read model that this version has built. */
export async function targetsOf(
  models: readonly ReadModel[],
  store: Pick<ReadSnapshot, 'checkpoint'>,
): Promise<Map<ReadModel, Position>> {
  const targets = new Map<ReadModel, Position>()
  for (const model of models) {
    const checkpoint = await store.checkpoint(model.name)
    if (checkpoint?.version === model.version) targets.set(model, checkpoint.position)
  }
  return targets
}

/** Replays the log up to the snapshot. Leaves out read models that are being rebuilt. */
export async function comparable(
  models: readonly ReadModel[],
  snapshot: ReadSnapshot,
  replay: Replay,
): Promise<ReadModel[]> {
  const targets = await targetsOf(models, snapshot)
  const current = [...targets].filter(([model, position]) => position >= replay.position(model))
  await replay.readTo(LOG_START, new Map(current))
  return current.map(([model]) => model)
}

interface Sides {
  snapshot: ReadSnapshot
  readStore: ReadStore
  scratch: ReadStore
  documents: ReplayedDocuments
  replay: Replay
  signal: AbortSignal | undefined
}

/** The first difference between a read model's stored documents and its replayed ones. */
export async function compareModel(
  model: ReadModel,
  { snapshot, readStore, scratch, documents, replay, signal }: Sides,
  onCompared: (documents: number) => void,
): Promise<DocumentDifference | undefined> {
  const { collection } = model
  const { settled, kept } = documents.placesOf(collection)
  onCompared(settled.size)
  const comparison = { collection, stored: snapshot.range, replayed: scratch.range, settled, onCompared }
  const stopWhenAborted = async () => signal?.throwIfAborted()
  if (snapshot.isIsolated) {
    // The counts are equal and all replayed documents were found, so there are no extra ones.
    if (kept.size === 0 && settled.size === (await snapshot.count(collection))) return undefined
    return compareDocuments({ ...comparison, beforePage: stopWhenAborted })
  }
  const catchUp = async () => {
    await stopWhenAborted()
    await replay.readTo(LOG_START, await targetsOf([model], readStore))
  }
  return compareDocuments({
    ...comparison,
    beforePage: catchUp,
    async readAgain(id) {
      await catchUp()
      const stored = await readStore.getMany(bare(collection), [id])
      // While the server writes, the document may be ahead of the checkpoint.
      const ahead = new Map(stored.map(({ position }) => [model, position]))
      await replay.readTo(LOG_START, ahead)
      return { stored, replayed: await scratch.getMany(bare(collection), [id]) }
    },
  })
}

/** The number of replayed documents of these read models. */
export function documentsOf(models: readonly ReadModel[], documents: ReplayedDocuments): number {
  const places = models.map(({ collection }) => documents.placesOf(collection))
  return places.reduce((sum, { settled, kept }) => sum + settled.size + kept.size, 0)
}
