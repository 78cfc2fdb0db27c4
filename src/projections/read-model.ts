/** A read model: one collection of documents, each the fold of the events that touch it. */
import type { DomainEvent, Envelope, Recorded } from '../events/domain-events.ts'
import type { Position } from '../events/event-store.ts'
import { type EventType, type Handlers, handledBy, type RecordedOf } from '../events/handlers.ts'
import type { AnyCollection, Change, Collection, ReadStore, Stored, Touched } from './read-store.ts'

/** What a read model is made of. Pure: knows events and documents, no store. */
export interface Fold<D extends object> {
  collection: Collection<D>
  /** Raise it when the fold changes: the next start then makes the documents anew. */
  version: number
  /** Ids of the documents that the event touches; none when it does not concern this model. */
  touches(event: Recorded<DomainEvent>): readonly string[]
  /** The next version of one touched document; undefined when there is none (any more). */
  evolve(document: D | undefined, event: Recorded<DomainEvent>, id: string): D | undefined
}

type DocumentHandlers<T extends EventType, Before, After> = Handlers<T, Before, After, Envelope, [id: string]>

/** A fold by types of events: a type that has no handler touches no document. */
export interface FoldParts<D extends object, Becoming extends EventType, Changing extends EventType> {
  collection: Collection<D>
  version: number
  ids(event: RecordedOf<Becoming | Changing>): readonly string[]
  /** Makes the document, whether there was one or not; undefined when there is none any more. */
  becomes: DocumentHandlers<Becoming, NoInfer<D> | undefined, NoInfer<D> | undefined>
  /** Of a document that is there, the fields that the event changes. */
  changes?: DocumentHandlers<Changing, NoInfer<D>, Partial<NoInfer<D>>>
  /** What every change changes; `changes` may say otherwise. */
  onEveryChange?(event: Envelope): Partial<NoInfer<D>>
  /** Fields that follow from others, as these are after a change. */
  derived?(document: NoInfer<D>): Partial<NoInfer<D>>
}

const NONE: readonly string[] = []

export function foldOf<D extends object, Becoming extends EventType, Changing extends EventType = never>(
  parts: FoldParts<D, Becoming, Changing>,
): Fold<D> {
  const { collection, version, becomes, changes } = parts
  const isBecoming = handledBy<Becoming, Envelope>(becomes)
  const isChanging = handledBy<Changing, Envelope>(changes)
  const isOwn = (event: { type: string }): event is RecordedOf<Becoming | Changing> =>
    isBecoming(event) || isChanging(event)
  return {
    collection,
    version,
    touches: (event: { type: string }) => (isOwn(event) ? parts.ids(event) : NONE),
    evolve(document, event: { type: string }, id) {
      if (isBecoming(event)) return handleFor(becomes, document, event, id)
      if (document === undefined || changes === undefined || !isChanging(event)) return document
      const changed = handleFor(changes, document, event, id)
      const next: D = { ...document, ...parts.onEveryChange?.(event), ...changed }
      return parts.derived === undefined ? next : Object.assign(next, parts.derived(next))
    },
  }
}

function handleFor<T extends EventType, Before, After>(
  handlers: DocumentHandlers<T, Before, After>,
  before: Before,
  event: RecordedOf<T>,
  id: string,
): After {
  const { type }: { type: T } = event
  return handlers[type](before, event, id)
}

/** What a batch of events changes, and the event that could not be folded, if any. */
export interface Advance {
  changes: Change[]
  /**
   * All documents that the events concern, those too that hold them already: another node has written them, or
   * this one did before it lost the store. Whoever remembers such a document remembers an older one.
   */
  touched: Touched[]
  poison?: { event: Recorded<DomainEvent>; error: unknown }
}

/** A fold ready to run, whatever its documents are. */
export interface ReadModel<C extends AnyCollection = AnyCollection> {
  readonly name: string
  readonly version: number
  readonly collection: C
  /** Folds a batch onto the stored documents. Stops before an event that throws. */
  advance(events: readonly Recorded<DomainEvent>[], store: Pick<ReadStore, 'getMany'>): Promise<Advance>
}

export function readModel<D extends object>(fold: Fold<D>): ReadModel<Collection<D>> {
  const { collection, version } = fold
  return {
    name: collection.name,
    version,
    collection,
    async advance(events, store) {
      const touched: { event: Recorded<DomainEvent>; ids: readonly string[] }[] = []
      const ids = new Set<string>()
      // Most events concern few models, and each model sees all of them.
      for (const event of events) {
        const own = fold.touches(event)
        if (own.length === 0) continue
        touched.push({ event, ids: own })
        for (const id of own) ids.add(id)
      }
      const all = [...ids].map((id) => ({ collection, id }))
      const documents = new Map<string, Stored<D>>()
      if (ids.size > 0) {
        for (const stored of await store.getMany(collection, [...ids])) documents.set(stored.id, stored)
      }
      const bodies = new Map<string, { position: Position; body: D | undefined }>()
      for (const { event, ids } of touched) {
        try {
          const next = ids.map((id) => {
            const current = bodies.get(id) ?? documents.get(id)
            // Delivered again after a crash: the document holds this event already.
            if (current !== undefined && current.position >= event.position) return undefined
            return { id, body: fold.evolve(current?.body, event, id) }
          })
          for (const change of next) {
            if (change !== undefined) bodies.set(change.id, { position: event.position, body: change.body })
          }
        } catch (error) {
          return { changes: toChanges(collection, bodies), touched: all, poison: { event, error } }
        }
      }
      return { changes: toChanges(collection, bodies), touched: all }
    },
  }
}

function toChanges<D extends object>(
  collection: AnyCollection,
  bodies: ReadonlyMap<string, { position: Position; body: D | undefined }>,
): Change[] {
  return [...bodies].map(([id, { position, body }]) =>
    body === undefined ? { op: 'delete', collection, id } : { op: 'put', collection, id, position, body },
  )
}
