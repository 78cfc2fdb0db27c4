/** Creates, changes and removes branch protections: `/repos/{owner}/{repo}/branch_protections`. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { BranchProtection, RepositoryEvent } from '../../events/domain-events.ts'
import { repositoryStream } from '../../events/streams.ts'
import { onRepository } from '../../rights/repository-access.ts'
import type { Services } from '../../services.ts'
import {
  BranchProtectionWire,
  ProtectionParams,
  protectionNamed,
  protectionWire,
} from '../../wire/branch-protections.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import { type CommandContext, type Decision, execute } from '../execute.ts'
import { type RepositoryState, repositoryDecider } from '../repositories/repository.ts'
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

/** Clients send null for a field that they do not set: null is the same as absent. */
async function dropNulls(request: FastifyRequest): Promise<void> {
  const { body } = request
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return
  request.body = Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
}

export function branchProtectionRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { events } = services

  /** Resolves to the rule after the command, if it exists then. From the log, since the read models may lag. */
  async function carryOut(
    { repoId, rule }: { repoId: number; rule: string },
    context: CommandContext,
    reply: FastifyReply,
    decide: (state: RepositoryState) => Decision<RepositoryEvent>,
  ): Promise<BranchProtection | undefined> {
    const stream = repositoryStream(repoId)
    const state = await execute(events, context, {
      stream,
      step: 'protect',
      decider: repositoryDecider,
      decide,
    })
    await settled(services, context, reply)
    return state.status === 'active'
      ? state.protections.find((protection) => protection.rule === rule)
      : undefined
  }

  return async (app) => {
    const tags = ['repository']

    app.post(
      '/repos/:owner/:repo/branch_protections',
      {
        preValidation: dropNulls,
        schema: {
          tags,
          params: RepositoryParams,
          body: CreateProtectionOptions,
          response: { 201: BranchProtectionWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const rule = ruleOf(request.body)
        const named = await checkOptions(services, request.body)
        const settings = withOptions({ ...NEW_PROTECTION, rule }, request.body, named)
        const context = commandContext(request)
        const made = await carryOut({ repoId: repository.id, rule }, context, reply, (state) =>
          decideAddProtection(state, settings, context.at),
        )
        return reply.code(201).send(await protectionWire(services, made))
      },
    )

    app.patch(
      '/repos/:owner/:repo/branch_protections/*',
      {
        preValidation: dropNulls,
        schema: {
          tags,
          params: ProtectionParams,
          body: ProtectionOptions,
          response: { 200: BranchProtectionWire },
        },
      },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const rule = request.params['*']
        // A rule that does not exist gives 404, whatever the body says.
        protectionNamed(repository, rule)
        const named = await checkOptions(services, request.body)
        const context = commandContext(request)
        const edit = (before: BranchProtection) => withOptions(before, request.body, named)
        const edited = await carryOut({ repoId: repository.id, rule }, context, reply, (state) =>
          decideEditProtection(state, rule, edit, context.at),
        )
        return await protectionWire(services, edited)
      },
    )

    app.delete(
      '/repos/:owner/:repo/branch_protections/*',
      { schema: { tags, params: ProtectionParams, response: { 204: Type.Null() } } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'admin')
        const rule = request.params['*']
        await carryOut({ repoId: repository.id, rule }, commandContext(request), reply, (state) =>
          decideRemoveProtection(state, rule),
        )
        return reply.code(204).send(null)
      },
    )
  }
}
