/** Carries out a command: load, fold, decide, append. Every command reaches the log in this way. */
import { setTimeout as delay } from 'node:timers/promises'
import { contended, isRefusal, Refused } from '../../errors/refusal.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import { WrongExpectedRevision } from '../../events/store/event-store.ts'
import type { WriteServices } from '../../services/services.ts'
import { append, tookTooLong } from './append.ts'
import type { CommandContext } from './command-context.ts'
import type { Decider, Decision } from './decider.ts'
import { eventId } from './event-ids.ts'
import { requireSameBody } from './idempotency.ts'
import { load } from './load.ts'

const MAX_DECISIONS = 20
/** Maximum number of appends of decisions that stay valid while other commands write to the stream. */
const MAX_APPENDS = 100
/** The first and the longest pause after a conflict, in milliseconds. Pauses double and have a random part. */
const FIRST_PAUSE_MS = 5
const MAX_PAUSE_MS = 200

export interface Command<State, Event extends DomainEvent> {
  stream: string
  /** Names this command within its request: the ids of its events derive from it. */
  step: string
  decider: Decider<State, Event>
  /**
   * Returns the events to append (an empty list when nothing changes) or a refusal. A command that needs facts from git
   * gathers them here and passes them to the pure decision; after a conflict both happen again.
   */
  decide(state: State): Decision<Event> | Promise<Decision<Event>>
  /** Whether a decision on one state is valid for a later one. Default: only for the same state. */
  isStillValid?(decidedOn: State, now: State): boolean
}

/**
 * Loads the stream, decides, and appends at the loaded revision. After a conflict it starts again with the load. Returns the
 * state after the command. A retried request (same Idempotency-Key) that was carried out before changes nothing: this returns
 * the state now.
 *
 * Commands with conflicts on one stream all succeed, unless a decision is a refusal: those of this process wait in a queue,
 * and those of other nodes try again after random pauses.
 * @throws Refused when the decision is a refusal, after twenty decisions with conflicts (conflict), or when the
 * Idempotency-Key was used with another body (unprocessable)
 */
export async function execute<State, Event extends DomainEvent>(
  services: WriteServices,
  context: CommandContext,
  command: Command<State, Event>,
): Promise<State> {
  const attempt = attemptsOf(services, context, command)
  const { queues } = services.writeState
  // Most commands have no conflict. A new command must not overtake those in the queue.
  const first = queues.isLocked(command.stream) ? undefined : await attempt()
  if (first !== undefined) return first.state
  return queues(command.stream, async () => {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, MAX_PAUSE_MS)) {
      const done = await attempt()
      if (done !== undefined) return done.state
      await delay(Math.random() * pause)
    }
  })
}

/** Returns a function that makes one attempt: it returns the state after the command, or undefined after a conflict. */
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
    // Most events in between are comments and do not concern the decider: then the decision is still valid.
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
