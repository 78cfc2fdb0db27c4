/** Finds the update of a ref in an event with many refs. */
import type { RefUpdate } from '../../../events/catalog/branches.ts'

const byRef = new WeakMap<readonly RefUpdate[], ReadonlyMap<string, RefUpdate>>()

/** Returns the last update of a ref. Indexed, because callers look up each of the refs. */
export function lastUpdateOf(refs: readonly RefUpdate[], ref: string): RefUpdate | undefined {
  let updates = byRef.get(refs)
  if (updates === undefined) {
    updates = new Map(refs.map((update) => [update.ref, update]))
    byRef.set(refs, updates)
  }
  return updates.get(ref)
}
