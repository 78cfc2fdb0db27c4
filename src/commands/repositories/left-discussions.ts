/** Takes the issues, pull requests and comments of a deleted repository out of the read models. Their events stay. */
import type { LeftDiscussions } from '../../events/domain-events.ts'
import { StoreUnavailable } from '../../events/event-store.ts'
import { repositoryStream } from '../../events/streams.ts'
import type { Services } from '../../services.ts'
import { append, type CommandContext } from '../execute.ts'

/** So many are removed by one event, and so are all documents that each of them has. */
const AT_ONCE = 500
/** So many are read together: texts may be long. */
const READ_AT_ONCE = 50

/**
 * Removes all of them, one part after the other: the next one when the read models have the one before, so that others wait
 * for one part at most. To be called again after a crash.
 */
export async function removeLeft(services: Services, context: CommandContext, repoId: number): Promise<void> {
  const { events, projector, config } = services
  for (let before: string | number | undefined; ; ) {
    const left = await nextLeft(services, repoId)
    const [first] = [...left.issues, ...left.comments.map(({ id }) => `comment ${id}`)]
    // A read model that has stopped shows the same for ever; it removes them when it goes on.
    if (first === undefined || first === before) return
    before = first
    const removed = { type: 'LeftDiscussionsRemoved', data: { repoId, left } } as const
    await append(
      events,
      context,
      repositoryStream(repoId),
      `remove from ${first}`,
      [removed],
      'stream-exists',
    )
    if (!(await projector.waitFor(context.written, config.projectionWaitMs)))
      throw new StoreUnavailable('the read models lag: what a deleted repository left is removed later')
  }
}

/** Comments first: without its issue nobody would know where a comment was. */
async function nextLeft({ views }: Services, repoId: number): Promise<LeftDiscussions> {
  const comments: LeftDiscussions['comments'] = []
  while (comments.length < AT_ONCE) {
    const later = { repoId, id: { $gt: comments.at(-1)?.id ?? 0 } }
    const found = await views.comments.find(later, { sort: [['id', 1]], limit: READ_AT_ONCE })
    comments.push(...found.map(({ id, index }) => ({ id, index })))
    if (found.length < READ_AT_ONCE) break
  }
  if (comments.length > 0) return { issues: [], comments }
  const issues: LeftDiscussions['issues'] = []
  for (let last: number | undefined; issues.length < AT_ONCE; ) {
    const older = { repoId, ...(last !== undefined && { id: { $lt: last } }) }
    const found = await views.issues.find(older, { sort: [['id', -1]], limit: READ_AT_ONCE })
    issues.push(...found.map(({ index }) => index))
    last = found.at(-1)?.id
    if (found.length < READ_AT_ONCE) break
  }
  return { issues, comments }
}
