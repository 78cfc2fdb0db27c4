/**
 * Permissions are those of now, also when documents of the past are shown: permission checks decide about a past document by
 * the present one.
 */
import type { RepositoryDocument } from '../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../projections/models/users/accounts.fold.ts'

function createPresentRules<D extends object>() {
  const present = new WeakMap<D, D>()
  return {
    /** Makes permission checks decide about `past` by `now`. Returns `past`. */
    decideBy(past: D, now: D): D {
      present.set(past, now)
      return past
    },
    /** The document by which permission checks decide. */
    of: (document: D): D => present.get(document) ?? document,
  }
}

export const repositoryRules = createPresentRules<RepositoryDocument>()
export const accountRules = createPresentRules<AccountDocument>()
