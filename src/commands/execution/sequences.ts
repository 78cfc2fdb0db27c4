/** Numbers that are given only once: the number is the revision of the event that takes it, plus one. */

import { perStore } from '../../concurrency/per-store.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import { requireAppendable } from '../../events/store/append-size.ts'
import {
  type Append,
  type Appended,
  type EventStore,
  type ExpectedRevision,
  StoreUnavailable,
} from '../../events/store/event-store.ts'
import { isIdsStream } from '../../events/streams.ts'
import { append, type CommandContext, eventsOf, partOf, placeBefore } from './execute.ts'
import { createIdsAhead, type IdsAhead } from './ids-ahead.ts'

/** The most numbers that one append takes: about 500 bytes each, so an append stays far below 1 MiB. */
const MOST = 250

interface Waiter {
  context: CommandContext
  resolve(number: number): void
  reject(error: unknown): void
}

/** Those who wait for a number, by sequence. A sequence that is not there has nobody who takes numbers now. */
const waitersOf = perStore(() => new Map<string, Waiter[]>())

/** The ids that were taken ahead, of logs that no other server writes to. */
const idsAheadOf = perStore((): { ids?: IdsAhead } => ({}))

/**
 * Says that no other server takes ids of this log. Without it none are taken ahead: an id that another server has taken
 * and used in the meantime would be larger, and lists are sorted by id.
 */
export function isAloneOn(store: EventStore): void {
  idsAheadOf(store).ids ??= createIdsAhead(() => performance.now())
}

/**
 * Undefined where nothing is taken ahead: numbers of issues have no gaps but after a crash, and the embedded log appends an
 * id together with what has it.
 */
const idsAheadIn = (store: EventStore, sequence: string) =>
  store.appendTogether === undefined && isIdsStream(sequence) ? idsAheadOf(store).ids : undefined

/**
 * Takes the next number of a sequence, from 1. Gaps after a crash are fine; a number is never given twice.
 * A retried request (Idempotency-Key) takes the number that it took before.
 *
 * All who wait for a number of the same sequence get theirs from one append. On EventStoreDB, an append of a server that is
 * alone takes some ids ahead while many are asked for (`ids-ahead.ts`). A request with an Idempotency-Key appends alone,
 * because its event must be recognised when it is repeated.
 */
export async function takeNumber(
  store: EventStore,
  context: CommandContext,
  sequence: string,
): Promise<number> {
  if (context.retry !== undefined) {
    const { revision } = await append(store, context, sequence, 'take', [taken(sequence)], 'any')
    // Ids that were taken ahead are smaller, and later requests must get larger ones.
    idsAheadIn(store, sequence)?.forget(sequence)
    return revision + 1
  }
  const ahead = idsAheadIn(store, sequence)?.give(sequence)
  if (ahead !== undefined) return ahead
  const waiters = waitersOf(store)
  return new Promise((resolve, reject) => {
    const waiter = { context, resolve, reject }
    const waiting = waiters.get(sequence)
    if (waiting !== undefined) waiting.push(waiter)
    else {
      waiters.set(sequence, [waiter])
      // The requests of one tick share the first append. Later ones wait until it is done, and share the next.
      setImmediate(takeForAll, store, waiters, sequence)
    }
  })
}

/** The number that an earlier attempt of a retried request took; undefined when it took none, or when that is hard to tell. */
export async function numberBefore(
  store: EventStore,
  context: CommandContext,
  sequence: string,
): Promise<number | undefined> {
  const place = await placeBefore(store, context, sequence, 'take', 0)
  return place ? place.revision + 1 : undefined
}

/**
 * Takes a number of each sequence. A request with an Idempotency-Key takes the first one before the others: this append
 * decides which of two requests with the same key counts.
 */
export function takeOfEach(
  store: EventStore,
  context: CommandContext,
  sequences: readonly string[],
): Promise<number[]> {
  return takeAll(
    context,
    sequences.map((sequence) => () => takeNumber(store, context, sequence)),
  )
}

async function takeAll(
  { retry }: CommandContext,
  takes: readonly (() => Promise<number>)[],
): Promise<number[]> {
  const first = retry === undefined ? [] : await Promise.all(takes.slice(0, 1).map((take) => take()))
  const others = await Promise.all(takes.slice(first.length).map((take) => take()))
  return [...first, ...others]
}

