/** What closing or opening an issue or pull request is decided on. */
import { idsStream } from '../../events/streams.ts'
import type { Discussion } from '../../projections/discussion.ts'
import type { Services } from '../../services.ts'
import type { CommandContext } from '../execute.ts'
import { takeNumber } from '../sequences.ts'
import type { StatusChange } from './discussion.ts'
import { openDependencies } from './open-dependencies.ts'

/** Takes the id of the comment that tells of the change; one that changes nothing needs none. */
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
