/** This server among those that share its stores. */
import { randomUUID } from 'node:crypto'

export interface Membership {
  /** The incarnation of this server: another one after the others took it for gone. */
  self(): { readonly id: string }
  /** Whether no other server can have taken this one for gone. */
  isMember(): boolean
  /** Whether an incarnation has left, or was taken for gone. */
  isGone(id: string): Promise<boolean>
}

/** A process that knows that no server uses its stores: whoever else has held something is gone. */
export function onlyMember(): Membership {
  const self = { id: randomUUID() }
  return { self: () => self, isMember: () => true, isGone: async (id) => id !== self.id }
}
