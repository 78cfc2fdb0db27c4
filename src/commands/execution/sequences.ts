/** Sequences of unique numbers: a number is the revision of the event that takes it, plus one. */

import type { DomainEvent } from '../../events/domain-events.ts'
import { requireAppendable } from '../../events/store/append-size.ts'
import {
  type Append,
  type Appended,
  type ExpectedRevision,
  LOG_START,
  StoreUnavailable,
} from '../../events/store/event-store.ts'
import { isIdsStream } from '../../events/streams.ts'
import type { WriteServices } from '../../services/services.ts'
import type { IdsAhead } from '../../services/writes/ids-ahead.ts'
import type { NumberRequest } from '../../services/writes/write-state.ts'
import { append, eventsOf } from './append.ts'
import { type CommandContext, partOf } from './command-context.ts'
import { findEarlierEvent } from './idempotency.ts'

/** Maximum number of numbers that one append takes: about 500 bytes each, so it stays far below 1 MiB. */
const MAX_PER_APPEND = 250

/**
 * Returns the pool of ids of a sequence. Undefined for numbers of issues, which have gaps only after a crash, and for the
 * embedded log, which appends an id together with the event that has it.
 */
const idsAheadIn = ({ events, writeState }: WriteServices, sequence: string) =>
  events.appendTogether === undefined && isIdsStream(sequence) ? writeState.idsAhead : undefined

/**
 * Takes the next number of a sequence, from 1. A crash may leave a gap; each number is returned once. A retried request
 * (Idempotency-Key) takes the number that it took before.
 *
 * Waiting requests for the same sequence share one append. On EventStoreDB, an append of a server that is alone takes some ids
 * ahead while many are requested (`ids-ahead.ts`). A request with an Idempotency-Key appends alone, because a retry must find
 * its event.
 */
export async function takeNumber(
  services: WriteServices,
  context: CommandContext,
  sequence: string,
): Promise<number> {
  if (context.retry !== undefined) {
    const { revision } = await append(services, context, sequence, 'take', [taken(sequence)], 'any')
    // The ids ahead are smaller, and later requests must get larger ones.
    idsAheadIn(services, sequence)?.clear(sequence)
    return revision + 1
  }
  const ahead = idsAheadIn(services, sequence)?.take(sequence)
  if (ahead !== undefined) return ahead
  const { numberRequests } = services.writeState
  return new Promise((resolve, reject) => {
    const request: NumberRequest = {
      takes: (count) =>
        eventsOf(
          context,
          sequence,
          'take',
          Array.from({ length: count }, () => taken(sequence)),
        ),
      resolve({ number, position }) {
        context.written = Math.max(context.written, position)
        resolve(number)
      },
      reject,
    }
    const waiting = numberRequests.get(sequence)
    if (waiting !== undefined) waiting.push(request)
    else {
      numberRequests.set(sequence, [request])
      // The requests of one tick share the first append. Later ones wait until it is done, and share the next.
      setImmediate(takeForAll, services, sequence)
    }
  })
}

/** Returns the number that an earlier attempt of the request took; undefined without one, or when the read model lags. */
export async function earlierNumber(
  services: WriteServices,
  context: CommandContext,
  sequence: string,
): Promise<number | undefined> {
  const place = await findEarlierEvent(services, context, sequence, 'take', 0)
  return place ? place.revision + 1 : undefined
}

/**
 * Takes a number of each sequence. A request with an Idempotency-Key takes the first one before the others: that append
 * decides which of two requests with the same key succeeds.
 */
