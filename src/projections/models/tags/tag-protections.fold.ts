/** The tag protections of each repository, in the order in which they were made. */
import type { TagProtection } from '../../../events/catalog/tags.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'

export interface TagProtectionsDocument {
  repoId: number
  protections: TagProtection[]
}

export const tagProtectionFold: Fold<TagProtectionsDocument> = foldOf({
  name: 'tag_protections',
  version: 1,
  ids: ({ data }) => [`${data.repoId}`],
  becomes: {
    TagProtectionSet: (before, { data: { repoId, protection } }) => ({
      repoId,
      protections: withTagProtection(before?.protections ?? [], protection),
    }),
    TagProtectionRemoved: (before, { data: { repoId, id } }) => ({
      repoId,
      protections: (before?.protections ?? []).filter((each) => each.id !== id),
    }),
    RepositoryDeleted: () => undefined,
  },
})

/** Adds a protection, or replaces the one with the same id. */
export function withTagProtection(
  protections: readonly TagProtection[],
  protection: TagProtection,
): TagProtection[] {
  return protections.some(({ id }) => id === protection.id)
    ? protections.map((each) => (each.id === protection.id ? protection : each))
    : [...protections, protection]
}
