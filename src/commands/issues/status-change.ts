/** Gathers the facts for closing or reopening, from the log. */
import type { IssueRef } from '../../events/catalog/parts.ts'
import { idsStream } from '../../events/streams.ts'
import type { Discussion } from '../../projections/models/issues/discussion.ts'
import type { Services } from '../../services/services.ts'
import { repositories } from '../execution/aggregates.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { discussionOf } from './dependency-paths.ts'
import type { StatusChange } from './discussion.decider.ts'

/** Returns the facts, with a new id for the comment that records the change; without a change it takes no id. */
export async function statusChange(
  services: Services,
  context: CommandContext,
  { closed: isClosed, dependencies }: Pick<Discussion, 'closed' | 'dependencies'>,
  closed: boolean,
): Promise<StatusChange> {
  const changes = isClosed !== closed
  const commentId = changes ? await takeNumber(services, context, idsStream('comment')) : 0
  const open = changes && closed ? await openDependencies(services, dependencies) : []
  return { closed, commentId, openDependencies: open }
}

/** Returns the open dependencies. An issue of a deleted repository does not count, since it cannot be closed. */
export async function openDependencies(
  services: Services,
  dependencies: readonly IssueRef[],
): Promise<IssueRef[]> {
  const open: IssueRef[] = []
  for (const dependency of dependencies) {
    const discussion = await discussionOf(services, dependency)
    if (discussion === undefined || discussion.closed) continue
    const repository = await repositories.load(services, dependency.repoId)
    if (repository.status === 'active') open.push(dependency)
  }
  return open
}
