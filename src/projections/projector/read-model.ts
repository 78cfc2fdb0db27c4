/** A read model is one collection of documents. Each document is folded from the events that touch it. */
import { setImmediate as nextIteration } from 'node:timers/promises'
import type { DomainEvent, Envelope, Recorded } from '../../events/domain-events.ts'
import { type EventType, type Handlers, handle, handledBy, type RecordedOf } from '../../events/handlers.ts'
import type { Position, RecordedEvent } from '../../events/store/event-store.ts'
import { orphanIdsOf, removesOrphans } from '../models/repositories/orphaned-documents.ts'
import type { AnyCollection, Change, Collection, ReadStore, Stored, Touched } from '../store/read-store.ts'

/** Computes the documents of a read model from events. Pure. */
export interface Fold<D extends object> {
  collection: Collection<D>
  /** Increase it when the fold changes: the next start then rebuilds all documents from the log. */
  version: number
  /** Whether the model handles events of this type. It stops at an unreadable one. */
  handles(event: { type: string }): boolean
  /** Returns the ids of the documents that the event touches; empty when it touches none. */
  touches(event: Recorded<DomainEvent>): readonly string[]
  /**
   * Whether the event replaces each touched document regardless of the earlier version, which is then not read. Default
   * false.
   */
  begins?(event: { type: string }): boolean
  /** Whether, in addition, none of these documents can exist before the event. */
  creates?(event: { type: string }): boolean
  /** Returns the next version of a touched document; undefined when it does not exist or is deleted. */
  evolve(document: D | undefined, event: Recorded<DomainEvent>, id: string): D | undefined
}

type DocumentHandlers<T extends EventType, Before, After> = Handlers<T, Before, After, Envelope, [id: string]>

/** A fold as maps from event type to handler. An event without a handler touches no document. */
export interface FoldParts<D extends object, Becoming extends EventType, Changing extends EventType>
  extends Pick<Collection<NoInfer<D>>, 'name'>,
    Partial<Pick<Collection<NoInfer<D>>, 'indexes' | 'arrays' | 'partOf' | 'wordsIn'>> {
  version: number
  /** For numerous documents of a repository: they stay after its deletion until events remove them in batches. */
  staysUntilRemoved?: true
  /** The ids of the documents that the event touches. */
  ids(event: RecordedOf<Becoming | Changing>): readonly string[]
  /** Handlers that return the whole next document, new or not; undefined deletes it. */
  becomes: DocumentHandlers<Becoming, NoInfer<D> | undefined, NoInfer<D> | undefined>
  /** Events whose handlers in `becomes` ignore the earlier document and never delete it. */
  begins?: readonly NoInfer<Becoming>[]
  /** Events of `begins` before which the document cannot exist. */
  creates?: readonly NoInfer<Becoming>[]
  /** Handlers that return the changed fields of an existing document. Without a document the event does nothing. */
  changes?: DocumentHandlers<Changing, NoInfer<D>, Partial<NoInfer<D>>>
  /** Fields that every event in `changes` sets, unless its own handler returns another value. */
  onEveryChange?(event: Envelope): Partial<NoInfer<D>>
  /** Computes fields from other fields, after every event in `changes`. */
  derived?(document: NoInfer<D>): Partial<NoInfer<D>>
}

const NONE: readonly string[] = []

/** Time after which folding yields to requests, in milliseconds. */
const SLICE_MS = 5

/** Makes a fold from handlers by event type. */
export function foldOf<D extends object, Becoming extends EventType, Changing extends EventType = never>(
  parts: FoldParts<D, Becoming, Changing>,
): Fold<D> {
  const { name, indexes = [], arrays = [], partOf, wordsIn, version, becomes, changes } = parts
  const isBecoming = handledBy<Becoming, Envelope>(becomes)
  const isChanging = handledBy<Changing, Envelope>(changes)
  const isOwn = (event: { type: string }): event is RecordedOf<Becoming | Changing> =>
    isBecoming(event) || isChanging(event)
  const beginning: ReadonlySet<string> = new Set(parts.begins)
  const creating: ReadonlySet<string> = new Set(parts.creates)
  const { staysUntilRemoved = false } = parts
  return {
    collection: { name, indexes, arrays, ...(partOf && { partOf }), ...(wordsIn && { wordsIn }) },
    version,
    handles: (event) => isOwn(event) || (staysUntilRemoved && removesOrphans(event)),
    begins: ({ type }) => beginning.has(type),
    creates: ({ type }) => creating.has(type),
    touches(event: { type: string }) {
      if (isOwn(event)) return parts.ids(event)
      return staysUntilRemoved && removesOrphans(event) ? orphanIdsOf(name, event) : NONE
    },
    evolve(document, event: { type: string }, id) {
      if (isBecoming(event)) return updatedLater(document, handle(becomes, document, event, id))
      if (staysUntilRemoved && removesOrphans(event)) return undefined
      if (document === undefined || changes === undefined || !isChanging(event)) return document
      const changed = handle(changes, document, event, id)
      const next: D = { ...document, ...parts.onEveryChange?.(event), ...changed }
      if (parts.derived !== undefined) Object.assign(next, parts.derived(next))
      return updatedLater(document, next)
    },
  }
}

