/** Maintains a repository's files and records their size. One repository at a time in the installation. */
import { setTimeout as delay } from 'node:timers/promises'
import { isShared } from '../../config/config.ts'
import { removeUnknownLfsFiles } from '../../git/lfs/lfs-files.ts'
import { GitFailed, GitUnavailable } from '../../git/process/errors.ts'
import { languagesOf } from '../../git/repository/languages.ts'
import {
  type MaintenanceKind,
  type MaintenanceStep,
  maintainRepository,
  UNREACHABLE_DAYS,
} from '../../git/repository/maintenance.ts'
import { bytesBelow, packsOf } from '../../git/repository/object-counts.ts'
import type { DiskUsageDocument } from '../../projections/installation/disk-usage.ts'
import { filesOfRepository } from '../../projections/models/attachments/attached-files.fold.ts'
import { branchId } from '../../projections/models/branches/branches.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { exists } from '../../storage/disk.ts'
import { recordedLfsObjects } from '../lfs/record-objects.ts'
import { moveRefs } from './change-refs.ts'

/** The key of the lock. Its holder takes no other lock but that of the refs, briefly. */
const MAINTENANCE_LOCK = 'maintenance'

export type MaintenanceServices = Pick<
  Services,
  'config' | 'events' | 'runExclusive' | 'pushJournal' | 'views' | 'diskUsage' | 'gitDir' | 'startedAt'
>

export interface MaintainOptions {
  /** `measure`: only records sizes. */
  kind: 'measure' | 'due' | 'full'
  signal?: AbortSignal | undefined
  onStep?: (step: MaintenanceStep) => void
  /** Whether to sum the attachments again. The first maintenance always does. */
  countAttachments?: boolean
  /** Returns whether the repository has changed meanwhile; called at the end. */
  hasChanged?: () => boolean
}

export interface Maintained {
  kind: MaintenanceKind
  usage: DiskUsageDocument
}

const DAY = 24 * 3600_000
/** Interval of the full maintenance, in milliseconds. */
const FULL_AFTER = 7 * DAY
/** Time after which the full maintenance removes a cruft pack, in milliseconds. */
const EXPIRY_AFTER = (UNREACHABLE_DAYS + 2) * DAY

/**
 * Maintains a repository. Resolves to what was done; undefined when the repository is deleted.
 * @throws as `maintainRepository`, and StoreUnavailable
 */
export function maintain(
  services: MaintenanceServices,
  repoId: number,
  options: MaintainOptions,
): Promise<Maintained | undefined> {
  return services.runExclusive(MAINTENANCE_LOCK, () => maintainNow(services, repoId, options))
}

async function maintainNow(
  services: MaintenanceServices,
  repoId: number,
  { kind, signal, onStep, countAttachments = false, hasChanged = () => false }: MaintainOptions,
): Promise<Maintained | undefined> {
  signal?.throwIfAborted()
  const { views, diskUsage, config, startedAt } = services
  const repository = await views.repositories.get(`${repoId}`)
  if (repository === undefined || !(await exists(gitDirOf(services, repoId)))) {
    await diskUsage.remove(repoId)
    return undefined
  }
  const dir = gitDirOf(services, repoId)
  const before = await diskUsage.get(repoId)
  const isDue = before !== undefined && before.dueAt > 0 && before.dueAt <= Date.now()
  const done =
    kind === 'measure'
      ? 'none'
      : await maintainRepository(dir, {
          kind: isDue ? 'full' : kind,
          // With a marker, so the next start removes leftovers of a crash.
          withRefLock: (work) => moveRefs(services, repoId, work),
          ...(!isShared(config) && { orphanedBefore: startedAt() }),
          signal,
          ...(onStep && { onStep }),
        })
  if (done === 'full') await removeUnknownLfsFiles(dir, await recordedLfsObjects(services, repoId))
  const measuredAt = new Date().toISOString()
  const gitBytes = await bytesBelow(dir)
  const isCounted = before !== undefined && before.measuredAt !== '' && !countAttachments
  const attachmentBytes = isCounted ? before.attachmentBytes : await attachmentBytesOf(services, repoId)
  const languages = await languagesNow(services, repository, before, signal)
  const hasCruft = (await packsOf(dir)).some(({ isCruft }) => isCruft)
  const usage: DiskUsageDocument = {
    repoId,
    ownerId: repository.ownerId,
    gitBytes,
    attachmentBytes,
    totalBytes: gitBytes + attachmentBytes,
    ...(languages && { languages }),
    measuredAt,
    pending: hasChanged(),
    dueAt: kind === 'measure' ? (before?.dueAt ?? 0) : dueAfter(done, before?.dueAt ?? 0, hasCruft),
  }
  // The repository may be deleted meanwhile. If the view lags, that event will remove the record.
  const now = await views.repositories.get(`${repoId}`)
  if (now === undefined) return undefined
  // Its owner may have changed, too.
  await diskUsage.put({ ...usage, ownerId: now.ownerId })
  return { kind: done, usage }
}

/** Returns the bytes of the default branch by language. Recounts only after the branch has moved. */
async function languagesNow(
  services: MaintenanceServices,
  { id, defaultBranch }: RepositoryDocument,
  before: DiskUsageDocument | undefined,
  signal: AbortSignal | undefined,
): Promise<DiskUsageDocument['languages']> {
  const commit = (await services.views.branches.get(branchId(id, defaultBranch)))?.commit.sha
  if (commit === undefined) return undefined
  if (before?.languages?.commit === commit) return before.languages
  try {
    return { commit, bytes: await languagesOf(gitDirOf(services, id), commit, { signal }) }
  } catch (error) {
    // The branch has moved, or git took too long: the sizes are still valid.
    if (error instanceof GitFailed || error instanceof GitUnavailable) return before?.languages
    throw error
  }
}

function dueAfter(done: MaintenanceKind, before: number, hasCruft: boolean): number {
  const now = Date.now()
  if (done === 'full') return hasCruft ? now + EXPIRY_AFTER : 0
  // The repository was measured because it has changed.
  return before === 0 ? now + FULL_AFTER : Math.min(before, now + FULL_AFTER)
}

/** Sums the sizes of all attachments and release assets of a repository. Yields to the event loop. */
async function attachmentBytesOf({ views }: MaintenanceServices, repoId: number): Promise<number> {
  let bytes = 0
  for await (const files of filesOfRepository(views, repoId)) {
    for (const { size } of files) bytes += size
    await delay(1)
  }
  return bytes
}
