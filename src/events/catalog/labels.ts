/** `label-<id>` */
import { type Static, Type } from 'typebox'
import { Changes, type EventsOf, Flag, Text, Whole } from './parts.ts'

/** The owner of a label. All repositories of an organization share the organization's labels. */
const LabelScope = Type.Union([
  Type.Object({ kind: Type.Literal('repository'), repoId: Whole }),
  Type.Object({ kind: Type.Literal('organization'), organizationId: Whole }),
])
export type LabelScope = Static<typeof LabelScope>

const LabelSettings = Type.Object({
  name: Text,
  /** Six hexadecimal digits in lower case. */
  color: Text,
  description: Text,
  /** Whether an issue can have only one label with the same `scope/` before its name. */
  exclusive: Flag,
  archived: Flag,
})
export type LabelSettings = Static<typeof LabelSettings>

/** A label as events of issues name it. The id identifies it. */
export const LabelRef = Type.Object({ id: Whole, name: Text })
export type LabelRef = Static<typeof LabelRef>

const ofLabel = { id: Whole, scope: LabelScope }

export const labelEvents = {
  LabelCreated: Type.Object({ ...ofLabel, ...LabelSettings.properties }),
  LabelEdited: Type.Object({ ...ofLabel, changes: Changes(LabelSettings.properties) }),
  LabelDeleted: Type.Object({ ...ofLabel, name: Text }),
}
export type LabelEvent = EventsOf<typeof labelEvents>
