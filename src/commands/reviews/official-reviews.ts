/** Finds the reviews and requests that are official by present permissions. */

import { isOfficialReviewer, isOfficialTeam } from '../../access/review-rules.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { ReviewFacts } from '../../projections/models/reviews/review-facts.ts'
import type { Services } from '../../services/services.ts'
import { requestedTeam } from './team-reviewers.ts'

const isOfTeam = ({ kind }: ReviewFacts) => kind === 'team-request'

/** Returns the ids of the official ones. */
export async function officialReviews(
  { views }: Services,
  repository: RepositoryDocument,
  baseBranch: string,
  reviews: readonly ReviewFacts[],
): Promise<ReadonlySet<number>> {
  const idsOf = (some: readonly ReviewFacts[]) => [...new Set(some.map(({ reviewer }) => `${reviewer.id}`))]
  const [accounts, teams] = await Promise.all([
    views.accounts.getMany(idsOf(reviews.filter((review) => !isOfTeam(review)))),
    views.teams.getMany(idsOf(reviews.filter(isOfTeam))),
  ])
  const reviewers = accounts.filter((account) => isOfficialReviewer(repository, baseBranch, account))
  const made = teams.map((team) => requestedTeam({ kind: 'made', team }, repository))
  const owners =
    repository.ownerKind === 'organization' ? [requestedTeam({ kind: 'owners' }, repository)] : []
  const asked = [...made, ...owners].filter((team) => isOfficialTeam(repository, baseBranch, team))
  // Accounts and teams share one id sequence.
  const ids = new Set([...reviewers, ...asked].map(({ id }) => id))
  return new Set(reviews.filter(({ reviewer }) => ids.has(reviewer.id)).map(({ id }) => id))
}
