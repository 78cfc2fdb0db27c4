/** Finds the users who moved a head. A scheduled merge continues with the new head only if they may merge. */

import { accessTo } from '../../../access/access.ts'
import { mayMerge, protectionOf } from '../../../access/protection-rules.ts'
import { memberOf } from '../../../access/team-membership.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { decode } from '../../../events/codec.ts'
import { gitStream } from '../../../events/streams.ts'
import type { Services } from '../../../services/services.ts'
import type { ActivePull, PullState } from '../pull-request.decider.ts'
import { renamedIn } from './renamed-branches.ts'

/** Maximum number of events of the head repository that are read; beyond it the users count as unknown. */
const MAX_EVENTS = 1000
const BATCH = 50

/**
 * Returns whether all users who moved the head to `to` may merge into the base branch now. A push that only git knows
 * (`recovered`) gives false. Without a scheduled merge it returns true without a read.
 */
export async function movedByUsersWhoMayMerge(
  services: Services,
  pull: PullState,
  to: string,
): Promise<boolean> {
  if (pull.status === 'none' || pull.schedule === null) return true
  const movers = await moversOf(services, pull, to)
  if (movers === undefined) return false
  const { views } = services
  const base = await views.repositories.get(`${pull.repoId}`)
  if (base === undefined) return false
  const accounts = await views.accounts.getMany([...movers].map(String))
  const protection = protectionOf(base.protections, pull.base.branch)
  const mergers = accounts.filter((account) =>
    mayMerge(protection, memberOf(base, account), accessTo(base, account)),
  )
  return mergers.length === movers.size
}

/** Returns the ids of the accounts that moved the branch; undefined when some are unknown. */
async function moversOf(
  { events }: Services,
  { head }: ActivePull,
  to: string,
): Promise<ReadonlySet<AccountRef['id']> | undefined> {
  let ref = `refs/heads/${head.branch}`
  const stream = gitStream(head.repoId)
  const movers = new Set<number>()
  let reached = false
  let from: number | undefined
  for (let read = 0; read < MAX_EVENTS; read += BATCH) {
    const page = { direction: 'backwards', maxCount: BATCH, ...(from !== undefined && { from }) } as const
    let last: number | undefined
    for await (const recorded of events.readStream(stream, page)) {
      last = recorded.revision
      const event = decode(recorded)
      if (event.type !== 'RefsUpdated') continue
      for (const update of event.data.refs.toReversed()) {
        if (update.ref !== ref) continue
        // Later moves are decided separately.
        reached ||= update.to === to
        if (!reached) continue
        if (update.to === head.sha) return movers
        const renamed = update.from === null ? renamedIn(event.data) : undefined
        if (renamed !== undefined) {
          // A rename does not move the branch. Its earlier moves are under the old name.
          ref = `refs/heads/${renamed.from}`
          break
        }
        if (event.metadata.actor === null) return undefined
        movers.add(event.metadata.actor.id)
        if (update.from === head.sha) return movers
      }
    }
    if (last === undefined || last === 0) return undefined
    from = last - 1
  }
  return undefined
}