/**
 * Returns the next document. `updatedAt` never decreases, even after a clock change, because clients poll from the
 * latest one.
 */
function updatedLater<D extends object & { updatedAt?: unknown }>(
  before: D | undefined,
  next: D | undefined,
) {
  if (before === undefined || next === undefined) return next
  const { updatedAt: earliest } = before
  const { updatedAt: time } = next
  if (typeof earliest !== 'string' || typeof time !== 'string' || earliest <= time) return next
  return Object.assign({}, next, { updatedAt: earliest })
}

/** The result of folding a batch of events. */
export interface Advance {
  changes: Change[]
  /**
   * All documents that the events touch, also those that already hold the events (from another node, or before an
   * outage of the store), because a cached copy may be older.
   */
  touched: Touched[]
  /** The event that could not be folded, if any. `changes` has only those before it. */
  poison?: Poison
}

/** An event that a read model cannot read or fold, and why. */
export interface Poison {
  event: RecordedEvent
  error: unknown
}

/** A fold that is ready to run on a store. */
export interface ReadModel<C extends AnyCollection = AnyCollection> {
  readonly name: string
  readonly version: number
  readonly collection: C
  /** Whether the model handles events of this type. */
  handles(event: { type: string }): boolean
  /** Returns the documents that events touch; undefined when the fold throws. */
  touched(events: readonly Recorded<DomainEvent>[]): Touched[] | undefined
  /**
   * Folds a batch of events onto the stored documents. Stops before an event at which the fold throws. `mayRepeat`: the
   * documents may already hold some of the events.
   */
  advance(
    events: readonly Recorded<DomainEvent>[],
    store: Pick<ReadStore, 'getMany'>,
    mayRepeat?: boolean,
  ): Promise<Advance>
}

/** Makes the read model of a fold. */
export function readModel<D extends object>(fold: Fold<D>): ReadModel<Collection<D>> {
  const { collection, version } = fold
  return {
    name: collection.name,
    version,
    collection,
    handles: fold.handles,
    touched(events) {
      try {
        return events.flatMap((event) => fold.touches(event).map((id) => ({ collection, id })))
      } catch {
        return undefined
      }
    },
    async advance(events, store, mayRepeat = true) {
      const touched: { event: Recorded<DomainEvent>; ids: readonly string[] }[] = []
      const ids = new Set<string>()
      /** Documents whose first event of the batch does not begin them. */
      const before: string[] = []
      /** The known stored documents; null for missing ones. */
      const replaced = new Map<string, object | null>()
      let poison: Poison | undefined
      for (const event of events) {
        let own: readonly string[]
        try {
          own = fold.touches(event)
        } catch (error) {
          poison = { event, error }
          break
        }
        if (own.length === 0) continue
        touched.push({ event, ids: own })
        const isBeginning = fold.begins?.(event) === true
        const isNew = isBeginning && !mayRepeat && fold.creates?.(event) === true
        for (const id of own) {
          if (ids.has(id)) continue
          ids.add(id)
          if (!isBeginning) before.push(id)
          if (!isBeginning || isNew) replaced.set(id, null)
        }
      }
      const documents = new Map<string, Stored<D>>()
      if (before.length > 0) {
        for (const stored of await store.getMany(collection, before)) {
          documents.set(stored.id, stored)
          replaced.set(stored.id, stored.body)
        }
      }
      const bodies = new Map<string, { position: Position; body: D | undefined }>()
      const advanced = () => ({
        changes: [...bodies].map(([id, { position, body }]): Change => {
          if (body === undefined) return { op: 'delete', collection, id, position }
          const replaces = replaced.get(id)
          return { op: 'put', collection, id, position, body, ...(replaces !== undefined && { replaces }) }
        }),
        touched: [...ids].map((id): Touched => {
          const body = bodies.get(id)?.body
          return body === undefined ? { collection, id } : { collection, id, body }
        }),
      })
      let sliceStart = performance.now()
      for (const { event, ids } of touched) {
        if (performance.now() - sliceStart > SLICE_MS) {
          await nextIteration()
          sliceStart = performance.now()
        }
        try {
          const next = ids.map((id) => {
            const current = bodies.get(id) ?? documents.get(id)
            // A repeated delivery after a crash: the document already holds the event.
            if (current !== undefined && current.position >= event.position) return undefined
            return { id, body: fold.evolve(current?.body, event, id) }
          })
          for (const change of next) {
            if (change !== undefined) bodies.set(change.id, { position: event.position, body: change.body })
          }
        } catch (error) {
          return { ...advanced(), poison: { event, error } }
        }
      }
      return { ...advanced(), ...(poison && { poison }) }
    },
  }
}
