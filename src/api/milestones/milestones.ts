/** Milestones on the wire, and the look-up of the milestone in a path. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { MilestoneDocument } from '../../projections/models/milestones/milestones.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { Nullable } from '../nullable.ts'

/** `id`: an id or a title. */
export const MilestoneParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

export const MilestoneWire = Type.Object(
  {
    id: Type.Integer(),
    title: Type.String(),
    description: Type.String(),
    state: Type.String(),
    open_issues: Type.Integer(),
    closed_issues: Type.Integer(),
    created_at: Type.String(),
    updated_at: Type.String(),
    closed_at: Nullable(Type.String()),
    due_on: Nullable(Type.String()),
  },
  { title: 'Milestone' },
)

/** Returns a milestone as Gitea's `Milestone`. */
export function milestoneWire(milestone: MilestoneDocument): Static<typeof MilestoneWire> {
  return {
    id: milestone.id,
    title: milestone.title,
    description: milestone.description,
    state: milestone.state,
    open_issues: milestone.openIssues,
    closed_issues: milestone.closedIssues,
    created_at: wholeSeconds(milestone.createdAt),
    updated_at: wholeSeconds(milestone.updatedAt),
    closed_at: wholeSeconds(milestone.closedAt),
    due_on: wholeSeconds(milestone.dueOn),
  }
}

/** Returns the milestone with that id; undefined when the repository does not have it. */
export async function milestoneOf(
  services: Services,
  repoId: number,
  id: number,
): Promise<MilestoneDocument | undefined> {
  const milestone = await services.views.milestones.get(`${id}`)
  return milestone?.repoId === repoId ? milestone : undefined
}

/** Returns the repository's milestone with that id or, if no id matches, that title. @throws Refused (not found) */
export async function milestoneFor(
  services: Services,
  repoId: number,
  idOrTitle: string,
): Promise<MilestoneDocument> {
  const id = pathNumber(idOrTitle)
  const milestone =
    (id === undefined ? undefined : await milestoneOf(services, repoId, id)) ??
    (await services.views.milestones.findOne({ repoId, title: idOrTitle }))
  if (milestone === undefined) throw notFoundIn(services.views.milestones, 'milestone not found')
  return milestone
}
