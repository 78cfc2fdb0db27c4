/** Who sees an organization: what is shown to fewer is hidden first in its repositories. Pure. */

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

/** Those that show a thing to more than this one does. */
export const widerThan = (visibility: Visibility): Visibility[] =>
  VISIBILITIES.slice(0, VISIBILITIES.indexOf(visibility))

/** Whether `visibility` shows the organization to fewer than now. */
const isNarrower = ({ settings }: Active, visibility: Visibility) =>
  widerThan(visibility).includes(settings.visibility)

/** To whom its repositories are to be shown: while it is being hidden, already to the fewer. */
export const shownTo = ({ settings, hidesTo }: Active): Visibility => hidesTo ?? settings.visibility

/** Begins to show the organization to fewer. Only its admins may do that. */
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

/** Ends what was begun: all its repositories are hidden now. */
export function decideEndHiding(state: OrganizationState): Decision<OrganizationEvent> {
  if (state.status !== 'active' || state.hidesTo === null) return []
  const { organization, hidesTo: visibility } = state
  return [{ type: 'OrganizationEdited', data: { organization, changes: { visibility } } }]
}
