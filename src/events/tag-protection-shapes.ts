/** What the data of each event about the protection of tags looks like. */
import { type Checks, list, object, optional, text, whole } from './shapes.ts'
import type { TagProtection, TagProtectionEvent } from './tag-protection-events.ts'

type DataOf<T extends TagProtectionEvent['type']> = Extract<TagProtectionEvent, { type: T }>['data']

const protection = object<TagProtection>({
  id: whole,
  pattern: text,
  users: list(whole),
  teams: optional(list(whole)),
  createdAt: text,
  updatedAt: text,
})

export const tagProtectionShapes: { readonly [T in TagProtectionEvent['type']]: Checks<DataOf<T>> } = {
  TagProtectionSet: { repoId: whole, protection },
  TagProtectionRemoved: { repoId: whole, id: whole, pattern: text },
}
