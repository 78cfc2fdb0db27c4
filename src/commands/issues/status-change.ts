/** Gathers the facts for the decision to close or reopen an issue or pull request. */
import { idsStream } from '../../events/streams.ts'
import type { Discussion } from '../../projections/discussion.ts'
import type { Services } from '../../services.ts'
import type { CommandContext } from '../execute.ts'
import { takeNumber } from '../sequences.ts'
import type { StatusChange } from './discussion.ts'
import { openDependencies } from './open-dependencies.ts'

/** The facts, with a new id for the comment that records the change. Nothing is taken when nothing changes. */
export async function statusChange(
  services: Services,
  context: CommandContext,
  { closed: isClosed, dependencies }: Pick<Discussion, 'closed' | 'dependencies'>,
  closed: boolean,
): Promise<StatusChange> {
  const changes = isClosed !== closed
  const commentId = changes ? await takeNumber(services.events, context, idsStream('comment')) : 0
  const open = changes && closed ? await openDependencies(services, dependencies) : []
  return { closed, commentId, openDependencies: open }
}
