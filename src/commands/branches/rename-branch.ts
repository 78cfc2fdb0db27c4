/**
 * Renames a branch: in git, in the settings that name it, and in pull requests. A marker in the push journal holds the
 * request until all is done, so recovery can finish it after a crash:
 *
 * 1. claims of the pull requests under the new name, before that branch exists;
 * 2. the marker; 3. git; 4. settings and the move of the refs, in this order; 5. pull requests.
 *
 * A crash before 3 leaves the old state, and claims that can be taken over. After 3 recovery finishes the rename.
 */
import { randomUUID } from 'node:crypto'
import { type Static, Type } from 'typebox'
import type { GitEvent } from '../../events/catalog/branches.ts'
import {
  type Append,
  type ExpectedRevision,
  LOG_START,
  type Position,
} from '../../events/store/event-store.ts'
import { gitStream, repositoryStream } from '../../events/streams.ts'
import type { PushMarker } from '../../git/push/push-journal.ts'
import { type RefOutcome, readRefs, updateRefs } from '../../git/refs/refs.ts'
import { setDefaultBranch } from '../../git/repository/repository.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import { checkOf } from '../../storage/checked-json.ts'
import { repositories } from '../execution/aggregates.ts'
import { appendAtomically, eventsOf } from '../execution/append.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { earlierResult } from '../execution/idempotency.ts'
import { load } from '../execution/load.ts'
import { JournaledContext, journaledContext, NO_PROCESS } from '../git/journaled-moves.ts'
import { recordRefs } from '../git/record-refs.ts'
import { recordedRefs } from '../git/recorded-refs.ts'
import { withRefLock } from '../git/ref-lock.ts'
import { refsUpdated } from '../git/refs-updated.ts'
import { unlessDeleted } from '../pull-requests/branches/move-heads.ts'
import { claimRenamed, renameInPulls } from '../pull-requests/branches/renamed-branches.ts'
import { mergeLockKey } from '../pull-requests/finish-merge.ts'
import { repositoryDecider } from '../repositories/repository.decider.ts'
import { renamedSettings } from './renamed-settings.ts'

/** The content of a marker: all that is needed to finish the rename for its requester. */
const Rename = Type.Object({
  id: Type.String(),
  repoId: Type.Integer(),
  from: Type.String(),
  to: Type.String(),
  sha: Type.String(),
  ...JournaledContext.properties,
})
type Rename = Static<typeof Rename>
const isRename = checkOf(Rename)

const CAUSE = 'branch-rename'

const headOf = (branch: string) => `refs/heads/${branch}`

/** Parses the rename in a marker. */
export function renameInNote(note: string | undefined): Rename | undefined {
  const rename: unknown = note === undefined ? undefined : JSON.parse(note)
  return isRename(rename) ? rename : undefined
}

/** Returns the context that records a rename: its event ids are always the same. */
function contextOf({ id, repoId: _repoId, from: _from, to: _to, sha: _sha, ...by }: Rename): CommandContext {
  return { ...by, retry: { namespace: id, digest: CAUSE }, written: LOG_START }
}

/**
 * Renames a branch, under the lock of merges, which would miss the old or the new base. `decide` runs under the lock:
 * it resolves to the tip of the branch, or throws. @throws Refused (conflict, unprocessable), also because of pull
 * requests
 */
export function renameBranch(
  services: Services,
  context: CommandContext,
  { repoId, from, to }: { repoId: number; from: string; to: string },
  decide: () => Promise<string>,
): Promise<RefOutcome> {
  const { pushJournal } = services
  return services.runExclusive(mergeLockKey(repoId), async () => {
    let marker: PushMarker | undefined
    try {
      const begun = await withRefLock(services, repoId, async (since) => {
        const sha = await decide()
        const releaseClaims = await claimRenamed(services, context, { repoId, from, to })
        const rename = { id: randomUUID(), repoId, from, to, sha, ...journaledContext(context) }
        marker = await pushJournal.begin(`${repoId}`, NO_PROCESS, JSON.stringify(rename))
        const outcome = await updateRefs(gitDirOf(services, repoId), changesOf(rename))
        if (outcome !== 'moved') {
          await releaseClaims()
          return { outcome }
        }
        return { outcome, rename, position: await record(services, rename, since) }
      })
      if (begun.rename !== undefined) {
        context.written = Math.max(context.written, begun.position)
        await renameInPulls(services, context, begun.rename, begun.position)
      }
      if (marker !== undefined) await pushJournal.finish(marker)
      return begun.outcome
    } catch (error) {
      if (marker !== undefined) pushJournal.abandon(marker)
      throw error
    }
  })
}

