/** Reads public keys: those of users are public, those of repositories for their admins. */
import type { FastifyReply } from 'fastify'
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { canSee } from '../../access/visibility.ts'
import {
  DeployKeyWire,
  deployKeyFor,
  deployKeyWire,
  PublicKeyWire,
  publicKeyWire,
  sshKeyVisibleTo,
} from '../../api/keys/keys.ts'
import { RepositoryParams, repositoryPage } from '../../api/repositories/repositories.ts'
import { UsernameParams, userNamed } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { OptionalText } from '../../http/requests/optional-text.ts'
import { onlyId } from '../../http/requests/path-number.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { filteredListSchema, type PageRequest, pagedList } from '../paged-list.ts'

const BY_ID = [['id', 1]] as const
const FILTERS = { fingerprint: OptionalText('Only the key with this fingerprint') }
const DEPLOY_KEY_FILTERS = { ...FILTERS, key_id: OptionalText('Only the key with this id') }
const KeyParams = Type.Object({ id: Type.String() })
const DeployKeyParams = Type.Object({ ...RepositoryParams.properties, ...KeyParams.properties })

export const keyQueryRoutes: Routes = (services) => {
  const { sshKeys, deployKeys } = services.views

  const only = ({ fingerprint }: { fingerprint?: string }) => (fingerprint ? { fingerprint } : {})

  async function keysOf(
    request: PageRequest & { query: { fingerprint?: string } },
    reply: FastifyReply,
    owner: AccountDocument,
  ) {
    const filter = { userId: owner.id, ...only(request.query) }
    const found = await pagedList(services, request, reply, { view: sshKeys, filter, sort: BY_ID })
    return found.map((key) => publicKeyWire(key, owner, services.publicUrl()))
  }

  return async (app) => {
    app.get('/user/keys', route('user', filteredListSchema(PublicKeyWire, FILTERS)), async (request, reply) =>
      keysOf(request, reply, signedIn(request)),
    )
    app.get(
      '/user/keys/:id',
      route('user', { params: KeyParams, response: { 200: PublicKeyWire } }),
      async (request) => {
        const { key, owner } = await sshKeyVisibleTo(services, signedIn(request), request.params.id)
        return publicKeyWire(key, owner, services.publicUrl())
      },
    )
    app.get(
      '/users/:username/keys',
      route('user', { params: UsernameParams, ...filteredListSchema(PublicKeyWire, FILTERS) }),
      async (request, reply) => {
        const owner = await userNamed(services, request.params.username)
        if (!canSee(owner, request.requester)) throw new Refused(refuse.notFound('user not found'))
        return keysOf(request, reply, owner)
      },
    )

    app.get(
      '/repos/:owner/:repo/keys',
      route('repository', {
        params: RepositoryParams,
        ...filteredListSchema(DeployKeyWire, DEPLOY_KEY_FILTERS),
      }),
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'admin')
        const filter = { repoId: repository.id, ...only(request.query), ...onlyId(request.query.key_id) }
        const found = await pagedList(services, request, reply, { view: deployKeys, filter, sort: BY_ID })
        const page = await repositoryPage(services, repository, access, request.requester)
        return found.map((key) => deployKeyWire(key, { ...page, parent: null }))
      },
    )
    app.get(
      '/repos/:owner/:repo/keys/:id',
      route('repository', { params: DeployKeyParams, response: { 200: DeployKeyWire } }),
      async (request) => {
        const { repository, access } = await onRepository(services, request, 'admin')
        const key = await deployKeyFor(services, repository, request.params.id)
        const page = await repositoryPage(services, repository, access, request.requester)
        return deployKeyWire(key, { ...page, parent: null })
      },
    )
  }
}
