/** Labels on the wire, and look-ups of the labels that issues of a repository can have. */
import { type Static, Type } from 'typebox'
import type { LabelScope } from '../../events/catalog/labels.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { type LabelDocument, scopeKey } from '../../projections/models/labels/labels.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Filter } from '../../projections/store/read-store.ts'
import type { Services } from '../../services/services.ts'

export const LabelParams = Type.Object({ owner: Type.String(), repo: Type.String(), id: Type.String() })

export const OrganizationLabelParams = Type.Object({ org: Type.String(), id: Type.String() })

export const LabelWire = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String(),
    exclusive: Type.Boolean(),
    is_archived: Type.Boolean(),
    color: Type.String(),
    description: Type.String(),
    url: Type.String(),
  },
  { title: 'Label' },
)

/** The fields of a label that its wire form needs. */
type LabelFields = Omit<LabelDocument, 'scopeKey' | 'nameKey' | 'createdAt' | 'updatedAt'>

/** Returns a label as Gitea's `Label`. `repository`: one that can use it; an organization's label needs only its owner. */
export function labelWire(
  label: LabelFields,
  repository: { ownerLogin: string; name: string },
  publicUrl: string,
): Static<typeof LabelWire> {
  const { ownerLogin, name } = repository
  const owner = label.scope.kind === 'repository' ? `repos/${ownerLogin}/${name}` : `orgs/${ownerLogin}`
  return {
    id: label.id,
    name: label.name,
    exclusive: label.exclusive,
    is_archived: label.archived,
    color: label.color,
    description: label.description,
    url: `${publicUrl}/api/v1/${owner}/labels/${label.id}`,
  }
}

/** The repository or organization that labels belong to, with the names in their URLs. */
export interface LabelOwner {
  scope: LabelScope
  ownerLogin: string
  /** Empty for an organization. */
  name: string
}

export function repositoryAsLabelOwner({ id, ownerLogin, name }: RepositoryDocument): LabelOwner {
  return { scope: { kind: 'repository', repoId: id }, ownerLogin, name }
}

export function organizationAsLabelOwner({ id, login }: AccountDocument): LabelOwner {
  return { scope: { kind: 'organization', organizationId: id }, ownerLogin: login, name: '' }
}

/** `issues.create.5`: an issue can have the labels of its repository and of the organization that owns the repository. */
export function labelScopesOf(repository: RepositoryDocument): LabelScope[] {
  const own: LabelScope = { kind: 'repository', repoId: repository.id }
  return repository.ownerKind === 'organization'
    ? [own, { kind: 'organization', organizationId: repository.ownerId }]
    : [own]
}

/**
 * Returns the labels with these ids that issues of the repository can have, each once, in the order of the ids. Unknown
 * ids are left out.
 */
export async function labelsByIds(
  services: Services,
  repository: RepositoryDocument,
  ids: readonly number[],
): Promise<LabelDocument[]> {
  const keys = new Set(labelScopesOf(repository).map(scopeKey))
  const found = await services.views.labels.getMany([...new Set(ids)].map(String))
  return found.filter((label) => keys.has(label.scopeKey))
}

/**
 * Returns the id of the label that a path names by id or name; undefined when the owner has no such name. As in Gitea, a
 * number is an id, even of another owner's label.
 */
export async function labelIdIn(
  { views }: Services,
  scope: LabelScope,
  idOrName: string,
): Promise<number | undefined> {
  const id = pathNumber(idOrName)
  if (id !== undefined) return id
  const [named] = await views.labels.ids({ ...labelNameFilter([idOrName]), scopeKey: scopeKey(scope) })
  return named === undefined ? undefined : Number(named)
}

/** Filters labels with exactly these names. It includes the lower-case names, because the index has only those. */
export function labelNameFilter(names: readonly string[]): Filter<LabelDocument> {
  return { nameKey: { $in: names.map((name) => name.toLowerCase()) }, name: { $in: names } }
}

/** Returns the ids of labels with exactly these names that issues of the repository can have, without unknown names. */
export async function labelIdsNamed(
  services: Services,
  repository: RepositoryDocument,
  names: readonly string[],
): Promise<number[]> {
  if (names.length === 0) return []
  const scopes = labelScopesOf(repository).map(scopeKey)
  const ids = await services.views.labels.ids({ ...labelNameFilter(names), scopeKey: { $in: scopes } })
  return ids.map(Number)
}
