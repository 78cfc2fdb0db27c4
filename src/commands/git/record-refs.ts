/** Records refs that git has moved: an event names each ref and, for a branch, its new commit. */
import { v5 as uuidV5 } from 'uuid'
import type { GitEvent, RefUpdate } from '../../events/domain-events.ts'
import { gitStream } from '../../events/streams.ts'
import { commitFacts } from '../../git/commits.ts'
import { gitDirOf, type Services } from '../../services.ts'
import { inTurn } from '../../turns.ts'
import { append, type CommandContext } from '../execute.ts'

export interface MovedRef {
  ref: string
  from: string | null
  to: string | null
}

/** At most this many refs go into one event; a larger push is several events in one append. */
const REFS_PER_EVENT = 500
/** Characters of a commit message in an event. Lists show only its beginning, and git has all of it. */
const MAX_MESSAGE = 64 * 1024

const MOVE_NAMESPACE = '0a3e3f0b-6c0f-4f4e-9a53-5a3a2f3f7c52'

/** Appends the moves of refs. They have happened in git already, so no revision is expected. */
export async function recordRefs(
  services: Services,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  moved: readonly MovedRef[],
): Promise<void> {
  if (moved.length === 0) return
  const heads = moved.filter(({ ref, to }) => ref.startsWith('refs/heads/') && to !== null)
  const shas = [...new Set(heads.map(({ to }) => to).filter((sha) => sha !== null))]
  const facts = await commitFacts(gitDirOf(services, repoId), shas)
  const refs = moved.map(({ ref, from, to }): RefUpdate => {
    const fact = to === null || !ref.startsWith('refs/heads/') ? undefined : facts.get(to)
    const commit = fact && {
      sha: fact.sha,
      message: fact.message.slice(0, MAX_MESSAGE),
      author: fact.author,
      committer: fact.committer,
    }
    return { ref, from, to, commit: commit ?? null }
  })
  const events: GitEvent[] = []
  for (let i = 0; i < refs.length; i += REFS_PER_EVENT) {
    events.push({ type: 'RefsUpdated', data: { repoId, cause, refs: refs.slice(i, i + REFS_PER_EVENT) } })
  }
  await append(services.events, context, gitStream(repoId), cause, events, 'any')
}

/**
 * Records the move that merges a pull request. A pull request is merged once. So when recovery records the move
 * again after a crash, it is the same event.
 */
export async function recordMerge(
  services: Services,
  context: CommandContext,
  repoId: number,
  index: number,
  moved: MovedRef,
): Promise<void> {
  const namespace = uuidV5(`${repoId}.${index} ${moved.ref} ${moved.from} ${moved.to}`, MOVE_NAMESPACE)
  const own = { ...context, retry: { namespace, digest: 'merge' } }
  await recordRefs(services, own, repoId, 'merge', [moved])
  context.written = Math.max(context.written, own.written)
}

/** The refs move in this process, so a recovery has no other process to wait for. */
const NO_PROCESS = 0

/**
 * Runs `work`, which moves refs of a repository and records the moves. It waits for its turn with pushes, so that
 * the log has the moves of a branch in git's order. A crash or a failure between the two leaves a marker: the next
 * recovery then records the refs that git has.
 */
export function moveRefs<T>(services: Services, repoId: number, work: () => Promise<T>): Promise<T> {
  return inTurn(gitDirOf(services, repoId), async () => {
    const marker = await services.pushJournal.begin(`${repoId}`, NO_PROCESS)
    try {
      const result = await work()
      await services.pushJournal.finish(marker)
      return result
    } catch (error) {
      services.pushJournal.abandon(marker)
      throw error
    }
  })
}
