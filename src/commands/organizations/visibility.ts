/** Decides the visibility of an organization. Before it is narrowed, its repositories are hidden. Pure. */

import { refuse } from '../../errors/refusal.ts'
import { VISIBILITIES, type Visibility } from '../../events/catalog/organizations.ts'
import type { Decision } from '../execution/decider.ts'
import {
  decideEditOrganization,
  type MemberActor,
  type OrganizationEvent,
  type OrganizationState,
} from './organization.decider.ts'

type Active = Extract<OrganizationState, { status: 'active' }>

/** Returns the visibilities that are wider than this one. */
export const widerThan = (visibility: Visibility): Visibility[] =>
  VISIBILITIES.slice(0, VISIBILITIES.indexOf(visibility))

/** Returns whether `visibility` is narrower than the present one. */
const isNarrower = ({ settings }: Active, visibility: Visibility) =>
  widerThan(visibility).includes(settings.visibility)

/** Returns the visibility of the organization's repositories: during a narrowing, already the narrower one. */
export const repositoryVisibility = ({ settings, hidesTo }: Active): Visibility =>
  hidesTo ?? settings.visibility

/** Starts to narrow the visibility. Requires an admin of the organization. */
export function decideStartHiding(
  state: OrganizationState,
  actor: MemberActor,
  visibility: Visibility,
): Decision<OrganizationEvent> {
  const edit = decideEditOrganization(state, actor, { visibility })
  if ('refused' in edit) return edit
  if (state.status !== 'active') return refuse.notFound('organization not found')
  if (state.hidesTo === visibility || !isNarrower(state, visibility)) return []
  return [{ type: 'HidingStarted', data: { organization: state.organization, visibility } }]
}

/** Ends the narrowing: all repositories are hidden. */
export function decideEndHiding(state: OrganizationState): Decision<OrganizationEvent> {
  if (state.status !== 'active' || state.hidesTo === null) return []
  const { organization, hidesTo: visibility } = state
  return [{ type: 'OrganizationEdited', data: { organization, changes: { visibility } } }]
}
