/** The pure part of an aggregate: the fold of its events to its state. Decisions are functions beside it. */
import type { Refusal } from '../../errors/refusal.ts'
import type { DomainEvent } from '../../events/domain-events.ts'
import { type EventOf, type EventType, type Handlers, handle, handledBy } from '../../events/handlers.ts'
import type { SnapshotsOf } from './snapshots.ts'

/** The events to append, or a refusal. */
export type Decision<Event> = readonly Event[] | Refusal

export interface Decider<State, Event extends DomainEvent> {
  readonly initialState: State
  /** Whether an event in the stream belongs to the aggregate. Any other one is an abandoned creation. */
  readonly handles: (event: { type: string }) => event is Event
  readonly evolve: (state: State, event: Event) => State
  /** Snapshots of the states that `load` folded: `snapshots()`. Without them each load reads the whole stream. */
  readonly snapshots?: SnapshotsOf<State>
}

/** The handlers of a decider, by event type: each type of the aggregate is in `becomes` or in `changes`. */
interface DeciderParts<
  State,
  Existing extends State & object,
  Becoming extends EventType,
  Changing extends EventType,
> extends Pick<Decider<NoInfer<State>, DomainEvent>, 'initialState' | 'snapshots'> {
  /** Handlers that return the next state. */
  becomes: Handlers<Becoming, NoInfer<State>>
  /** Whether the aggregate exists in a state; `changes` do nothing in any other state. */
  exists?: (state: NoInfer<State>) => state is Existing
  /** Handlers that return the changed fields of the state. */
  changes?: Handlers<Changing, NoInfer<Existing>, Partial<NoInfer<Existing>>>
}

/** Makes a decider from its handlers. */
export function deciderOf<
  State,
  Existing extends State & object,
  Becoming extends EventType,
  Changing extends EventType = never,
>(
  parts: DeciderParts<State, Existing, Becoming, Changing>,
): Decider<State, EventOf<Becoming> | EventOf<Changing>> {
  const { becomes, exists, changes, ...rest } = parts
  const isBecoming = handledBy(becomes)
  const isChanging = handledBy<Changing>(changes)
  return {
    ...rest,
    handles: (event): event is EventOf<Becoming> | EventOf<Changing> =>
      isBecoming(event) || isChanging(event),
    evolve(state, event: { type: string }) {
      if (isBecoming(event)) return handle(becomes, state, event)
      if (!exists?.(state) || changes === undefined || !isChanging(event)) return state
      return { ...state, ...handle(changes, state, event) }
    },
  }
}
