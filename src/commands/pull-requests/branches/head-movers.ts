/** Who has moved the head of a pull request: what decides whether a scheduled merge goes on with the new head (`schedule.4`). */

import { accessTo } from '../../../access/access.ts'
import { mayMerge, protectionOf } from '../../../access/protection-rules.ts'
import { memberOf } from '../../../access/team-membership.ts'
import type { AccountRef } from '../../../events/catalog/parts.ts'
import { decode } from '../../../events/codec.ts'
import { gitStream } from '../../../events/streams.ts'
import type { Services } from '../../../services/services.ts'
import type { ActivePull, PullState } from '../pull-request.decider.ts'
import { renamedIn } from './renamed-branches.ts'

/** So many pushes to the repository of the head are looked at; the head is then nobody's who is known. */
const MAX_EVENTS = 1000
const AT_ONCE = 50

/**
 * Whether everyone who has moved the head from where the pull request has it to `to` may merge into the base branch now.
 * Several pushes may have come since; one by someone who may not is enough for a no. So is a push of which only git knows
 * (`recovered`). Without a scheduled merge nothing depends on it, and nothing is read.
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

/** The ids of the accounts that moved the branch; undefined when not all of them are known. */
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
  for (let read = 0; read < MAX_EVENTS; read += AT_ONCE) {
    const page = { direction: 'backwards', maxCount: AT_ONCE, ...(from !== undefined && { from }) } as const
    let last: number | undefined
    for await (const recorded of events.readStream(stream, page)) {
      last = recorded.revision
      const event = decode(recorded)
      if (event.type !== 'RefsUpdated') continue
      for (const update of event.data.refs.toReversed()) {
        if (update.ref !== ref) continue
        // Later moves are decided on their own.
        reached ||= update.to === to
        if (!reached) continue
        if (update.to === head.sha) return movers
        const renamed = update.from === null ? renamedIn(event.data) : undefined
        if (renamed !== undefined) {
          // Who renames a branch has not moved it. Its earlier moves are those of the old name.
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
