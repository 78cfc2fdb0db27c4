/** Recent account changes of this server, which the read models may not have yet. */
import type { Position } from '../../events/store/event-store.ts'

export type AccountChanges = ReturnType<typeof createAccountChanges>

export function createAccountChanges() {
  /** Position of the last change by account id. An entry is removed when the read models have passed it. */
  const positions = new Map<number, Position>()
  const listeners = new Set<(accountId: number) => void>()
  return {
    positions,
    /** Records that an event at this position changed a user, its password or one of its tokens. */
    note(accountId: number, position: Position): void {
      positions.set(accountId, Math.max(position, positions.get(accountId) ?? position))
      for (const listener of listeners) listener(accountId)
    },
    /** Calls the listener with the id of each account that this server changes. */
    listen: (listener: (accountId: number) => void): void => void listeners.add(listener),
  }
}
