/** Load, fold, decide, append: each command reaches the log in this way. */
import { setTimeout as delay } from 'node:timers/promises'
import { v5 as uuidV5 } from 'uuid'
import { contended, isRefusal, type Refusal, Refused, refuse } from '../../errors/refusal.ts'
import type { AccountRef } from '../../events/catalog/parts.ts'
import { decode, requireReadable, schemaOf } from '../../events/codec.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import { requireAppendable } from '../../events/store/append-size.ts'
import {
  type Append,
  type Appended,
  type EventMetadata,
  type ExpectedRevision,
  LOG_START,
  type NewEvent,
  type Position,
  type RecordedEvent,
  WrongExpectedRevision,
} from '../../events/store/event-store.ts'
import type { WriteServices } from '../../services/services.ts'
import type { Decider } from './decider.ts'
import { earlierAttempt } from './earlier-attempts.ts'
import { eventId, type Retry } from './event-ids.ts'
import { load } from './load.ts'

/** What a command needs from its request. One per request. */
export interface CommandContext {
  readonly actor: AccountRef | null
  /** The site admin who acts in the actor's name. */
  readonly sudo?: AccountRef
  /** The time of the request, ISO 8601 in UTC: deciders have no clock. */
  readonly at: string
  readonly correlationId: string
  readonly causationId: string
  /** From `Idempotency-Key`. */
  readonly retry?: Retry
  /** Position of the last event that the request appended; reads of the same request wait for it. */
  written: Position
  /**
   * The claims that the request has taken and no event relies on yet, by holder and key. Each says whether it is too late for
   * that event. `claims.ts` keeps them.
   */
  claims?: Map<string, Map<string, () => boolean>>
  /** When an earlier attempt carried out the command that this one has repeated last; absent when none has. */
  earlierAt?: string
}

/** When a request has made what it shows: an earlier attempt may have made it. */
export const madeAt = ({ at, earlierAt }: CommandContext): string => earlierAt ?? at

/** A context that begins now. `causationId`: what the commands follow from. */
export function newContext(
  actor: AccountRef | null,
  correlationId: string,
  causationId = correlationId,
): CommandContext {
  return { actor, at: new Date().toISOString(), correlationId, causationId, written: LOG_START }
}

const MAX_DECISIONS = 20
/** Attempts to append a decision that stays valid while others append events that do not affect it. */
const MAX_APPENDS = 100
/** The pauses of a command that others overtook, in milliseconds. They double, and are random: the others pause, too. */
const FIRST_PAUSE_MS = 5
const MAX_PAUSE_MS = 200

const tookTooLong = refuse.conflict('this took too long and was given up; try again')

/** The context of a part of a request that has ids of its own, which a retried request makes again. */
export function partOf(context: CommandContext, part: string): CommandContext {
  const { retry } = context
  if (retry === undefined) return context
  return { ...context, retry: { ...retry, namespace: uuidV5(part, retry.namespace) } }
}

/** The events of one step of a request, ready to append to a stream. @throws TypeError when one could not be read again */
export function eventsOf(
  context: CommandContext,
  stream: string,
  step: string,
  events: readonly DomainEvent[],
): NewEvent[] {
  const { actor, sudo, at, correlationId, causationId, retry } = context
  return events.map((event, i) => {
    requireReadable(event)
    const metadata: EventMetadata = { actor, at, correlationId, causationId, schema: schemaOf(event.type) }
    if (sudo !== undefined) metadata.sudo = sudo
    if (retry !== undefined) metadata.request = retry.digest
    return { id: eventId(retry, stream, step, i), type: event.type, data: event.data, metadata }
  })
}

/**
 * Appends events that need no decision (a number is taken, git has moved refs already). `step` names this append
 * within its request: the ids of the events derive from it.
 *
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
  const before =
    expected === 'any' ? await placeBefore(services, context, stream, step, events.length - 1) : null
  if (before) {
    await requireSameRequest(services, context, stream, before)
    context.written = Math.max(context.written, before.position)
    return before
  }
  return await appendMade(services, context, {
    stream,
    events: eventsOf(context, stream, step, events),
    expected,
  })
}

/**
 * An event that relies on a claim is written in time or not at all: another request may have taken the claim over since.
 * The first event of a stream needs no time limit: another request closes the stream before it takes the claim over.
 *
 * @throws Refused (conflict)
 */
function requireInTime({ claims }: CommandContext, { stream, expected }: Append): void {
  const taken = expected === 'no-stream' ? undefined : claims?.get(stream)
  for (const isLate of taken?.values() ?? []) if (isLate()) throw new Refused(tookTooLong)
}

