/**
 * Seals the texts of appended events (`sealed-texts.ts`), and opens those of read events. No other code does either.
 */
import { setImmediate as nextIteration } from 'node:timers/promises'
import type { Append, Appended, EventStore, NewEvent, RecordedEvent } from '../store/event-store.ts'
import { openSealed, seal } from './seal.ts'
import { erasedText, LOST_TEXT, sealedIn, textsIn, withTexts } from './sealed-texts.ts'
import type { TextKey, TextKeys } from './text-keys.ts'

export interface SealedStore extends EventStore {
  /** The log as stored, for hashes and copies of events. */
  readonly stored: EventStore
  readonly keys: TextKeys
  /** Opens the texts of stored events. Events without texts stay unchanged. @throws StoreUnavailable */
  opened(events: readonly RecordedEvent[]): Promise<RecordedEvent[]>
  erasures(): number
  /** Whether an opened event has texts whose key is missing or wrong. */
  isLost(event: RecordedEvent | undefined): boolean
  /** Clears the cache of texts, after an erasure. */
  forget(): void
}

/** An event that invalidates cached texts. */
const ERASED = 'ErasureFinished'

/** Maximum number of events whose texts are opened together when a stream is read. */
const CHUNK = 250
/** Time budget for opening texts in one iteration of the event loop, in milliseconds; checked every few events. */
const SLICE_MS = 5
const CHECK_EVERY = 32
/** Number of keys that each maker of an append to several streams may use. */
const TEXTS_PER_MAKER = 1

export interface SealedStoreOptions {
  /** Called for an event whose key is missing without an erasure. */
  onLost?: (event: RecordedEvent) => void
}