export function takeNumberOfEach(
  services: WriteServices,
  context: CommandContext,
  sequences: readonly string[],
): Promise<number[]> {
  return takeAll(
    context,
    sequences.map((sequence) => () => takeNumber(services, context, sequence)),
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
 * Takes several numbers of a sequence, in ascending order. Each is a step of its own, so a retried request gets the same ones.
 */
export async function takeNumbers(
  services: WriteServices,
  context: CommandContext,
  sequence: string,
  count: number,
): Promise<number[]> {
  const take = (i: number) => () => takeNumber(services, partOf(context, `${sequence}#${i}`), sequence)
  const numbers = await takeAll(
    context,
    Array.from({ length: count }, (_, i) => take(i)),
  )
  return numbers.sort((a, b) => a - b)
}

/** An append whose events contain their numbers. */
interface Numbered {
  stream: string
  events: readonly DomainEvent[]
  expected: ExpectedRevision
}

/**
 * Takes the next number of each sequence, and appends the events that contain them. Returns the numbers. A store with
 * transactions does it in one append, so a crash leaves no gap. `make` is pure and called several times. Not for a request
 * with an Idempotency-Key, which must find its earlier events.
 * @throws Refused (too large) when the events are too large for one append; nothing is taken then
 */
export async function appendNumbered(
  services: WriteServices,
  context: CommandContext,
  step: string,
  sequences: readonly string[],
  make: (numbers: readonly number[]) => Numbered,
): Promise<readonly number[]> {
  const ready = (numbers: readonly number[]): Append => {
    const { stream, events, expected } = make(numbers)
    return { stream, events: eventsOf(context, stream, step, events), expected }
  }
  // The number with the most digits.
  requireAppendable(ready(sequences.map(() => Number.MAX_SAFE_INTEGER)).events)
  if (services.events.appendTogether === undefined) {
    const numbers = await takeNumberOfEach(services, context, sequences)
    const { stream, events, expected } = make(numbers)
    await append(services, context, stream, step, events, expected)
    return numbers
  }
  const takes = sequences.map((sequence) => (): Append => {
    const events = eventsOf(context, sequence, 'take', [taken(sequence)])
    return { stream: sequence, events, expected: 'any' }
  })
  const numbersIn = (places: readonly Appended[]) =>
    places.slice(0, sequences.length).map(({ revision }) => revision + 1)
  const places = await services.events.appendTogether([...takes, (before) => ready(numbersIn(before))])
  context.written = Math.max(context.written, ...places.map(({ position }) => position))
  return numbersIn(places)
}

const taken = (sequence: string) => ({ type: 'NumberTaken', data: { sequence } }) as const

/** Takes numbers for all waiting requests of a sequence, until none is left. Never rejects. */
async function takeForAll(services: WriteServices, sequence: string): Promise<void> {
  const { numberRequests } = services.writeState
  const waiting = numberRequests.get(sequence) ?? []
  const ahead = idsAheadIn(services, sequence)
  while (waiting.length > 0) {
    const id = ahead?.take(sequence)
    if (id !== undefined) {
      waiting.shift()?.resolve({ number: id, position: LOG_START })
      continue
    }
    const batch = waiting.splice(0, MAX_PER_APPEND)
    try {
      await takeTogether(services, batch, sequence, ahead)
    } catch (error) {
      // When the log does not answer, the other requests would only wait as long again for the same error.
      if (error instanceof StoreUnavailable) batch.push(...waiting.splice(0))
      for (const { reject } of batch) reject(error)
    }
  }
  numberRequests.delete(sequence)
}

/** Takes a number for each request, in one append. */
async function takeTogether(
  { events: log }: WriteServices,
  batch: readonly NumberRequest[],
  sequence: string,
  ahead: IdsAhead | undefined,
): Promise<void> {
  const events = batch.flatMap((request) => request.takes(1))
  const count = events.length
  const more = Math.min(ahead?.aheadFor(sequence, count) ?? 0, MAX_PER_APPEND - count)
  events.push(...(batch[0]?.takes(more) ?? []))
  const { revision, position } = await log.append(sequence, events, 'any')
  // The last event has the revision of the append, and the number after it.
  const before = revision + 1 - events.length
  for (const [i, request] of batch.entries()) request.resolve({ number: before + 1 + i, position })
  ahead?.fill(sequence, before + count + 1, revision + 1)
}
