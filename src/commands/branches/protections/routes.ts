/** Creates, changes and removes branch protections: `/repos/{owner}/{repo}/branch_protections`. */
import { Type } from 'typebox'
import { onRepository } from '../../../access/repository-access.ts'
import {
  BranchProtectionWire,
  ProtectionParams,
  protectionNamed,
  protectionWire,
} from '../../../api/branches/branch-protections.ts'
import { RepositoryParams } from '../../../api/repositories/repositories.ts'
import { NO_CONTENT, type Routes, route } from '../../../auth/routes.ts'
import type { BranchProtection } from '../../../events/catalog/branches.ts'
import { idsStream } from '../../../events/streams.ts'
import { repositories } from '../../execution/aggregates.ts'
import { commandContext, settled } from '../../execution/request-context.ts'
import { takeNumber } from '../../execution/sequences.ts'
import { ifStillOwnedBy } from '../../repositories/ownership/same-owner.ts'
import type { RepositoryState } from '../../repositories/repository.decider.ts'
import {
  decideAddProtection,
  decideEditProtection,
  decideOrderProtections,
  decideRemoveProtection,
  MAX_RULES,
} from './protections.decider.ts'
import {
  CreateProtectionOptions,
  checkOptions,
  NEW_PROTECTION,
  ProtectionOptions,
  ruleOf,
  withOptions,
} from './settings.ts'

const UpdateBranchProtectionPriories = Type.Object(
  {
    ids: Type.Array(Type.Integer(), {
      maxItems: MAX_RULES,
      description: 'Ids of the protections in their new order: the first gets priority 1',
    }),
  },
  { title: 'UpdateBranchProtectionPriories' },
)

/** Returns the rule with that name, from the log, since read models may lag; undefined when it is deleted. */
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
      const id = await takeNumber(services, context, idsStream('branch-protection'))
      const decide = ifStillOwnedBy(repository, (now) => decideAddProtection(now, id, settings, context.at))
      const state = await repositories.change(services, context, repository.id, 'protect', decide)
      await settled(services, context, reply)
      return reply.code(201).send(await protectionWire(services, repository, ruleIn(state, rule)))
    },
  )

  app.post(
    '/repos/:owner/:repo/branch_protections/priority',
    route('repository', {
      params: RepositoryParams,
      body: UpdateBranchProtectionPriories,
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const { ids } = request.body
      const context = commandContext(request)
      const decide = ifStillOwnedBy(repository, (now) => decideOrderProtections(now, ids, context.at))
      await repositories.change(services, context, repository.id, 'order protections', decide)
      await settled(services, context, reply)
      return reply.code(204).send(null)
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
      // An unknown rule gives 404 before any error of the body.
      protectionNamed(repository, rule)
      const named = await checkOptions(services, repository, request.body)
      const context = commandContext(request)
      const edit = (before: BranchProtection) => withOptions(before, request.body, named)
      const decide = ifStillOwnedBy(repository, (now) => decideEditProtection(now, rule, edit, context.at))
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
      const decide = ifStillOwnedBy(repository, (now) => decideRemoveProtection(now, request.params['*']))
      await repositories.change(services, context, repository.id, 'protect', decide)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
