/** What an event with many refs says of each of them, found at once. */
import type { RefUpdate } from '../../../events/catalog/branches.ts'

const byRef = new WeakMap<readonly RefUpdate[], ReadonlyMap<string, RefUpdate>>()

/**
 * The last update of a ref. Each of the refs is asked for, so to look through all of them would take the square of the
 * time.
 */
export function lastUpdateOf(refs: readonly RefUpdate[], ref: string): RefUpdate | undefined {
  let updates = byRef.get(refs)
  if (updates === undefined) {
    updates = new Map(refs.map((update) => [update.ref, update]))
    byRef.set(refs, updates)
  }
  return updates.get(ref)
}
