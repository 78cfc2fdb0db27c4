/** Whether the first attempt of a retried request has changed a ref already. */
import type { GitEvent } from '../../events/domain-events.ts'
import { gitStream } from '../../events/streams.ts'
import type { RefChange } from '../../git/refs.ts'
import { Refused, refuse } from '../../refusal.ts'
import type { Services } from '../../services.ts'
import { earlierAttempt } from '../earlier-attempts.ts'
import { type CommandContext, eventsOf } from '../execute.ts'

/** Where the read models do not know older events, these are not looked at. */
const MAX_EVENTS = 500

/** @throws Refused (unprocessable) when the Idempotency-Key was used with another body */
export async function isRecorded(
  { events }: Pick<Services, 'events'>,
  context: CommandContext,
  repoId: number,
  cause: GitEvent['data']['cause'],
  change: RefChange,
): Promise<boolean> {
  const { retry } = context
  if (retry === undefined) return false
  const stream = gitStream(repoId)
  const data = { repoId, cause, refs: [change], commits: [] }
  const [same] = eventsOf(context, stream, cause, [{ type: 'RefsUpdated', data }])
  if (same === undefined) return false
  const place = await earlierAttempt(events, stream, { id: same.id, digest: retry.digest })
  if (place === null) return false
  const newest = {
    direction: 'backwards',
    maxCount: MAX_EVENTS,
    ...(place && { from: place.revision }),
  } as const
  for await (const { id, position, metadata } of events.readStream(stream, newest)) {
    if (id !== same.id) continue
    if (metadata.request !== retry.digest) {
      throw new Refused(refuse.unprocessable('this Idempotency-Key was used with another request body'))
    }
    context.written = Math.max(context.written, position)
    return true
  }
  return false
}
