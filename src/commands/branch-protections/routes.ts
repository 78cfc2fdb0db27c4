/** Creates, changes and removes branch protections: `/repos/{owner}/{repo}/branch_protections`. */
import type { BranchProtection } from '../../events/domain-events.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import {
  BranchProtectionWire,
  ProtectionParams,
  protectionNamed,
  protectionWire,
} from '../../wire/branch-protections.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { repositories } from '../aggregates.ts'
import type { RepositoryState } from '../repositories/repository.ts'
import { whileOwnedBy } from '../repositories/same-owner.ts'
import { commandContext, settled } from '../request-context.ts'
import { decideAddProtection, decideEditProtection, decideRemoveProtection } from './protections.ts'
import {
  CreateProtectionOptions,
  checkOptions,
  NEW_PROTECTION,
  ProtectionOptions,
  ruleOf,
  withOptions,
} from './settings.ts'

/** The rule of that name; undefined when it is gone. From the log, since the read models may lag. */
function ruleIn(state: RepositoryState, name: string): BranchProtection | undefined {
  return state.status === 'active' ? state.protections.find(({ rule }) => rule === name) : undefined
}

export const branchProtectionRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/branch_protections',
    route('repository', {
      params: RepositoryParams,
      body: CreateProtectionOptions,
      response: { 201: BranchProtectionWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const rule = ruleOf(request.body)
      const named = await checkOptions(services, repository, request.body)
      const settings = withOptions({ ...NEW_PROTECTION, rule }, request.body, named)
      const context = commandContext(request)
      const decide = whileOwnedBy(repository, (now) => decideAddProtection(now, settings, context.at))
      const state = await repositories.change(services, context, repository.id, 'protect', decide)
      await settled(services, context, reply)
      return reply.code(201).send(await protectionWire(services, repository, ruleIn(state, rule)))
    },
  )

  app.patch(
    '/repos/:owner/:repo/branch_protections/*',
    route('repository', {
      params: ProtectionParams,
      body: ProtectionOptions,
      response: { 200: BranchProtectionWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const rule = request.params['*']
      // A rule that does not exist gives 404, whatever the body says.
      protectionNamed(repository, rule)
      const named = await checkOptions(services, repository, request.body)
      const context = commandContext(request)
      const edit = (before: BranchProtection) => withOptions(before, request.body, named)
      const decide = whileOwnedBy(repository, (now) => decideEditProtection(now, rule, edit, context.at))
      const state = await repositories.change(services, context, repository.id, 'protect', decide)
      await settled(services, context, reply)
      return await protectionWire(services, repository, ruleIn(state, rule))
    },
  )

  app.delete(
    '/repos/:owner/:repo/branch_protections/*',
    route('repository', { params: ProtectionParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const context = commandContext(request)
      const decide = whileOwnedBy(repository, (now) => decideRemoveProtection(now, request.params['*']))
      await repositories.change(services, context, repository.id, 'protect', decide)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
