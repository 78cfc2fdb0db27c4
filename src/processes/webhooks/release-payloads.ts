/** The payload about a release as of the event. */

import { releaseWire } from '../../api/releases/releases.ts'
import type { Envelope } from '../../events/domain-events.ts'
import { releaseFold } from '../../projections/models/releases/releases.fold.ts'
import { replayStream } from '../../queries/history/replay/replay-stream.ts'
import type { Services } from '../../services/services.ts'
import { payloadContextOf } from './payload-context.ts'

/** Shows a deleted release as it was before. */
export async function releasePayload(
  services: Services,
  event: Envelope,
  { releaseId, repoId }: { releaseId: number; repoId: number },
  action: 'published' | 'updated' | 'deleted',
) {
  const context = await payloadContextOf(services, event, repoId)
  if (context === undefined) return undefined
  const { stream, revision } = event
  const until = { revision: action === 'deleted' ? revision - 1 : revision }
  const { document } = await replayStream(services, stream, releaseFold, `${releaseId}`, until)
  if (document === undefined) return undefined
  const release = await releaseWire(services, context.repository, document)
  return { action, release, repository: context.wire, sender: context.sender }
}
