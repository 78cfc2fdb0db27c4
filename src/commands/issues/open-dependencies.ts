/** Finds the open ones among the issues that an issue depends on, in the log. */
import type { IssueRef } from '../../events/domain-events.ts'
import { repositoryStream } from '../../events/streams.ts'
import type { Services } from '../../services.ts'
import { load } from '../execute.ts'
import { repositoryDecider } from '../repositories/repository.ts'
import { discussionOf } from './dependency-paths.ts'

/** The open dependencies. An issue that was deleted with its repository does not count, since it cannot be closed. */
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
