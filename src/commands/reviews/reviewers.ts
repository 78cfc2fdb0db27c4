/** Parses the users and teams that a request asks for reviews. */
import { type Static, Type } from 'typebox'
import { accessTo, atLeast, isPublicReaderOnly } from '../../access/access.ts'
import { isOfficialReviewer } from '../../access/review-rules.ts'
import { userNamed } from '../../api/users/users.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { requireListFits } from '../../events/store/append-size.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'
import type { TeamRequest, UserRequest } from './review-request.decider.ts'
import { type RequestedTeam, requireReaders, teamRequests, teamReviewers } from './team-reviewers.ts'

const MAX_REVIEWERS = 50
/**
 * Maximum number of teams in a request: an event lists the members of a team, and an append has all events of the
 * request.
 */
const MAX_TEAM_REVIEWERS = 20

/** Body fields of reviewers. */
export const reviewerOptions = {
  reviewers: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: MAX_REVIEWERS,
      description: 'Logins or public email addresses of reviewers',
    }),
  ),
  team_reviewers: Type.Optional(
    Type.Array(Type.String(), {
      maxItems: MAX_TEAM_REVIEWERS,
      description: 'Names of teams of the owner, an organization',
    }),
  ),
}

const ReviewerOptions = Type.Object(reviewerOptions, { title: 'ReviewerOptions' })

export interface Reviewers {
  people: AccountDocument[]
  teams: RequestedTeam[]
}

/** Returns the named users and teams, each once. @throws Refused (not found) */
export async function reviewersNamed(
  services: Services,
  repository: RepositoryDocument,
  requester: AccountDocument,
  { reviewers, team_reviewers: names }: Static<typeof ReviewerOptions>,
): Promise<Reviewers> {
  const found = new Map<number, AccountDocument>()
  for (const name of given(reviewers)) {
    const account = name.includes('@')
      ? await services.views.accounts.findOne({ kind: 'user', email: name, showEmail: true })
      : await userNamed(services, name)
    if (account === undefined) throw new Refused(refuse.notFound('user not found'))
    found.set(account.id, account)
  }
  const teams = await teamReviewers(services, repository, requester, given(names))
  return { people: [...found.values()], teams }
}

const given = (names: readonly string[] | null | undefined) => (names ?? []).filter((name) => name !== '')

/** Returns the requested reviewers, who must have read access. @throws Refused (not found, unprocessable) */
export async function reviewersAsked(
  services: Services,
  repository: RepositoryDocument,
  requester: AccountDocument,
  options: Static<typeof ReviewerOptions>,
): Promise<Reviewers> {
  const asked = await reviewersNamed(services, repository, requester, options)
  const stranger = asked.people.find((reviewer) => !atLeast(accessTo(repository, reviewer), 'read'))
  if (stranger !== undefined) {
    throw new Refused(refuse.unprocessable(`reviewers: ${stranger.login} may not read the repository`))
  }
  requireReaders(repository, asked.teams)
  return asked
}

/**
 * Returns the requests to decide. `ids`: one for each. @throws Refused (unprocessable) when the teams have too many
 * members
 */
export async function reviewRequests(
  services: Services,
  repository: RepositoryDocument,
  requester: AccountDocument,
  baseBranch: string,
  { people, teams }: Reviewers,
  ids: readonly number[],
): Promise<{ wanted: UserRequest[]; asked: TeamRequest[] }> {
  // An official request would reveal who may write, so requests by public readers are never official.
  const mayBeOfficial = !isPublicReaderOnly(repository, requester)
  const wanted = people.map((reviewer, i) => ({
    reviewer: { id: reviewer.id, login: reviewer.login },
    reviewId: ids[i] ?? 0,
    official: mayBeOfficial && isOfficialReviewer(repository, baseBranch, reviewer),
  }))
  const asked = await teamRequests(services, repository, baseBranch, teams, ids.slice(people.length))
  return { wanted, asked }
}

/**
 * Refuses teams whose members do not fit into the append that opens the pull request. @throws Refused (unprocessable)
 */
export function requireTeamsFit(asked: readonly TeamRequest[]): void {
  requireListFits('team_reviewers', asked)
}
