/** The accounts that this server has changed lately: the read models may not have these changes yet. */
import type { Position } from '../../events/store/event-store.ts'

export type AccountChanges = ReturnType<typeof createAccountChanges>

export function createAccountChanges() {
  /** The position of the last change, by account id. An entry goes when the read models have passed it. */
  const positions = new Map<number, Position>()
  const listeners = new Set<(accountId: number) => void>()
  return {
    positions,
    /** Notes that a user, its password or one of its tokens was changed, by an event at this position. */
    note(accountId: number, position: Position): void {
      positions.set(accountId, Math.max(position, positions.get(accountId) ?? position))
      for (const listener of listeners) listener(accountId)
    },
    /** Calls the listener with the id of each account that this server changes. */
    listen: (listener: (accountId: number) => void): void => void listeners.add(listener),
  }
}
