/** Which of the issues that one depends on are open, as the log has them. */
import type { IssueRef } from '../../events/domain-events.ts'
import { pullStream } from '../../events/streams.ts'
import type { Services } from '../../services.ts'
import { load } from '../execute.ts'
import { pullDecider } from '../pull-requests/pull-request.ts'

export async function openDependencies(
  { events }: Services,
  dependencies: readonly IssueRef[],
): Promise<IssueRef[]> {
  const open: IssueRef[] = []
  for (const dependency of dependencies) {
    const { state } = await load(events, pullStream(dependency.repoId, dependency.index), pullDecider)
    if (state.status === 'open') open.push(dependency)
  }
  return open
}
