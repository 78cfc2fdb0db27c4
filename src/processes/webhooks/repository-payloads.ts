/** The payloads about repositories themselves: `fork` and `repository`. */

import { ownerOf } from '../../api/repositories/repositories.ts'
import { userWire } from '../../api/users/users.ts'
import type { Envelope } from '../../events/domain-events.ts'
import { repositoryStream } from '../../events/streams.ts'
import { repositoryFold } from '../../projections/models/repositories/repositories.fold.ts'
import { replayStream } from '../../queries/history/replay/replay-stream.ts'
import type { Services } from '../../services/services.ts'
import { type PayloadContext, payloadContextIn, payloadContextOf } from './payload-context.ts'

/** As in Gitea, `forkee` is the forked repository and `repository` the fork. */
export async function forkPayload(services: Services, event: Envelope, parentId: number, forkId: number) {
  const [parent, fork] = await Promise.all([
    payloadContextOf(services, event, parentId),
    payloadContextOf(services, event, forkId),
  ])
  return parent && fork && { forkee: parent.wire, repository: fork.wire, sender: fork.sender }
}

async function payloadOf(
  services: Services,
  { repository, wire, sender }: PayloadContext,
  action: 'created' | 'deleted',
) {
  const organization = userWire(await ownerOf(services, repository), services.publicUrl())
  return { action, repository: wire, organization, sender }
}

export async function createdPayload(services: Services, event: Envelope, repoId: number) {
  const context = await payloadContextOf(services, event, repoId)
  return context && payloadOf(services, context, 'created')
}

/** Shows a deleted repository as it was before. */
export async function deletedPayload(services: Services, event: Envelope, repoId: number) {
  const { revision } = event
  const before = { revision: revision - 1 }
  const stream = repositoryStream(repoId)
  const { document } = await replayStream(services, stream, repositoryFold, `${repoId}`, before)
  return document && payloadOf(services, await payloadContextIn(services, event, document), 'deleted')
}
