/** Adds and removes public keys: `/user/keys`, `/repos/{owner}/{repo}/keys`. There is no SSH server. */
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { DeployKeyWire, deployKeyFor, deployKeyWire, PublicKeyWire } from '../../api/keys/keys.ts'
import { RepositoryParams, repositoryPage } from '../../api/repositories/repositories.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { addDeployKey, removeDeployKey } from './change.ts'
import { CreateKeyOption, wantedKey } from './key-option.ts'
import { addUserKey, removeUserKey } from './user-key.ts'

const KeyParams = Type.Object({ id: Type.String() })
const DeployKeyParams = Type.Object({ ...RepositoryParams.properties, ...KeyParams.properties })

export const keyRoutes: Routes = (services) => async (app) => {
  app.post(
    '/user/keys',
    route('user', { body: CreateKeyOption, response: { 201: PublicKeyWire } }),
    async (request, reply) => {
      return reply.code(201).send(await addUserKey(services, request, reply, signedIn(request)))
    },
  )

  app.delete(
    '/user/keys/:id',
    route('user', { params: KeyParams, response: NO_CONTENT }),
    async (request, reply) => {
      await removeUserKey(services, request, reply, signedIn(request), request.params.id)
      return reply.code(204).send(null)
    },
  )

  app.post(
    '/repos/:owner/:repo/keys',
    route('repository', {
      params: RepositoryParams,
      body: CreateKeyOption,
      response: { 201: DeployKeyWire },
    }),
    async (request, reply) => {
      const { repository, access } = await onRepository(services, request, 'admin')
      const context = commandContext(request)
      const key = await addDeployKey(services, context, repository.id, wantedKey(request.body))
      await settled(services, context, reply)
      const page = await repositoryPage(services, repository, access, request.requester)
      return reply.code(201).send(deployKeyWire(key, { ...page, parent: null }))
    },
  )

  app.delete(
    '/repos/:owner/:repo/keys/:id',
    route('repository', { params: DeployKeyParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const key = await deployKeyFor(services, repository, request.params.id)
      const context = commandContext(request)
      await removeDeployKey(services, context, key)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
