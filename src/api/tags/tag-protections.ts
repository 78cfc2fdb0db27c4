/** Tag protections on the wire. */
import { type Static, Type } from 'typebox'
import { wholeSeconds } from '../../domain/times.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { TagProtection } from '../../events/catalog/tags.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { teamNames } from '../organizations/team-paths.ts'

export const TagProtectionParams = Type.Object({
  owner: Type.String(),
  repo: Type.String(),
  id: Type.String(),
})

export const TagProtectionWire = Type.Object(
  {
    id: Type.Integer(),
    name_pattern: Type.String(),
    whitelist_usernames: Type.Array(Type.String()),
    whitelist_teams: Type.Array(Type.String()),
    created_at: Type.String(),
    updated_at: Type.String(),
  },
  { title: 'TagProtection' },
)

/** Returns protections as Gitea's `TagProtection`. One look-up reads all named users, and one all teams. */
export async function tagProtectionWires(
  services: Services,
  repository: RepositoryDocument,
  protections: readonly TagProtection[],
): Promise<Static<typeof TagProtectionWire>[]> {
  const ids = new Set(protections.flatMap(({ users }) => users))
  const [accounts, teamsById] = await Promise.all([
    services.views.accounts.getMany([...ids].map(String)),
    teamNames(
      services,
      repository,
      protections.flatMap(({ teams = [] }) => teams),
    ),
  ])
  const logins = new Map(accounts.map(({ id, login }) => [id, login]))
  return protections.map(({ id, pattern, users, teams = [], createdAt, updatedAt }) => ({
    id,
    name_pattern: pattern,
    whitelist_usernames: users.map((user) => logins.get(user)).filter((login) => login !== undefined),
    whitelist_teams: teams.flatMap((team) => teamsById.get(team) ?? []),
    created_at: wholeSeconds(createdAt),
    updated_at: wholeSeconds(updatedAt),
  }))
}

/** Returns the protection with that id on the wire. @throws Refused (not found) */
export async function tagProtectionWire(
  services: Services,
  repository: RepositoryDocument,
  protections: readonly TagProtection[],
  id: number | undefined,
): Promise<Static<typeof TagProtectionWire>> {
  const named = protections.filter((protection) => protection.id === id)
  const [wire] = await tagProtectionWires(services, repository, named)
  if (wire === undefined) throw new Refused(refuse.notFound('tag protection not found'))
  return wire
}

/** Returns the id in a path. @throws Refused (not found) */
export function tagProtectionId(text: string): number {
  const id = pathNumber(text)
  if (id === undefined) throw new Refused(refuse.notFound('tag protection not found'))
  return id
}
