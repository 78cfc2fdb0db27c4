/** Labels on the wire, and which labels an issue of a repository can have. */
import { type Static, Type } from 'typebox'
import type { LabelScope } from '../events/domain-events.ts'
import type { AccountDocument } from '../projections/accounts.ts'
import { type LabelDocument, scopeKey } from '../projections/labels.ts'
import type { Filter } from '../projections/read-store.ts'
import type { RepositoryDocument } from '../projections/repositories.ts'
import type { Services } from '../services.ts'

export const LabelParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

export const OrganizationLabelParams = Type.Object({ org: Type.String(), id: Type.String() })

export const LabelWire = Type.Object({
  id: Type.Integer(),
  name: Type.String(),
  exclusive: Type.Boolean(),
  is_archived: Type.Boolean(),
  color: Type.String(),
  description: Type.String(),
  url: Type.String(),
})

/** What of a label is on the wire. */
type LabelFacts = Omit<LabelDocument, 'scopeKey' | 'nameKey' | 'createdAt' | 'updatedAt'>

/**
 * The label as Gitea's `Label`. `repository` is one that it can be given in: of an organization's label only
 * the owner counts.
 */
export function labelWire(
  label: LabelFacts,
  repository: { ownerLogin: string; name: string },
  publicUrl: string,
): Static<typeof LabelWire> {
  const { ownerLogin, name } = repository
  const home = label.scope.kind === 'repository' ? `repos/${ownerLogin}/${name}` : `orgs/${ownerLogin}`
  return {
    id: label.id,
    name: label.name,
    exclusive: label.exclusive,
    is_archived: label.archived,
    color: label.color,
    description: label.description,
    url: `${publicUrl}/api/v1/${home}/labels/${label.id}`,
  }
}

/** Where labels belong, with the names that their URLs have. */
export interface LabelHome {
  scope: LabelScope
  ownerLogin: string
  /** Empty for an organization. */
  name: string
}

export function repositoryHome({ id, ownerLogin, name }: RepositoryDocument): LabelHome {
  return { scope: { kind: 'repository', repoId: id }, ownerLogin, name }
}

export function organizationHome({ id, login }: AccountDocument): LabelHome {
  return { scope: { kind: 'organization', organizationId: id }, ownerLogin: login, name: '' }
}

/** Create rule 5: the labels that can be given in a repository are its own and those of its organization. */
export function givenIn(repository: RepositoryDocument): LabelScope[] {
  const own: LabelScope = { kind: 'repository', repoId: repository.id }
  return repository.ownerKind === 'organization'
    ? [own, { kind: 'organization', organizationId: repository.ownerId }]
    : [own]
}

/**
 * The labels with these ids that can be given in the repository: its own and those of its organization. Each
 * once, in the order of the ids; unknown ids are left out. One read.
 */
export async function labelsByIds(
  services: Services,
  repository: RepositoryDocument,
  ids: readonly number[],
): Promise<LabelDocument[]> {
  const keys = new Set(givenIn(repository).map(scopeKey))
  const found = await services.views.labels.getMany([...new Set(ids)].map(String))
  return found.filter((label) => keys.has(label.scopeKey))
}

/** Labels with these names, to the letter; the index knows them in lower case. */
export function named(names: readonly string[]): Filter<LabelDocument> {
  return { nameKey: { $in: names.map((name) => name.toLowerCase()) }, name: { $in: names } }
}

/** Ids of the repository's and its organization's labels with these names, to the letter; unknown ones are left out. */
export async function labelIdsNamed(
  services: Services,
  repository: RepositoryDocument,
  names: readonly string[],
): Promise<number[]> {
  if (names.length === 0) return []
  const scopes = givenIn(repository).map(scopeKey)
  const ids = await services.views.labels.ids({ ...named(names), scopeKey: { $in: scopes } })
  return ids.map(Number)
}
