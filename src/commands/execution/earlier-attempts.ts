/**
 * Finds what an earlier attempt of a request with an Idempotency-Key has appended: by a read model, so that it costs the
 * same however long the stream is, also after a restart and on another server.
 */

import type { Appended } from '../../events/store/event-store.ts'
import { isKeyed, keyedEventFold } from '../../projections/models/history/keyed-events.fold.ts'
import type { WriteServices } from '../../services/services.ts'

const { collection } = keyedEventFold
/** To read a stream costs less than to wait longer. */
const WAIT_MS = 500

/**
 * The place of an event of a request with this digest, which has this id. Null when the stream did not have it
 * when this was called; undefined when the read model cannot tell.
 */
export async function earlierAttempt(
  { events, writeState }: WriteServices,
  stream: string,
  { id, digest }: { id: string; digest: string },
): Promise<Appended | null | undefined> {
  if (writeState.keyedEvents === undefined || !isKeyed(digest)) return undefined
  const { projector, readStore } = writeState.keyedEvents
  for await (const end of events.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
    const hasPassed = await projector.waitFor(end.position, WAIT_MS)
    if (!hasPassed || projector.stopped().some(({ name }) => name === collection.name)) return undefined
    const [found] = await readStore.getMany(collection, [id])
    return found === undefined ? null : { revision: found.body.revision, position: found.body.position }
  }
  return null
}
