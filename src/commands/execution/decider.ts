/** The pure part of an aggregate: the fold of its events to its state. Decisions are functions beside it. */
import type { DomainEvent } from '../../events/domain-events.ts'
import { type EventOf, type EventType, type Handlers, handle, handledBy } from '../../events/handlers.ts'
import type { SnapshotsOf } from './snapshots.ts'

export interface Decider<State, Event extends DomainEvent> {
  readonly initialState: State
  /** Whether an event in the stream is one of the aggregate's. Another one is an abandoned creation. */
  readonly handles: (event: { type: string }) => event is Event
  readonly evolve: (state: State, event: Event) => State
  /** States that `load` has folded before: `snapshots()`. Without them each load reads the whole stream. */
  readonly snapshots?: SnapshotsOf<State>
}

/** A decider by event type: each type of the aggregate is in `becomes` or in `changes`. */
interface DeciderParts<
  State,
  Existing extends State & object,
  Becoming extends EventType,
  Changing extends EventType,
> extends Pick<Decider<NoInfer<State>, DomainEvent>, 'initialState' | 'snapshots'> {
  /** The next state. */
  becomes: Handlers<Becoming, NoInfer<State>>
  /** Whether the aggregate exists in a state; `changes` do nothing in any other state. */
  exists?: (state: NoInfer<State>) => state is Existing
  /** The fields of the state that the event changes. */
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
