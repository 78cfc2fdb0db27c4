/** Appends events to the log, with the metadata of their request. */
import { Refused, refuse } from '../../errors/refusal.ts'
import { requireReadable, schemaOf } from '../../events/codec.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import { requireAppendable } from '../../events/store/append-size.ts'
import {
  type Append,
  type Appended,
  type EventMetadata,
  type ExpectedRevision,
  type NewEvent,
  WrongExpectedRevision,
} from '../../events/store/event-store.ts'
import type { WriteServices } from '../../services/services.ts'
import type { CommandContext } from './command-context.ts'
import { eventId } from './event-ids.ts'
import { findEarlierEvent, requireSameRequest } from './idempotency.ts'

/** The refusal of a command that wrote too late: see `claims.ts`. */
export const tookTooLong = refuse.conflict('the request took too long and was aborted; try again')

/** Returns the events of one step of a request, ready to append. @throws TypeError for an event that breaks its schema */
export function eventsOf(
  context: CommandContext,
  stream: string,
  step: string,
  events: readonly DomainEvent[],
): NewEvent[] {
  const { actor, sudo, credential, at, correlationId, causationId, retry } = context
  return events.map((event, i) => {
    requireReadable(event)
    const metadata: EventMetadata = { actor, at, correlationId, causationId, schema: schemaOf(event.type) }
    if (sudo !== undefined) metadata.sudo = sudo
    if (credential !== undefined) metadata.credential = credential
    if (retry !== undefined) metadata.request = retry.digest
    return { id: eventId(retry, stream, step, i), type: event.type, data: event.data, metadata }
  })
}

/**
 * Appends events that need no decision, for example after git has moved refs. `step` names this append within its request:
 * the ids of the events derive from it.
 * @throws Refused (too large) when the events are too large for one append, (conflict) when they rely on a claim that was
 *   taken too long ago, (unprocessable) when the Idempotency-Key was used with another body; nothing is written then
 */
export async function append(
  services: WriteServices,
  context: CommandContext,
  stream: string,
  step: string,
  events: readonly DomainEvent[],
  expected: ExpectedRevision,
): Promise<Appended> {
  const earlier =
    expected === 'any' ? await findEarlierEvent(services, context, stream, step, events.length - 1) : null
  if (earlier) {
    await requireSameRequest(services, context, stream, earlier)
    context.written = Math.max(context.written, earlier.position)
    return earlier
  }
  return await appendReady(services, context, {
    stream,
    events: eventsOf(context, stream, step, events),
    expected,
  })
}

/** Appends events that `eventsOf` made, at a revision that was read. @throws as `append` */
export async function appendReady(
  services: WriteServices,
  context: CommandContext,
  { stream, events, expected }: Append,
): Promise<Appended> {
  requireAppendable(events)
  requireInTime(context, { stream, events, expected })
  const appended = await services.events.append(stream, events, expected)
  await requireSameRequest(services, context, stream, appended)
  context.claims?.delete(stream)
  context.written = Math.max(context.written, appended.position)
  return appended
}

/**
 * Makes several appends in one transaction. Returns false, and appends nothing, in a store without transactions, and when
 * a stream has moved on or already has one of the events. Then the caller makes them one by one.
 * @throws Refused as `append`; nothing is written then
 */
export async function appendAtomically(
  services: WriteServices,
  context: CommandContext,
  appends: readonly Append[],
): Promise<boolean> {
  if (services.events.appendTogether === undefined) return false
  for (const one of appends) {
    requireAppendable(one.events)
    requireInTime(context, one)
  }
  try {
    const places = await services.events.appendTogether(appends.map((one) => () => one))
    for (const { stream } of appends) context.claims?.delete(stream)
    context.written = Math.max(context.written, ...places.map(({ position }) => position))
    return true
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error
    return false
  }
}

/**
 * Checks the time limit of an event that relies on a claim: after it, another request may have taken the claim over. The
 * first event of a stream has no time limit, because a request closes the stream before it takes the claim over.
 * @throws Refused (conflict)
 */
function requireInTime({ claims }: CommandContext, { stream, expected }: Append): void {
  const taken = expected === 'no-stream' ? undefined : claims?.get(stream)
  for (const isLate of taken?.values() ?? []) if (isLate()) throw new Refused(tookTooLong)
}
