/** Keeps the objects that refs have left, with `KEEP_HISTORY_OBJECTS`. */
import type { RefUpdate } from '../../events/catalog/branches.ts'
import { isAncestor } from '../../git/commits/history.ts'
import { falseIfGitFailed } from '../../git/process/errors.ts'
import { keepUnreached } from '../../git/refs/kept-refs.ts'
import { gitDirOf, type Services } from '../../services/services.ts'

/** Number of moves that are examined one by one, mostly without a git process. */
const FEW = 10

/**
 * Keeps what these moves left behind. Call it before the log records them: until then a crash leaves moves that recovery
 * finds and brings here again.
 */
export async function keepLeftObjects(
  services: Pick<Services, 'config' | 'gitDir'>,
  repoId: number,
  moved: readonly RefUpdate[],
): Promise<void> {
  if (!services.config.keepHistoryObjects) return
  const dir = gitDirOf(services, repoId)
  const left = new Set<string>()
  for (const { from, to } of moved) {
    if (from === null || from === to) continue
    const isForward =
      to !== null && moved.length <= FEW && (await isAncestor(dir, from, to).catch(falseIfGitFailed))
    if (!isForward) left.add(from)
  }
  if (left.size > 0) await keepUnreached(dir, left)
}
