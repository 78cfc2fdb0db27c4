/** The users and the repository of a payload, as its receiver may see them. */
import type { Static } from 'typebox'
import { ownerOf, type RepositoryWire, repositoryWires } from '../../api/repositories/repositories.ts'
import { type UserWire, userWire } from '../../api/users/users.ts'
import type { Envelope } from '../../events/domain-events.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'

/** Common parts of all payloads about one repository. */
export interface PayloadContext {
  repository: RepositoryDocument
  /** Payloads show what the owner of the repository may see, even while the owner's account is disabled. */
  viewer: AccountDocument
  wire: Static<typeof RepositoryWire>
  sender: Static<typeof UserWire>
  /** `https://git.example.org/owner/name` */
  page: string
}

/** Returns the actor of the event, or the owner of the repository when the server acted. */
async function senderOf(services: Services, { metadata }: Envelope, owner: AccountDocument) {
  const { actor } = metadata
  const account = actor === null ? owner : await services.views.accounts.get(`${actor.id}`)
  return userWire(account ?? owner, services.publicUrl())
}

/** Undefined when the repository is gone. */
export async function payloadContextOf(
  services: Services,
  event: Envelope,
  repoId: number,
): Promise<PayloadContext | undefined> {
  const repository = await services.views.repositories.get(`${repoId}`)
  return repository && payloadContextIn(services, event, repository)
}

export async function payloadContextIn(
  services: Services,
  event: Envelope,
  repository: RepositoryDocument,
): Promise<PayloadContext> {
  const owner = await ownerOf(services, repository)
  const viewer = { ...owner, active: true, prohibitLogin: false }
  const [wire] = await repositoryWires(services, [repository], viewer)
  if (wire === undefined) throw new Error(`repository ${repository.id} has no wire form`)
  const sender = await senderOf(services, event, owner)
  return { repository, viewer, wire, sender, page: wire.html_url }
}
