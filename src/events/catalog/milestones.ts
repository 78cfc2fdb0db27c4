/** `milestone-<id>` */
import { type Static, Type } from 'typebox'
import { Changes, type EventsOf, OrNull, Text, Whole } from './parts.ts'

const MilestoneSettings = Type.Object({
  title: Text,
  description: Text,
  state: Type.Enum(['open', 'closed']),
  /** ISO 8601; null without a due date. */
  dueOn: OrNull(Text),
})
export type MilestoneSettings = Static<typeof MilestoneSettings>

/** A milestone as events of issues name it. The id identifies it. */
export const MilestoneRef = Type.Object({ id: Whole, title: Text })
export type MilestoneRef = Static<typeof MilestoneRef>

const ofMilestone = { id: Whole, repoId: Whole }

export const milestoneEvents = {
  MilestoneCreated: Type.Object({ ...ofMilestone, ...MilestoneSettings.properties }),
  MilestoneEdited: Type.Object({ ...ofMilestone, changes: Changes(MilestoneSettings.properties) }),
  MilestoneDeleted: Type.Object({ ...ofMilestone, title: Text }),
}
export type MilestoneEvent = EventsOf<typeof milestoneEvents>
