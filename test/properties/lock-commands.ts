/** Random commands to locks of large files. */
import fc from 'fast-check'
import { decideLock, decideUnlock } from '../../src/commands/lfs/lock.decider.ts'
import { by, command, mostly, nextId, oneOf, record, repoId } from './values.ts'

export const lockCommand = command(
  'lock',
  record({ repoId, path: oneOf(['a.psd', 'b.psd']), by, locks: fc.boolean(), isHeld: mostly, force: mostly }),
  (world, { repoId, path, by, locks, isHeld, force }) => {
    const lock = { id: nextId(world), path, owner: by, ref: null }
    world.lfsLocks.change({ repoId, digest: path }, by, (state) => {
      if (locks) return decideLock(state, repoId, lock)
      const lockId = isHeld ? (state.held?.id ?? 0) : 0
      return decideUnlock(state, repoId, { lockId, by, force })
    })
  },
)
