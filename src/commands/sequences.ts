/** Numbers that are given only once: the number is the revision of the event that takes it, plus one. */
import { v5 as uuidV5 } from 'uuid'
import { requireAppendable } from '../events/append-size.ts'
import type { DomainEvent } from '../events/domain-events.ts'
import {
  type Append,
  type Appended,
  type EventStore,
  type ExpectedRevision,
  StoreUnavailable,
} from '../events/event-store.ts'
import { perStore } from '../per-store.ts'
import { append, type CommandContext, eventsOf } from './execute.ts'

/** The most numbers that one append takes: about 500 bytes each, so an append stays far below 1 MiB. */
const MOST = 250

interface Waiter {
  context: CommandContext
  resolve(number: number): void
  reject(error: unknown): void
}

/** Those who wait for a number, by sequence. A sequence that is not there has nobody who takes numbers now. */
const waitersOf = perStore(() => new Map<string, Waiter[]>())

/**
 * Takes the next number of a sequence, from 1. Gaps after a crash are fine; a number is never given twice.
 * A retried request (Idempotency-Key) takes the number that it took before.
 *
 * All who wait for a number of the same sequence get theirs from one append. A request with an Idempotency-Key appends
 * alone, because its event must be recognised when it is repeated.
 */
export async function takeNumber(
  store: EventStore,
  context: CommandContext,
  sequence: string,
): Promise<number> {
  if (context.retry !== undefined) {
    const { revision } = await append(store, context, sequence, 'take', [taken(sequence)], 'any')
    return revision + 1
  }
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

/**
 * Takes several numbers of a sequence, in growing order. Each is a step of its own: a retried request gets the same ones.
 */
export async function takeNumbers(
  store: EventStore,
  context: CommandContext,
  sequence: string,
  count: number,
): Promise<number[]> {
  const { retry } = context
  const numbers = await Promise.all(
    Array.from({ length: count }, (_, i) => {
      if (retry === undefined) return takeNumber(store, context, sequence)
      const namespace = uuidV5(`${sequence}#${i}`, retry.namespace)
      return takeNumber(store, { ...context, retry: { ...retry, namespace } }, sequence)
    }),
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
    const numbers = await Promise.all(sequences.map((sequence) => takeNumber(store, context, sequence)))
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
  while (waiting.length > 0) {
    const taking = waiting.splice(0, MOST)
    try {
      give(taking, await takeTogether(store, taking, sequence))
    } catch (error) {
      // The log does not answer: those who wait would only wait as long again for the same error.
      if (error instanceof StoreUnavailable) taking.push(...waiting.splice(0))
      for (const { reject } of taking) reject(error)
    }
  }
  waiters.delete(sequence)
}

async function takeTogether(
  store: EventStore,
  taking: readonly Waiter[],
  sequence: string,
): Promise<Appended> {
  const events = taking.flatMap(({ context }) => eventsOf(context, sequence, 'take', [taken(sequence)]))
  return store.append(sequence, events, 'any')
}

/** Gives each its number: the last one has the revision of the append. */
function give(taking: readonly Waiter[], { revision, position }: Appended): void {
  for (const [i, { context, resolve }] of taking.entries()) {
    context.written = Math.max(context.written, position)
    resolve(revision + 2 + i - taking.length)
  }
}
