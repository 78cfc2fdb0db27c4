/**
 * An event store whose readers and writers see texts, while the log has them sealed (`sealed-texts.ts`). The only place
 * where texts are sealed and opened.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Append, Appended, EventStore, NewEvent, RecordedEvent } from '../store/event-store.ts'
import { openSealed, seal } from './seal.ts'
import { erasedText, LOST_TEXT, sealedIn, textsIn, withTexts } from './sealed-texts.ts'
import type { TextKey, TextKeys } from './text-keys.ts'

export interface SealedStore extends EventStore {
  /** The log as it is stored: for whoever needs hashes, or copies events. */
  readonly stored: EventStore
  readonly keys: TextKeys
  /** Opens the texts of stored events. Events without texts stay as they are. @throws StoreUnavailable */
  opened(events: readonly RecordedEvent[]): Promise<RecordedEvent[]>
  erasures(): number
  /** Whether an opened event has texts whose key is missing, or another one. */
  isLost(event: RecordedEvent | undefined): boolean
  /** Forgets what is known of texts: some have been erased. */
  forget(): void
}

/** What was remembered of texts is old after such an event. */
const ERASED = 'ErasureFinished'

/** The most events whose texts are opened together when a stream is read. */
const CHUNK = 250
/** How long the opening of texts may hold the event loop, in milliseconds; looked at after every few events. */
const TURN_MS = 5
const LOOK_EVERY = 32
/** The events with texts that one append to several streams may have, for each of its makers. */
const TEXTS_PER_MAKER = 1

export interface SealedStoreOptions {
  /** Called for an event whose key is missing, though nobody erased it. */
  onLost?: (event: RecordedEvent) => void
}

/** Seals the texts of what is appended to `stored`, and opens those of what is read. To close it closes `stored`. */
export function sealTexts(
  stored: EventStore,
  keys: TextKeys,
  { onLost = () => {} }: SealedStoreOptions = {},
): SealedStore {
  let erasures = 0
  let lastErasure = -1
  /** The opened forms of events: all who follow the log near its end get the same stored events. */
  let known = new WeakMap<RecordedEvent, RecordedEvent>()
  const lost = new WeakSet<RecordedEvent>()

  function forget(): void {
    erasures += 1
    known = new WeakMap()
    keys.forget()
  }

  function sealWith(stream: string, event: NewEvent, take: () => TextKey | undefined): NewEvent {
    const found = textsIn(event)
    if (found === undefined) return event
    const key = take()
    if (key === undefined) throw new Error(`an append to ${stream} has more texts than there are keys for it`)
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
    let turn = performance.now()
    for (const event of events) {
      all.push(ofNow.get(event) ?? openedWith(event, found, ofNow))
      if (all.length % LOOK_EVERY !== 0 || performance.now() - turn < TURN_MS) continue
      await nextTurn()
      turn = performance.now()
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
    // An erasure since then has begun a new memory.
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
          // What was read before the damage is sound.
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

  /** Notices erasures that other nodes have finished, and those of this one. */
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
    isLost: (event) => event !== undefined && lost.has(event),
    append: async (stream, events, expected) =>
      stored.append(stream, await sealAll(stream, events), expected),
    ...(appendTogether && {
      async appendTogether(makers: readonly ((before: readonly Appended[]) => Append)[]) {
        // The makers do not wait, so the keys are taken before.
        const taken = await keys.take(makers.length * TEXTS_PER_MAKER)
        const used = new Set<TextKey>()
        try {
          return await appendTogether(
            makers.map((make, i) => (before: readonly Appended[]) => {
              // A maker that is called again gets the same keys: what it made before was not stored.
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
