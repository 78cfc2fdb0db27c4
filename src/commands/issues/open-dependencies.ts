/** Which of the issues that one depends on are open, as the log has them. */
import type { IssueRef } from '../../events/domain-events.ts'
import { repositoryStream } from '../../events/streams.ts'
import type { Services } from '../../services.ts'
import { load } from '../execute.ts'
import { repositoryDecider } from '../repositories/repository.ts'
import { discussionOf } from './dependency-paths.ts'

/** Nobody can close what was deleted with its repository: nothing waits for that. */
export async function openDependencies(
  services: Services,
  dependencies: readonly IssueRef[],
): Promise<IssueRef[]> {
  const open: IssueRef[] = []
  for (const dependency of dependencies) {
    const discussion = await discussionOf(services, dependency)
    if (discussion === undefined || discussion.closed) continue
    const { state } = await load(services.events, repositoryStream(dependency.repoId), repositoryDecider)
    if (state.status === 'active') open.push(dependency)
  }
  return open
}
