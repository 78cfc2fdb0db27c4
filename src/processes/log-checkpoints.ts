/**
 * Signs a checkpoint of the log every hour when the log has grown. All nodes try; the lock and the expected revision let one
 * of them append it.
 */
import { randomUUID } from 'node:crypto'
import { append } from '../commands/execution/append.ts'
import { newContext } from '../commands/execution/command-context.ts'
import { createWorker } from '../concurrency/worker.ts'
import { checkpointText } from '../domain/transparency/checkpoint.ts'
import { rootOf } from '../domain/transparency/merkle-tree.ts'
import { signNote } from '../domain/transparency/signed-note.ts'
import type { LogEvent } from '../events/catalog/log.ts'
import { WrongExpectedRevision } from '../events/store/event-store.ts'
import { LOG_CHECKPOINTS_STREAM } from '../events/streams.ts'
import type { LogCheckpoints, SignedCheckpoint } from '../services/log-checkpoints.ts'
import type { Services } from '../services/services.ts'

/** Minimum time between two checkpoints, in milliseconds. */
const EVERY_MS = 60 * 60_000
const LOCK = 'log checkpoint'

type CheckpointServices = Pick<Services, 'events' | 'writeState' | 'runExclusive' | 'log'>

/**
 * Adds the new events to the tree, and signs a checkpoint when it is due. `now`: milliseconds since 1970. Resolves to the
 * time until the next one, in milliseconds.
 */
export function signCheckpoint(
  services: CheckpointServices,
  checkpoints: LogCheckpoints,
  signal: AbortSignal,
  now = Date.now(),
): Promise<number> {
  return services.runExclusive(LOCK, async () => {
    const { tree } = checkpoints
    const size = await tree.extend(signal)
    const last = await checkpoints.latest()
    const wait = last === undefined ? 0 : Date.parse(last.at) + EVERY_MS - now
    // A later time was written before the clock was set back.
    if (wait > 0 && wait <= EVERY_MS) return wait
    // The event of the last checkpoint is not covered by it.
    const covered = last === undefined ? 0 : last.size + 1
    if (size === covered) return EVERY_MS
    const root = await rootOf(size, tree.nodeReader())
    if (last !== undefined && !(await startsWith(checkpoints, size, last))) {
      services.log.error(
        { size: last.size, note: last.note },
        'the log does not start with the events of its last checkpoint, so no other one is signed: "mergelog verify" tells more',
      )
      return EVERY_MS
    }
    await appendCheckpoint(services, checkpoints, { size, root, last, now })
    return EVERY_MS
  })
}

/** Whether the log of `size` events starts with those of a checkpoint. */
async function startsWith({ tree }: LogCheckpoints, size: number, last: SignedCheckpoint): Promise<boolean> {
  if (size < last.size) return false
  const root = await rootOf(last.size, tree.nodeReader())
  return Buffer.from(root).toString('base64') === last.root
}

async function appendCheckpoint(
  services: CheckpointServices,
  { signer: { origin, privateKey } }: LogCheckpoints,
  next: { size: number; root: Uint8Array; last: SignedCheckpoint | undefined; now: number },
): Promise<void> {
  const { size, root, last, now } = next
  const note = signNote(checkpointText({ origin, size, root }), origin, privateKey)
  const data = { size, root: Buffer.from(root).toString('base64'), note }
  const signed: LogEvent = { type: 'LogCheckpointSigned', data }
  const context = { ...newContext(null, randomUUID()), at: new Date(now).toISOString() }
  const expected = last?.revision ?? 'no-stream'
  try {
    await append(services, context, LOG_CHECKPOINTS_STREAM, 'sign', [signed], expected)
  } catch (error) {
    // Another node has signed one meanwhile.
    if (!(error instanceof WrongExpectedRevision)) throw error
  }
}

/** Creates the worker that signs. Without a key it does nothing. */
export function createCheckpointSigner(services: Services, signal: AbortSignal) {
  const { checkpoints, log } = services
  if (checkpoints === undefined) return { start() {}, stopped: async () => {} }
  const worker = createWorker<{ id: string; account: string }>(
    {
      places: 1,
      load: async () => void worker.add({ id: LOCK, account: 'server' }),
      work: () => signCheckpoint(services, checkpoints, signal),
      failed: (error) =>
        log.warn({ err: error }, 'no checkpoint of the log could be signed; it will be tried again'),
    },
    signal,
  )
  return { start: () => worker.start(), stopped: worker.stopped }
}
