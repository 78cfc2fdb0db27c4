/** Which read models can be compared, and each one's stored documents beside those that the log gives. */
import { LOG_START, type Position } from '../events/event-store.ts'
import type { ReadModel } from '../projections/read-model.ts'
import type { ReadSnapshot, ReadStore } from '../projections/read-store.ts'
import { compareDocuments, type DocumentDifference } from './compare.ts'
import type { Replay } from './replay.ts'
import { bare, type ReplayedDocuments } from './replayed-documents.ts'

/** Where each read model that this version has made stands. */
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

/** Brings the replay to where the snapshot is. One that is being made anew meanwhile can't be compared. */
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

/** The first difference between a read model's stored documents and the replayed ones, if any. */
export async function compareModel(
  model: ReadModel,
  { snapshot, readStore, scratch, documents, replay, signal }: Sides,
  onCompared: (documents: number) => void,
): Promise<DocumentDifference | undefined> {
  const { collection } = model
  const { settled, kept } = documents.placesOf(collection)
  onCompared(settled.size)
  const comparison = { collection, stored: snapshot.range, replayed: scratch.range, settled, onCompared }
  const turn = async () => signal?.throwIfAborted()
  if (snapshot.isIsolated) {
    // Then nothing is stored that should not be, either.
    if (kept.size === 0 && settled.size === (await snapshot.count(collection))) return undefined
    return compareDocuments({ ...comparison, before: turn })
  }
  const catchUp = async () => {
    await turn()
    await replay.readTo(LOG_START, await targetsOf([model], readStore))
  }
  return compareDocuments({
    ...comparison,
    before: catchUp,
    async again(id) {
      await catchUp()
      const stored = await readStore.getMany(bare(collection), [id])
      // It may be ahead of the checkpoint, and of the next one, for as long as somebody writes.
      const ahead = new Map(stored.map(({ position }) => [model, position]))
      await replay.readTo(LOG_START, ahead)
      return { stored, replayed: await scratch.getMany(bare(collection), [id]) }
    },
  })
}

/** How many documents the replay gave these read models. */
export function documentsOf(models: readonly ReadModel[], documents: ReplayedDocuments): number {
  const places = models.map(({ collection }) => documents.placesOf(collection))
  return places.reduce((sum, { settled, kept }) => sum + settled.size + kept.size, 0)
}
