/** Reads an aggregate: folds its stream, starting at its snapshot. */
import { decode } from '../../events/codec.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import type { Services, WriteServices } from '../../services/services.ts'
import type { Snapshot } from '../../services/writes/snapshots.ts'
import type { Decider } from './decider.ts'
import { findKeyedEvent } from './idempotency.ts'

/** An aggregate, folded from its stream. */
export interface Loaded<State> extends Omit<Snapshot<State>, 'revision'> {
  /** The last revision; null when the stream does not exist. */
  revision: number | null
  /** The event that the caller looked for, if the stream has it. */
  found: RecordedEvent | undefined
}

/** Reads and folds a stream. `find`: the id of an event to find in it, and the digest of its request. */
export async function load<State, Event extends DomainEvent>(
  services: WriteServices,
  stream: string,
  decider: Decider<State, Event>,
  find?: { id: string; digest: string },
): Promise<Loaded<State>> {
  const snapshots = decider.snapshots?.(services.writeState.snapshots)
  // Taken before the lookup of the event: the loop below reads all that comes after the snapshot.
  const snapshot = snapshots?.get(stream)
  const place = find && snapshot && (await findKeyedEvent(services, stream, find))
  // Without an answer the event may be anywhere: then the whole stream is read.
  const before = find === undefined || place !== undefined ? snapshot : undefined
  let state = before?.state ?? decider.initialState
  let revision: number | null = before?.revision ?? null
  let abandoned = before?.abandoned ?? false
  let found = place && (await eventAt(services, stream, place.revision))
  for await (const recorded of services.events.readStream(stream, {
    from: revision === null ? 0 : revision + 1,
  })) {
    const event = decode(recorded)
    if (decider.handles(event)) state = decider.evolve(state, event)
    else if (event.type === 'CreationAbandoned') abandoned = true
    if (recorded.id === find?.id) found = recorded
    revision = recorded.revision
  }
  if (revision !== null) snapshots?.set(stream, { state, revision, abandoned })
  return { state, revision, found: found ?? undefined, abandoned }
}

/** Reads and folds a stream up to a revision. Returns the state after that event. */
export async function loadAt<State, Event extends DomainEvent>(
  { events }: Pick<Services, 'events'>,
  stream: string,
  decider: Decider<State, Event>,
  revision: number,
): Promise<State> {
  let state = decider.initialState
  for await (const recorded of events.readStream(stream, { maxCount: revision + 1 })) {
    const event = decode(recorded)
    if (decider.handles(event)) state = decider.evolve(state, event)
  }
  return state
}

async function eventAt(
  { events }: Pick<Services, 'events'>,
  stream: string,
  revision: number,
): Promise<RecordedEvent | undefined> {
  for await (const recorded of events.readStream(stream, { from: revision, maxCount: 1 })) return recorded
  return undefined
}
