/** The label aggregate: a label of a repository or of an organization. Pure. */

import { isRefusal, type Refusal, refuse } from '../../errors/refusal.ts'
import type { LabelEvent, LabelScope, LabelSettings } from '../../events/catalog/labels.ts'
import type { EventOf } from '../../events/handlers.ts'
import { changedFields } from '../execution/changed-fields.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'
import { textProblem } from '../users/accounts/names.ts'

type Label = EventOf<'LabelCreated'>['data']

export type LabelState =
  | { status: 'missing' }
  | { status: 'active'; label: Label }
  | { status: 'deleted'; label: Label }

export const labelDecider: Decider<LabelState, LabelEvent> = deciderOf({
  initialState: { status: 'missing' },
  snapshots: snapshots(),
  becomes: {
    LabelCreated: (_, { data }) => ({ status: 'active', label: data }),
    LabelDeleted: (state) => (state.status === 'active' ? { status: 'deleted', label: state.label } : state),
  },
  exists: (state: LabelState) => state.status === 'active',
  changes: { LabelEdited: ({ label }, { data }) => ({ label: { ...label, ...data.changes } }) },
})

const COLOR = /^#?([0-9a-f]{6}|[0-9a-f]{3})$/

/** Parses `#rrggbb`, `rrggbb`, `#rgb` or `rgb` into six lower-case hexadecimal digits; undefined for other texts. */
export function colorOf(text: string): string | undefined {
  const digits = COLOR.exec(text.trim().toLowerCase())?.[1]
  return digits?.length === 3 ? digits.replace(/./g, '$&$&') : digits
}

/** Normalizes the settings (trimmed name, color as six digits), or returns a refusal. */
export function normalLabel(wanted: Partial<LabelSettings>): Partial<LabelSettings> | Refusal {
  const normal = { ...wanted }
  if (wanted.name !== undefined) {
    const name = wanted.name.trim()
    const problem = name === '' ? 'must not be empty' : textProblem(name)
    if (problem !== undefined) return refuse.unprocessable(`name: ${problem}`)
    normal.name = name
  }
  if (wanted.color !== undefined) {
    const color = colorOf(wanted.color)
    if (color === undefined) return refuse.unprocessable('color: must be #rrggbb or #rgb, in hexadecimal')
    normal.color = color
  }
  return normal
}

export function decideCreateLabel(
  state: LabelState,
  id: number,
  scope: LabelScope,
  wanted: LabelSettings,
): Decision<LabelEvent> {
  if (state.status !== 'missing') return refuse.conflict(`label ${id} exists already`)
  const normal = normalLabel(wanted)
  if (isRefusal(normal)) return normal
  return [{ type: 'LabelCreated', data: { id, scope, ...wanted, ...normal } }]
}

/** Records only the fields that change. A label of another repository or organization is not found. */
export function decideEditLabel(
  state: LabelState,
  scope: LabelScope,
  wanted: Partial<LabelSettings>,
): Decision<LabelEvent> {
  if (state.status !== 'active' || !sameScope(state.label.scope, scope)) return NOT_FOUND
  const normal = normalLabel(wanted)
  if (isRefusal(normal)) return normal
  const { label } = state
  const changes = changedFields<LabelSettings>(label, normal)
  if (Object.keys(changes).length === 0) return []
  return [{ type: 'LabelEdited', data: { id: label.id, scope: label.scope, changes } }]
}

/** Deletes the label; no event for one that the owner does not have, as in Gitea. */
export function decideDeleteLabel(state: LabelState, scope: LabelScope): Decision<LabelEvent> {
  if (state.status !== 'active' || !sameScope(state.label.scope, scope)) return []
  const { id, name } = state.label
  return [{ type: 'LabelDeleted', data: { id, scope: state.label.scope, name } }]
}

const NOT_FOUND = refuse.notFound('label not found')

function sameScope(one: LabelScope, other: LabelScope): boolean {
  return one.kind === 'repository'
    ? other.kind === 'repository' && one.repoId === other.repoId
    : other.kind === 'organization' && one.organizationId === other.organizationId
}