/** The same for events that are ready to append, at a revision that was read. @throws as `append` */
export async function appendMade(
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

/** The place of the i-th event of a step that an earlier attempt of the request has appended, as `earlierAttempt`. */
export async function placeBefore(
  services: WriteServices,
  { retry }: CommandContext,
  stream: string,
  step: string,
  i: number,
): Promise<Appended | null | undefined> {
  if (retry === undefined) return null
  return earlierAttempt(services, stream, { id: eventId(retry, stream, step, i), digest: retry.digest })
}

/**
 * Makes several appends in one, so that all of it is in the log or nothing. Resolves to whether it did: not in a store
 * that can't, and not when a stream has moved on or has one of the events already. Then each is to be made by itself.
 *
 * @throws Refused as `append`; nothing is written then
 */
export async function appendAtOnce(
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

export type Decision<Event> = readonly Event[] | Refusal

export interface Command<State, Event extends DomainEvent> {
  stream: string
  /** Names this command within its request: the ids of its events derive from it. */
  step: string
  decider: Decider<State, Event>
  /**
   * Returns the events to append (none when nothing changes) or a refusal. A command that needs facts from git
   * gathers them here and passes them to the pure decision; after a conflict both happen again.
   */
  decide(state: State): Decision<Event> | Promise<Decision<Event>>
  /** Whether a decision on one state is still valid for a later one. Without this: only for the same state. */
  isStillValid?(decidedOn: State, now: State): boolean
}

/**
 * Carries out a command: loads, folds, decides, and appends at the loaded revision. After a conflict it begins again
 * with the load. Resolves to the state after the command. A retried request (same Idempotency-Key) that was carried
 * out before changes nothing: it resolves to the state now.
 *
 * Commands that meet on one stream all succeed, unless a decision is a refusal: those of this process wait in line, and
 * those of other nodes try again after random pauses.
 *
 * @throws Refused when the decision is a refusal, when twenty decisions met other writers (conflict), or when the
 * Idempotency-Key was used with another body (unprocessable)
 */
export async function execute<State, Event extends DomainEvent>(
  services: WriteServices,
  context: CommandContext,
  command: Command<State, Event>,
): Promise<State> {
  const attempt = attemptsOf(services, context, command)
  const inLine = services.writeState.queues
  // Most commands have no rival. A command that comes while others wait must not overtake them.
  const first = inLine.isLocked(command.stream) ? undefined : await attempt()
  if (first !== undefined) return first.state
  return inLine(command.stream, async () => {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
      const done = await attempt()
      if (done !== undefined) return done.state
      await delay(Math.random() * pause)
    }
  })
}

/** Makes the attempts of a command. Each resolves to the state after it, or to undefined when others were faster. */
function attemptsOf<State, Event extends DomainEvent>(
  services: WriteServices,
  context: CommandContext,
  command: Command<State, Event>,
): () => Promise<{ state: State } | undefined> {
  const { stream, step, decider } = command
  const { retry } = context
  const first = retry && { id: eventId(retry, stream, step, 0), digest: retry.digest }
  let decided: { state: State; events: readonly Event[] } | undefined
  let decisions = 0
  let appends = 0
  return async () => {
    const { state, revision, found, abandoned } = await load(services, stream, decider, first)
    if (abandoned) throw new Refused(tookTooLong)
    if (found !== undefined) {
      requireSameBody(found, context)
      context.written = Math.max(context.written, found.position)
      context.earlierAt = found.metadata.at
      return { state }
    }
    // The events in between may not concern the decider (most are comments): then the decision is still valid.
    const isStillValid =
      decided !== undefined && (decided.state === state || command.isStillValid?.(decided.state, state))
    if (decided === undefined || !isStillValid) {
      decisions += 1
      if (decisions > MAX_DECISIONS) throw new Refused(contended)
      const decision = await command.decide(state)
      if (isRefusal(decision)) throw new Refused(decision)
      if (decision.length === 0) return { state }
      decided = { state, events: decision }
    }
    const { events } = decided
    appends += 1
    if (appends > MAX_APPENDS) throw new Refused(contended)
    try {
      await append(services, context, stream, step, events, revision ?? 'no-stream')
      return { state: events.reduce((next, event) => decider.evolve(next, event), state) }
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error
      return undefined
    }
  }
}

/**
 * Checks an append. A store confirms one that was made before, and that may be of another request with the same key.
 *
 * @throws Refused (unprocessable) when the Idempotency-Key was used with another body
 */
async function requireSameRequest(
  services: WriteServices,
  context: CommandContext,
  stream: string,
  { revision }: Appended,
): Promise<void> {
  if (context.retry === undefined) return
  for await (const recorded of services.events.readStream(stream, { from: revision, maxCount: 1 })) {
    requireSameBody(recorded, context)
  }
}

/**
 * The first event of this step of the request, when an earlier attempt with the same Idempotency-Key has appended it to
 * the stream. For steps that are no `execute`.
 *
 * @throws Refused (unprocessable) when the Idempotency-Key was used with another body
 */
export async function doneBefore(
  services: WriteServices,
  context: CommandContext,
  stream: string,
  step: string,
): Promise<DomainEvent | undefined> {
  if (context.retry === undefined) return undefined
  const id = eventId(context.retry, stream, step, 0)
  const place = await placeBefore(services, context, stream, step, 0)
  if (place === null) return undefined
  for await (const recorded of services.events.readStream(stream, { from: place?.revision ?? 0 })) {
    if (recorded.id !== id) continue
    requireSameBody(recorded, context)
    context.written = Math.max(context.written, recorded.position)
    return decode(recorded)
  }
  return undefined
}

/** A key names one request. The same key with another body is a mistake, so it is refused. */
function requireSameBody(recorded: RecordedEvent, context: CommandContext): void {
  const { request } = recorded.metadata
  if (request === context.retry?.digest) return
  throw new Refused(refuse.unprocessable('this Idempotency-Key was used with another request body'))
}
