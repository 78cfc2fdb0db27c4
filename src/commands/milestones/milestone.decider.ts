/** The milestone aggregate. Pure. */

import { instantOf, ZERO_TIME } from '../../domain/times.ts'
import { isRefusal, type Refusal, refuse } from '../../errors/refusal.ts'
import type { MilestoneEvent, MilestoneSettings } from '../../events/catalog/milestones.ts'
import type { EventOf } from '../../events/handlers.ts'
import { changedFields } from '../execution/changed-fields.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'
import { textProblem } from '../users/accounts/names.ts'

type Milestone = EventOf<'MilestoneCreated'>['data']

type MilestoneState =
  | { status: 'missing' }
  | { status: 'active'; milestone: Milestone }
  | { status: 'deleted' }

export const milestoneDecider: Decider<MilestoneState, MilestoneEvent> = deciderOf({
  initialState: { status: 'missing' },
  snapshots: snapshots(),
  becomes: {
    MilestoneCreated: (_, { data }) => ({ status: 'active', milestone: data }),
    MilestoneDeleted: (state) => (state.status === 'active' ? { status: 'deleted' } : state),
  },
  exists: (state: MilestoneState) => state.status === 'active',
  changes: {
    MilestoneEdited: ({ milestone }, { data }) => ({ milestone: { ...milestone, ...data.changes } }),
  },
})

const NO_LATER = Date.parse('9999-01-01T00:00:00Z')
const NO_EARLIER = Date.parse(ZERO_TIME)

/**
 * Returns a due date in UTC; null for Go's zero time and for the year 9999, by which Gitea's clients mean "none".
 * Undefined for an invalid date-time.
 */
function dueOnOf(text: string): string | null | undefined {
  const instant = instantOf(text)
  if (instant === undefined) return undefined
  return instant <= NO_EARLIER || instant >= NO_LATER ? null : new Date(instant).toISOString()
}

/** Normalizes the settings (trimmed title, due date in UTC), or returns a refusal. */
export function normalMilestone(wanted: Partial<MilestoneSettings>): Partial<MilestoneSettings> | Refusal {
  const normal = { ...wanted }
  if (wanted.title !== undefined) {
    const title = wanted.title.trim()
    const problem = title === '' ? 'must not be empty' : textProblem(title)
    if (problem !== undefined) return refuse.unprocessable(`title: ${problem}`)
    normal.title = title
  }
  if (wanted.dueOn != null) {
    const dueOn = dueOnOf(wanted.dueOn)
    if (dueOn === undefined) {
      return refuse.unprocessable('due_on: must be a date-time like 2026-01-31T12:00:00Z')
    }
    normal.dueOn = dueOn
  }
  return normal
}

export function decideCreateMilestone(
  state: MilestoneState,
  id: number,
  repoId: number,
  wanted: MilestoneSettings,
): Decision<MilestoneEvent> {
  if (state.status !== 'missing') return refuse.conflict(`milestone ${id} exists already`)
  const normal = normalMilestone(wanted)
  if (isRefusal(normal)) return normal
  return [{ type: 'MilestoneCreated', data: { id, repoId, ...wanted, ...normal } }]
}

/** Records only the fields that change. A milestone of another repository is not found. */
export function decideEditMilestone(
  state: MilestoneState,
  repoId: number,
  wanted: Partial<MilestoneSettings>,
): Decision<MilestoneEvent> {
  if (state.status !== 'active' || state.milestone.repoId !== repoId) return NOT_FOUND
  const normal = normalMilestone(wanted)
  if (isRefusal(normal)) return normal
  const { milestone } = state
  const changes = changedFields<MilestoneSettings>(milestone, normal)
  if (Object.keys(changes).length === 0) return []
  return [{ type: 'MilestoneEdited', data: { id: milestone.id, repoId, changes } }]
}

export function decideDeleteMilestone(state: MilestoneState, repoId: number): Decision<MilestoneEvent> {
  if (state.status !== 'active' || state.milestone.repoId !== repoId) return NOT_FOUND
  const { id, title } = state.milestone
  return [{ type: 'MilestoneDeleted', data: { id, repoId, title } }]
}

const NOT_FOUND = refuse.notFound('milestone not found')
