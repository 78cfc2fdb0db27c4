import type t from 'tap'
import type { Decider, Decision } from '../src/commands/execution/decider.ts'
import { isRefusal, type RefusalKind } from '../src/errors/refusal.ts'
import type { DomainEvent } from '../src/events/domain-events.ts'

/** Specifies a decider: given events, when a command is decided, then there are new events or a refusal. */

type Test = Pick<typeof t, 'same' | 'fail' | 'equal'>

export function specify<State, Event extends DomainEvent>(test: Test, decider: Decider<State, Event>) {
  return {
    given(...events: Event[]) {
      const state = events.reduce((folded, event) => decider.evolve(folded, event), decider.initialState)
      return {
        when(decide: (state: State) => Decision<Event>) {
          const decision = decide(state)
          return {
            thenEvents(...expected: Event[]) {
              test.same(decision, expected)
            },
            thenRefused(kind: RefusalKind, message?: string) {
              const refused = isRefusal(decision) ? decision : undefined
              test.equal(refused?.refused, kind)
              if (message !== undefined) test.equal(refused?.message, message)
            },
          }
        },
      }
    },
  }
}
