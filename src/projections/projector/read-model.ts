/** A read model is one collection of documents. Each document is folded from the events that touch it. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { DomainEvent, Envelope, Recorded } from '../../events/domain-events.ts'
import { type EventType, type Handlers, handle, handledBy, type RecordedOf } from '../../events/handlers.ts'
import type { Position, RecordedEvent } from '../../events/store/event-store.ts'
import { orphanIdsOf, removesOrphans } from '../models/repositories/orphaned-documents.ts'
import type { AnyCollection, Change, Collection, ReadStore, Stored, Touched } from '../store/read-store.ts'

/** Computes the documents of a read model from events. Pure: it knows events and documents, but no store. */
export interface Fold<D extends object> {
  collection: Collection<D>
  /** Raise it when the fold changes: then the next start makes all documents again from the log. */
  version: number
  /** Whether events of this type can concern this model. If one of them cannot be read, the model has to stop. */
  handles(event: { type: string }): boolean
  /** The ids of the documents that the event touches; none when it does not concern this model. */
  touches(event: Recorded<DomainEvent>): readonly string[]
  /**
   * Whether the next version of each document that the event touches does not depend on the one before. Such a document
   * is not read: the store keeps a later version anyway. Without it, none is like that.
   */
  begins?(event: { type: string }): boolean
  /** Whether, beside that, none of these documents can exist before the event. */
  creates?(event: { type: string }): boolean
  /** The next version of one touched document; undefined when it does not exist or is deleted. */
  evolve(document: D | undefined, event: Recorded<DomainEvent>, id: string): D | undefined
}

type DocumentHandlers<T extends EventType, Before, After> = Handlers<T, Before, After, Envelope, [id: string]>

/** A fold as maps from event type to handler. An event without a handler touches no document. */
export interface FoldParts<D extends object, Becoming extends EventType, Changing extends EventType>
  extends Pick<Collection<NoInfer<D>>, 'name'>,
    Partial<Pick<Collection<NoInfer<D>>, 'indexes' | 'arrays' | 'partOf' | 'wordsIn'>> {
  version: number
  /**
   * For documents of which a repository may have many: they stay when it is deleted, until events name them, some at a time.
   */
  staysUntilRemoved?: true
  /** The ids of the documents that the event touches. */
  ids(event: RecordedOf<Becoming | Changing>): readonly string[]
  /**
   * Handlers that return the whole next document, whether there was one before or not. They return undefined to delete
   * it.
   */
  becomes: DocumentHandlers<Becoming, NoInfer<D> | undefined, NoInfer<D> | undefined>
  /** Events whose handlers in `becomes` do not look at the document before, and never delete it. */
  begins?: readonly NoInfer<Becoming>[]
  /** Those of them before which the document cannot exist. */
  creates?: readonly NoInfer<Becoming>[]
  /** Handlers that return the changed fields of an existing document. Without a document the event does nothing. */
  changes?: DocumentHandlers<Changing, NoInfer<D>, Partial<NoInfer<D>>>
  /** Fields that every event in `changes` sets, unless its own handler returns another value. */
  onEveryChange?(event: Envelope): Partial<NoInfer<D>>
  /** Fields that are computed from other fields, after every event in `changes`. */
  derived?(document: NoInfer<D>): Partial<NoInfer<D>>
}

const NONE: readonly string[] = []

/** How long a fold may hold the event loop before it lets requests run, in milliseconds. */
const TURN_MS = 5

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
 * The next document. When it was updated never goes back, also when a clock does: clients ask for what was updated since
 * the latest time that they have seen.
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
   * All documents that the events touch. Some may already hold the events: another node wrote them, or this one did
   * before it lost the store. They are listed, too, because a cached copy of them may be older.
   */
  touched: Touched[]
  /** The event that could not be folded, if any. `changes` holds only what came before it. */
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
  /** Whether events of this type can concern the model. */
  handles(event: { type: string }): boolean
  /** The documents that events touch; undefined when the fold throws at one of them. */
  touched(events: readonly Recorded<DomainEvent>[]): Touched[] | undefined
  /**
   * Folds a batch of events onto the stored documents. Stops before an event that the fold throws at. `mayRepeat`: what
   * some of the events made may be stored already.
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
      /** The stored documents, as far as they are known: null for none. */
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
      let turn = performance.now()
      for (const { event, ids } of touched) {
        if (performance.now() - turn > TURN_MS) {
          // A batch may have megabytes of texts.
          await nextTurn()
          turn = performance.now()
        }
        try {
          const next = ids.map((id) => {
            const current = bodies.get(id) ?? documents.get(id)
            // The event was delivered before (a crash came before the checkpoint): the document already holds it.
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
