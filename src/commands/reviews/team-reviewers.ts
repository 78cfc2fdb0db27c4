/** Parses the teams of a request for reviews. */

import { isPublicReaderOnly } from '../../access/access.ts'
import { isOfficialTeam } from '../../access/review-rules.ts'
import { teamsNamed } from '../../api/organizations/team-paths.ts'
import type { Team } from '../../api/organizations/teams.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { TeamRef } from '../../events/catalog/organizations.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import type { TeamRequest } from './review-request.decider.ts'

const FIELD = 'team_reviewers'

/** A team, with the facts that decide about a request for its review. */
export interface RequestedTeam extends TeamRef {
  /** The permission of its members. */
  permission: 'read' | 'write' | 'admin'
  hasRepository: boolean
}

export function requestedTeam(team: Team, { ownerId, teams }: RepositoryDocument): RequestedTeam {
  if (team.kind === 'owners') return { id: ownerId, name: 'Owners', permission: 'admin', hasRepository: true }
  const { id, name, permission, allRepositories, organizationId } = team.team
  const hasRepository = organizationId === ownerId && (allRepositories || teams.includes(id))
  return { id, name, permission, hasRepository }
}

const unknownTeam = () => new Refused(refuse.notFound('team not found'))

/** Returns the teams with these names, each once; none for public readers. @throws Refused (not found, unprocessable) */
export async function teamReviewers(
  services: Services,
  repository: RepositoryDocument,
  requester: AccountDocument,
  names: readonly string[],
): Promise<RequestedTeam[]> {
  if (names.length > 0 && repository.ownerKind !== 'user' && isPublicReaderOnly(repository, requester))
    throw unknownTeam()
  const { teams, unknown } = await teamsNamed(services, repository, FIELD, names)
  if (unknown !== undefined) throw unknownTeam()
  return teams.map((team) => requestedTeam(team, repository))
}

/** Refuses a team without access to a private repository, as in Gitea. @throws Refused (unprocessable) */
export function requireReaders(
  { private: isPrivate }: RepositoryDocument,
  teams: readonly RequestedTeam[],
): void {
  const stranger = isPrivate ? teams.find(({ hasRepository }) => !hasRepository) : undefined
  if (stranger === undefined) return
  throw new Refused(refuse.unprocessable(`${FIELD}: ${stranger.name} may not read the repository`))
}

/** Returns the requests to decide: each team with its present members and an id. */
export async function teamRequests(
  { views }: Services,
  repository: RepositoryDocument,
  baseBranch: string,
  teams: readonly RequestedTeam[],
  reviewIds: readonly number[],
): Promise<TeamRequest[]> {
  const wanted: TeamRequest[] = []
  for (const [i, team] of teams.entries()) {
    const { id, name } = team
    const filter = id === repository.ownerId ? { ownedIds: id } : { teamIds: id }
    const members = (await views.accounts.ids(filter)).map(Number)
    const official = isOfficialTeam(repository, baseBranch, team)
    wanted.push({ team: { id, name }, reviewId: reviewIds[i] ?? 0, official, members })
  }
  return wanted
}
