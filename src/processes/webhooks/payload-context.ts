/** The people and the repository of a payload, as its receiver may see them. */
import type { Static } from 'typebox'
import { ownerOf, type RepositoryWire, repositoryWires } from '../../api/repositories/repositories.ts'
import { type UserWire, userWire } from '../../api/users/users.ts'
import type { Envelope } from '../../events/domain-events.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import type { Services } from '../../services/services.ts'

/** What all payloads about one repository have. */
export interface PayloadContext {
  repository: RepositoryDocument
  /**
   * Payloads show what the owner of the repository may see, also while the owner's account is switched off: a webhook
   * is the repository's.
   */
  viewer: AccountDocument
  wire: Static<typeof RepositoryWire>
  sender: Static<typeof UserWire>
  /** `https://git.example.org/owner/name` */
  page: string
}

/** Who did it; the owner of the repository where the server itself did. */
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