/**
 * Finishes the rename of a marker in git and in the log, under the ref lock. Resolves to the position of its event;
 * undefined when git had not renamed the branch, which then keeps its name.
 */
export async function finishRename(services: Services, rename: Rename): Promise<Position | undefined> {
  const { repoId, from, to, sha } = rename
  const context = contextOf(rename)
  const dir = gitDirOf(services, repoId)
  const now = await readRefs(dir, [headOf(from), headOf(to)]).catch(unlessDeleted)
  if (now === undefined) return undefined
  if (await earlierResult(services, context, gitStream(repoId), CAUSE)) {
    await alignHead(services, rename)
    return context.written
  }
  const { refs, revision } = await recordedRefs(services, repoId)
  const isBegun = now.get(headOf(from)) === null && refs.get(headOf(from)) === sha
  if (now.get(headOf(to)) === null || (refs.has(headOf(to)) && !isBegun)) return undefined
  // git creates the new ref first. A killed git may have left the old one.
  if (now.get(headOf(from)) === sha) await updateRefs(dir, [{ ref: headOf(from), from: sha, to: null }])
  return await record(services, rename, revision)
}

/** Renames the branch in pull requests, after `finishRename`. Read models must have passed the position. */
export async function finishRenameInPulls(
  services: Services,
  rename: Rename,
  position: Position,
): Promise<void> {
  const { retry: _retry, ...context } = contextOf(rename)
  await renameInPulls(services, context, rename, position)
}

const changesOf = ({ from, to, sha }: Rename) => [
  { ref: headOf(from), from: sha, to: null },
  { ref: headOf(to), from: null, to: sha },
]

/**
 * Records the settings and the move of the refs: in one append where the log supports it, otherwise settings first,
 * so that the default branch exists for readers of the move. Resolves to the position of the move.
 */
async function record(services: Services, rename: Rename, since: ExpectedRevision): Promise<Position> {
  const { repoId } = rename
  const context = contextOf(rename)
  if (!(await recordAtomically(services, context, rename, since))) {
    await repositories.change(services, context, repoId, CAUSE, (state) => renamedSettings(state, rename))
    await recordRefs(services, context, repoId, CAUSE, changesOf(rename), since)
  }
  await alignHead(services, rename)
  return context.written
}

async function recordAtomically(
  services: Services,
  context: CommandContext,
  rename: Rename,
  since: ExpectedRevision,
): Promise<boolean> {
  const { events } = services
  const { repoId } = rename
  if (events.appendTogether === undefined) return false
  const stream = repositoryStream(repoId)
  const { state, revision } = await load(services, stream, repositoryDecider)
  const settings = renamedSettings(state, rename)
  if (settings.length === 0 || revision === null) return false
  const moves: GitEvent[] = []
  for await (const data of refsUpdated(gitDirOf(services, repoId), repoId, CAUSE, changesOf(rename))) {
    moves.push({ type: 'RefsUpdated', data })
  }
  const git = gitStream(repoId)
  const appends: Append[] = [
    { stream, events: eventsOf(context, stream, CAUSE, settings), expected: revision },
    { stream: git, events: eventsOf(context, git, CAUSE, moves), expected: since },
  ]
  return await appendAtomically(services, context, appends)
}

/** Points git's HEAD to the default branch. Idempotent. */
async function alignHead(services: Services, { repoId, to }: Rename): Promise<void> {
  const state = await repositories.load(services, repoId)
  if (state.status !== 'active' || state.settings.defaultBranch !== to) return
  await setDefaultBranch(gitDirOf(services, repoId), to)
}