/**
 * Takes several numbers of a sequence, in growing order. Each is a step of its own: a retried request gets the same ones.
 */
export async function takeNumbers(
  store: EventStore,
  context: CommandContext,
  sequence: string,
  count: number,
): Promise<number[]> {
  const take = (i: number) => () => takeNumber(store, partOf(context, `${sequence}#${i}`), sequence)
  const numbers = await takeAll(
    context,
    Array.from({ length: count }, (_, i) => take(i)),
  )
  return numbers.sort((a, b) => a - b)
}

/** What is appended with numbers that were taken for it. */
interface Numbered {
  stream: string
  events: readonly DomainEvent[]
  expected: ExpectedRevision
}

/**
 * Takes the next number of each sequence, and appends what has these numbers. Resolves to the numbers. A store that can
 * write several streams at once does it in one append, so a crash leaves no gap. `make` is pure: it is called several
 * times. Not for a request with an Idempotency-Key, which must find what it appended before.
 *
 * @throws Refused (too large) when the events are too large for one append; nothing is taken then
 */
export async function appendNumbered(
  store: EventStore,
  context: CommandContext,
  step: string,
  sequences: readonly string[],
  make: (numbers: readonly number[]) => Numbered,
): Promise<readonly number[]> {
  const ready = (numbers: readonly number[]): Append => {
    const { stream, events, expected } = make(numbers)
    return { stream, events: eventsOf(context, stream, step, events), expected }
  }
  // No number has more digits.
  requireAppendable(ready(sequences.map(() => Number.MAX_SAFE_INTEGER)).events)
  if (store.appendTogether === undefined) {
    const numbers = await takeOfEach(store, context, sequences)
    const { stream, events, expected } = make(numbers)
    await append(store, context, stream, step, events, expected)
    return numbers
  }
  const takes = sequences.map((sequence) => (): Append => {
    const events = eventsOf(context, sequence, 'take', [taken(sequence)])
    return { stream: sequence, events, expected: 'any' }
  })
  const numbersIn = (places: readonly Appended[]) =>
    places.slice(0, sequences.length).map(({ revision }) => revision + 1)
  const places = await store.appendTogether([...takes, (before) => ready(numbersIn(before))])
  context.written = Math.max(context.written, ...places.map(({ position }) => position))
  return numbersIn(places)
}

const taken = (sequence: string) => ({ type: 'NumberTaken', data: { sequence } }) as const

/** Takes numbers for all who wait, until nobody does. Never rejects. */
async function takeForAll(
  store: EventStore,
  waiters: Map<string, Waiter[]>,
  sequence: string,
): Promise<void> {
  const waiting = waiters.get(sequence) ?? []
  const ahead = idsAheadIn(store, sequence)
  while (waiting.length > 0) {
    const id = ahead?.give(sequence)
    if (id !== undefined) {
      waiting.shift()?.resolve(id)
      continue
    }
    const taking = waiting.splice(0, MOST)
    try {
      await takeTogether(store, taking, sequence, ahead)
    } catch (error) {
      // The log does not answer: those who wait would only wait as long again for the same error.
      if (error instanceof StoreUnavailable) taking.push(...waiting.splice(0))
      for (const { reject } of taking) reject(error)
    }
  }
  waiters.delete(sequence)
}

/** Takes a number for each, in one append, and gives it to them. */
async function takeTogether(
  store: EventStore,
  taking: readonly Waiter[],
  sequence: string,
  ahead: IdsAhead | undefined,
): Promise<void> {
  const events = taking.flatMap(({ context }) => eventsOf(context, sequence, 'take', [taken(sequence)]))
  const count = events.length
  const [first] = taking
  if (ahead !== undefined && first !== undefined) {
    const more = Math.min(ahead.worth(sequence, count), MOST - count)
    const takes = Array.from({ length: more }, () => taken(sequence))
    events.push(...eventsOf(first.context, sequence, 'take', takes))
  }
  const { revision, position } = await store.append(sequence, events, 'any')
  // The last event has the revision of the append, and the number after it.
  const before = revision + 1 - events.length
  for (const [i, { context, resolve }] of taking.entries()) {
    context.written = Math.max(context.written, position)
    resolve(before + 1 + i)
  }
  ahead?.keep(sequence, before + count + 1, revision + 1)
}