/** Wraps `stored`: seals appended texts and opens texts that are read. Closing it closes `stored`. */
export function sealTexts(
  stored: EventStore,
  keys: TextKeys,
  { onLost = () => {} }: SealedStoreOptions = {},
): SealedStore {
  let erasures = 0
  const listeners: (() => void)[] = []
  let lastErasure = -1
  /** Opened events, because all subscribers near the end of the log get the same stored events. */
  let known = new WeakMap<RecordedEvent, RecordedEvent>()
  const lost = new WeakSet<RecordedEvent>()

  function forget(): void {
    erasures += 1
    known = new WeakMap()
    keys.forget()
    for (const listener of listeners) listener()
  }

  function sealWith(stream: string, event: NewEvent, take: () => TextKey | undefined): NewEvent {
    const found = textsIn(event)
    if (found === undefined) return event
    const key = take()
    if (key === undefined) throw new Error(`an append to ${stream} has more texts than keys`)
    const { id, type, metadata } = event
    const sealed = seal({ stream, id, type }, found.texts, key)
    return { id, type, data: Object.assign(found.rest, { sealed }), metadata }
  }

  async function sealAll(stream: string, events: readonly NewEvent[]): Promise<readonly NewEvent[]> {
    const count = events.filter((event) => textsIn(event) !== undefined).length
    if (count === 0) return events
    const taken = (await keys.take(count)).values()
    return events.map((event) => sealWith(stream, event, () => taken.next().value))
  }

  async function opened(events: readonly RecordedEvent[]): Promise<RecordedEvent[]> {
    const ofNow = known
    const wanted = new Set<string>()
    for (const event of events) {
      const sealed = ofNow.has(event) ? undefined : sealedIn(event.data)
      if (sealed !== undefined) wanted.add(sealed.key)
    }
    const found = wanted.size === 0 ? undefined : await keys.find([...wanted])
    const all: RecordedEvent[] = []
    let sliceStart = performance.now()
    for (const event of events) {
      all.push(ofNow.get(event) ?? openedWith(event, found, ofNow))
      if (all.length % CHECK_EVERY !== 0 || performance.now() - sliceStart < SLICE_MS) continue
      await nextIteration()
      sliceStart = performance.now()
    }
    return all
  }

  function openedWith(
    event: RecordedEvent,
    found: Awaited<ReturnType<TextKeys['find']>> | undefined,
    ofNow: typeof known,
  ): RecordedEvent {
    const sealed = sealedIn(event.data)
    if (sealed === undefined) return event
    const key = found?.get(sealed.key)
    const texts = Buffer.isBuffer(key) ? openSealed(event, sealed, key) : undefined
    const erased = Buffer.isBuffer(key) ? undefined : key
    const instead = erased === undefined ? LOST_TEXT : erasedText(erased)
    const open = withTexts(event, (i) => texts?.[i] ?? instead)
    if (texts === undefined && erased === undefined) {
      lost.add(open)
      onLost(event)
    }
    // An erasure since then has replaced the cache.
    ofNow.set(event, open)
    return open
  }

  async function* openedOf(events: AsyncIterable<RecordedEvent>): AsyncIterable<RecordedEvent> {
    const reading = events[Symbol.asyncIterator]()
    let waiting: RecordedEvent[] = []
    try {
      for (;;) {
        let next: IteratorResult<RecordedEvent, unknown>
        try {
          next = await reading.next()
        } catch (error) {
          // Events before the damage are sound.
          yield* await opened(waiting)
          throw error
        }
        if (next.done === true) break
        if (waiting.length === 0 && sealedIn(next.value.data) === undefined) {
          yield next.value
          continue
        }
        waiting.push(next.value)
        if (waiting.length < CHUNK) continue
        const ready = waiting
        waiting = []
        yield* await opened(ready)
      }
      yield* await opened(waiting)
    } finally {
      await reading.return?.()
    }
  }

  /** Clears the cache after erasures of this and other nodes. */
  function notice(batch: readonly RecordedEvent[]): void {
    const last = batch.findLast(({ type }) => type === ERASED)
    if (last === undefined || last.position <= lastErasure) return
    lastErasure = last.position
    forget()
  }

  const { appendTogether, problems } = stored
  return {
    stored,
    keys,
    opened,
    forget,
    erasures: () => erasures,
    onErasure: (listener) => void listeners.push(listener),
    isLost: (event) => event !== undefined && lost.has(event),
    append: async (stream, events, expected) =>
      stored.append(stream, await sealAll(stream, events), expected),
    ...(appendTogether && {
      async appendTogether(makers: readonly ((before: readonly Appended[]) => Append)[]) {
        // The makers are synchronous, so the keys are taken before.
        const taken = await keys.take(makers.length * TEXTS_PER_MAKER)
        const used = new Set<TextKey>()
        try {
          return await appendTogether(
            makers.map((make, i) => (before: readonly Appended[]) => {
              // A maker that is called again gets the same keys: its earlier result was not stored.
              const own = taken.slice(i * TEXTS_PER_MAKER, (i + 1) * TEXTS_PER_MAKER)
              const takeKey = () => {
                const key = own.pop()
                if (key !== undefined) used.add(key)
                return key
              }
              const { stream, events, expected } = make(before)
              const sealed = events.map((event) => sealWith(stream, event, takeKey))
              return { stream, events: sealed, expected }
            }),
          )
        } finally {
          keys.giveBack(taken.filter((key) => !used.has(key)))
        }
      },
    }),
    readStream: (stream, options) => openedOf(stored.readStream(stream, options)),
    readAll: (options) => openedOf(stored.readAll(options)),
    readPositions: (positions) => openedOf(stored.readPositions(positions)),
    async *subscribe(options) {
      const { unwanted } = options
      const noticing = unwanted && {
        ...options,
        unwanted: new Set([...unwanted].filter((type) => type !== ERASED)),
      }
      for await (const batch of stored.subscribe(noticing ?? options)) {
        notice(batch)
        yield await opened(batch)
      }
    },
    lastPosition: () => stored.lastPosition(),
    ...(problems && { problems: () => problems() }),
    close: () => stored.close(),
  }
}
