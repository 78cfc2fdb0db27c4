/** The claims of a repository: its name, and to be its owner's fork. Pure. */
import { claimKeys } from '../../events/streams.ts'
import type { RepositoryState } from './repository.decider.ts'

/** In the order of claiming. */
export function claimsOf(state: RepositoryState) {
  if (state.status !== 'active') return []
  const { owner, settings, parentId } = state
  const name = { key: claimKeys.repository(owner.id, settings.name), fork: undefined }
  const fork = parentId === null ? undefined : { baseId: parentId, owner }
  return fork === undefined ? [name] : [name, { key: claimKeys.fork(fork.baseId, owner.id), fork }]
}

export const keysOf = (state: RepositoryState): string[] => claimsOf(state).map(({ key }) => key)
