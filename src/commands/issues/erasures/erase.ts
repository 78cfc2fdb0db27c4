/** Erases texts: records the erasure, destroys keys and files, and records the end. */

import { contended, isRefusal, Refused } from '../../../errors/refusal.ts'
import type { DiscussionEvent } from '../../../events/catalog/issues.ts'
import type { IssueRef } from '../../../events/catalog/parts.ts'
import {
  type EventStore,
  StoreUnavailable,
  WrongExpectedRevision,
} from '../../../events/store/event-store.ts'
import { discussionStream } from '../../../events/streams.ts'
import { RebuildUnderWay } from '../../../projections/projector/rebuild.ts'
import { READ_MODELS } from '../../../projections/views/views.ts'
import type { Services } from '../../../services/services.ts'
import { append } from '../../execution/append.ts'
import type { CommandContext } from '../../execution/command-context.ts'
import {
  addErasable,
  decideErase,
  type Erasable,
  type ErasurePreview,
  emptyErasable,
  previewErasure,
} from './erasure.decider.ts'

export type ErasureServices = Pick<
  Services,
  | 'events'
  | 'writeState'
  | 'texts'
  | 'secrets'
  | 'readStore'
  | 'projector'
  | 'rebuilder'
  | 'attachments'
  | 'runExclusive'
> & { moments: Pick<Services['moments'], 'forget'> }

type Discussion = IssueRef & { isPull: boolean }

const lockKeyOf = ({ repoId, index }: Discussion) => `erasure of ${repoId}.${index}`

/** Maximum number of attempts to append under concurrent appends. */
const MAX_APPENDS = 100
/** Maximum wait for the read models, in milliseconds. */
const PROJECTION_MS = 10_000

async function erasableIn(stored: EventStore, issue: Discussion): Promise<Erasable> {
  const facts = emptyErasable()
  for await (const event of stored.readStream(discussionStream(issue))) addErasable(facts, event)
  return facts
}

/** Lists what `eraseTexts` would erase. `stored`: the log with sealed texts. @throws Refused as `eraseTexts` */
export async function dryRunErasure(
  stored: EventStore,
  { actor: by, at }: CommandContext,
  issue: Discussion,
  commentId: number | null,
): Promise<ErasurePreview> {
  const found = previewErasure(await erasableIn(stored, issue), commentId, { by, at })
  if ('refused' in found) throw new Refused(found)
  return found
}

/**
 * Erases all present texts of an issue or pull request, or those of one comment. Resolves when they are gone from the
 * caches and files of this server. Does nothing without texts to erase.
 * @throws Refused: not found, or conflict for texts that were never sealed
 * @throws StoreUnavailable when it is recorded but not finished; `finishErasure` finishes it later
 */
export async function eraseTexts(
  services: ErasureServices,
  context: CommandContext,
  issue: Discussion,
  commentId: number | null,
): Promise<void> {
  await recordErasure(services, context, issue, commentId)
  await finishErasure(services, context, issue)
}

async function recordErasure(
  services: ErasureServices,
  context: CommandContext,
  issue: Discussion,
  commentId: number | null,
): Promise<void> {
  for (let i = 0; i < MAX_APPENDS; i++) {
    const facts = await erasableIn(services.texts.stored, issue)
    const decision = decideErase(facts, commentId, { by: context.actor, at: context.at })
    if (isRefusal(decision)) throw new Refused(decision)
    if (decision.length === 0) return
    try {
      await append(services, context, discussionStream(issue), 'erase', decision, facts.revision)
      return
    } catch (error) {
      if (!(error instanceof WrongExpectedRevision)) throw error
    }
  }
  throw new Refused(contended)
}

/**
 * Finishes the recorded erasures of an issue or pull request, one node at a time. Each step is idempotent.
 * @throws StoreUnavailable when a store, a stopped read model, a rebuild or a reader of the files prevents it
 */
export function finishErasure(
  services: ErasureServices,
  context: CommandContext,
  issue: Discussion,
): Promise<void> {
  return services.runExclusive(lockKeyOf(issue), async () => {
    const { pending } = await erasableIn(services.texts.stored, issue)
    const last = pending.at(-1)
    if (last === undefined) return
    const { texts, attachments } = services
    for (const { keys, by, at } of pending) await texts.keys.erase(keys, { by, at })
    texts.forget()
    const files = pending.flatMap((erasure) => erasure.files)
    for (const uuid of files) await attachments.remove(uuid)
    await waitForModels(services, issue, last.revision)
    await purge(services)
    const { repoId, index } = issue
    const finished: DiscussionEvent = {
      type: 'ErasureFinished',
      data: {
        repoId,
        index,
        upTo: last.revision,
        texts: pending.reduce((sum, { keys }) => sum + keys.length, 0),
        files: files.length,
      },
    }
    await append(services, context, discussionStream(issue), 'erased', [finished], 'any')
  })
}

/** Waits until all read models have passed the erasure, including stopped ones. */
async function waitForModels(
  { events, projector }: ErasureServices,
  issue: Discussion,
  revision: number,
): Promise<void> {
  for await (const { position } of events.readStream(discussionStream(issue), {
    from: revision,
    maxCount: 1,
  })) {
    const passed = await projector.waitFor(position, PROJECTION_MS)
    const behind = projector
      .status()
      .find((model) => model.stopped !== undefined && model.position < position)
    if (passed && behind === undefined) return
    const reason = behind === undefined ? 'the read models lag' : `the read model ${behind.name} has stopped`
    throw new StoreUnavailable(`the erasure is recorded, but not finished: ${reason}`)
  }
}

/** Removes the erased texts from the files of embedded stores. */
async function purge({ readStore, secrets, rebuilder, moments }: ErasureServices): Promise<void> {
  try {
    // A rebuild may have read the texts before, and still be writing them.
    rebuilder.requireFree()
  } catch (error) {
    if (!(error instanceof RebuildUnderWay)) throw error
    throw new StoreUnavailable('the erasure is recorded; it is finished after the rebuild', { cause: error })
  }
  if (readStore.purge !== undefined) await rebuilder.freeSpares(READ_MODELS)
  await Promise.all([readStore.purge?.(), secrets.purge?.(), moments.forget()])
}
