/** Commands that count only while a repository is that owner's whose rights were looked at. Pure. */
import { contended } from '../../../errors/refusal.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { Decision } from '../../execution/decider.ts'
import type { RepositoryEvent, RepositoryState } from '../repository.decider.ts'

type Decide<Event> = (state: RepositoryState) => Decision<Event>

/** The requester's rights were those in a repository of this owner. When it has another one since, nothing is decided. */
export const ifStillOwnedBy =
  <Event extends RepositoryEvent>(
    { ownerId }: Pick<RepositoryDocument, 'ownerId'>,
    decide: Decide<Event>,
  ): Decide<Event> =>
  (state) =>
    state.status === 'active' && state.owner.id !== ownerId ? contended : decide(state)
