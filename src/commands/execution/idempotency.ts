/**
 * Idempotency keys: finds the events that an earlier attempt of a request appended. A read model finds them, so that the
 * cost does not depend on the length of the stream, also after a restart and on another server.
 */
import { Refused, refuse } from '../../errors/refusal.ts'
import { decode } from '../../events/codec.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import type { Appended, RecordedEvent } from '../../events/store/event-store.ts'
import { isKeyed, keyedEventFold } from '../../projections/models/history/keyed-events.fold.ts'
import type { WriteServices } from '../../services/services.ts'
import type { CommandContext } from './command-context.ts'
import { eventId } from './event-ids.ts'

const { collection } = keyedEventFold
/** Maximum wait for the read model, in milliseconds. Reading the stream costs less than a longer wait. */
const MAX_WAIT_MS = 500

/**
 * Returns the place of the event with this id, of a request with this digest. Null when the stream did not have it at the
 * time of the call; undefined when the read model does not answer in time.
 */
export async function findKeyedEvent(
  { events, writeState }: WriteServices,
  stream: string,
  { id, digest }: { id: string; digest: string },
): Promise<Appended | null | undefined> {
  if (writeState.keyedEvents === undefined || !isKeyed(digest)) return undefined
  const { projector, readStore } = writeState.keyedEvents
  for await (const end of events.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
    const hasPassed = await projector.waitFor(end.position, MAX_WAIT_MS)
    if (!hasPassed || projector.stopped().some(({ name }) => name === collection.name)) return undefined
    const [found] = await readStore.getMany(collection, [id])
    return found === undefined ? null : { revision: found.body.revision, position: found.body.position }
  }
  return null
}

/** Returns the place of the i-th event of a step, if an earlier attempt appended it, as `findKeyedEvent`. */
export async function findEarlierEvent(
  services: WriteServices,
  { retry }: CommandContext,
  stream: string,
  step: string,
  i: number,
): Promise<Appended | null | undefined> {
  if (retry === undefined) return null
  return findKeyedEvent(services, stream, { id: eventId(retry, stream, step, i), digest: retry.digest })
}

/**
 * Returns the first event of a step, if an earlier attempt of the request appended it. For steps that do not use `execute`.
 * @throws Refused (unprocessable) when the Idempotency-Key was used with another body
 */
export async function earlierResult(
  services: WriteServices,
  context: CommandContext,
  stream: string,
  step: string,
): Promise<DomainEvent | undefined> {
  if (context.retry === undefined) return undefined
  const id = eventId(context.retry, stream, step, 0)
  const place = await findEarlierEvent(services, context, stream, step, 0)
  if (place === null) return undefined
  for await (const recorded of services.events.readStream(stream, { from: place?.revision ?? 0 })) {
    if (recorded.id !== id) continue
    requireSameBody(recorded, context)
    context.written = Math.max(context.written, recorded.position)
    return decode(recorded)
  }
  return undefined
}

/**
 * Checks that an appended event is of this request. A store also confirms an append that it already has, which may be of
 * another request with the same key.
 * @throws Refused (unprocessable) when the Idempotency-Key was used with another body
 */
export async function requireSameRequest(
  { events }: WriteServices,
  context: CommandContext,
  stream: string,
  { revision }: Appended,
): Promise<void> {
  if (context.retry === undefined) return
  for await (const recorded of events.readStream(stream, { from: revision, maxCount: 1 })) {
    requireSameBody(recorded, context)
  }
}

/** Checks that an event of a request with the same key had the same body. @throws Refused (unprocessable) */
export function requireSameBody({ metadata }: RecordedEvent, { retry }: CommandContext): void {
  if (metadata.request === retry?.digest) return
  throw new Refused(refuse.unprocessable('this Idempotency-Key was used with another request body'))
}
