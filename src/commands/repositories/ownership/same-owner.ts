/** Guards commands against a change of the owner. Pure. */
import { contended } from '../../../errors/refusal.ts'
import type { RepositoryDocument } from '../../../projections/models/repositories/repositories.fold.ts'
import type { Decision } from '../../execution/decider.ts'
import type { RepositoryEvent, RepositoryState } from '../repository.decider.ts'

type Decide<Event> = (state: RepositoryState) => Decision<Event>

/** Refuses when the owner has changed since the requester's permission was checked. */
export const ifStillOwnedBy =
  <Event extends RepositoryEvent>(
    { ownerId }: Pick<RepositoryDocument, 'ownerId'>,
    decide: Decide<Event>,
  ): Decide<Event> =>
  (state) =>
    state.status === 'active' && state.owner.id !== ownerId ? contended : decide(state)
