/** Creates, changes and removes tag protections: `/repos/{owner}/{repo}/tag_protections`. */
import { type Static, Type } from 'typebox'
import { globProblem } from '../../access/glob.ts'
import { onRepository } from '../../access/repository-access.ts'
import { isRegex, regexProblem } from '../../access/tag-regex.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import {
  TagProtectionParams,
  TagProtectionWire,
  tagProtectionId,
  tagProtectionWire,
} from '../../api/tags/tag-protections.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { idsStream } from '../../events/streams.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import { teamIdsNamed, userIdsNamed } from '../branches/protections/settings.ts'
import { repositories } from '../execution/aggregates.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { ifStillOwnedBy } from '../repositories/ownership/same-owner.ts'
import type { RepositoryState } from '../repositories/repository.decider.ts'
import {
  decideAddTagProtection,
  decideEditTagProtection,
  decideRemoveTagProtection,
} from './protections.decider.ts'

const TagProtectionOption = Type.Object(
  {
    name_pattern: Type.Optional(Type.String()),
    whitelist_usernames: Type.Optional(Type.Array(Type.String())),
    whitelist_teams: Type.Optional(Type.Array(Type.String())),
  },
  { title: 'TagProtectionOption' },
)

const MAX_PATTERN_LENGTH = 255

/** Returns the pattern in a request. @throws Refused (invalid, unprocessable) */
function patternOf(text: string): string {
  const pattern = text.trim()
  if (pattern === '') throw new Refused(refuse.invalid('name_pattern: must not be empty'))
  if (pattern.length > MAX_PATTERN_LENGTH) {
    throw new Refused(refuse.unprocessable(`name_pattern: has more than ${MAX_PATTERN_LENGTH} characters`))
  }
  const problem = isRegex(pattern) ? regexProblem(pattern) : globProblem(pattern)
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`name_pattern: ${problem}`))
  return pattern
}

/**
 * Returns the ids of the named users and teams; undefined when the request omits them. @throws Refused (unprocessable)
 */
async function namedIn(
  services: Services,
  repository: RepositoryDocument,
  { whitelist_usernames, whitelist_teams }: Static<typeof TagProtectionOption>,
) {
  return {
    users: await userIdsNamed(services, 'whitelist_usernames', whitelist_usernames ?? undefined),
    teams: await teamIdsNamed(services, repository, 'whitelist_teams', whitelist_teams ?? undefined),
  }
}

const protectionsIn = (state: RepositoryState) => (state.status === 'active' ? state.tagProtections : [])

export const tagProtectionRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/tag_protections',
    route('repository', {
      params: RepositoryParams,
      body: TagProtectionOption,
      response: { 201: TagProtectionWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const { body } = request
      const pattern = patternOf(body.name_pattern ?? '')
      const { users = [], teams = [] } = await namedIn(services, repository, body)
      if (users.length + teams.length === 0) {
        throw new Refused(refuse.invalid('whitelist_usernames: must name a user, or whitelist_teams a team'))
      }
      const named = { users, ...(teams.length > 0 && { teams }) }
      const context = commandContext(request)
      const id = await takeNumber(services, context, idsStream('tag-protection'))
      const decide = ifStillOwnedBy(repository, (now) =>
        decideAddTagProtection(now, { id, pattern, ...named }, context.at),
      )
      const state = await repositories.change(services, context, repository.id, 'protect tags', decide)
      await settled(services, context, reply)
      return reply.code(201).send(await tagProtectionWire(services, repository, protectionsIn(state), id))
    },
  )

  app.patch(
    '/repos/:owner/:repo/tag_protections/:id',
    route('repository', {
      params: TagProtectionParams,
      body: TagProtectionOption,
      response: { 200: TagProtectionWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const { body } = request
      const id = tagProtectionId(request.params.id)
      const { users, teams } = await namedIn(services, repository, body)
      const given = {
        ...(body.name_pattern != null && { pattern: patternOf(body.name_pattern) }),
        ...(users !== undefined && { users }),
        ...(teams !== undefined && { teams }),
      }
      const context = commandContext(request)
      const decide = ifStillOwnedBy(repository, (now) => decideEditTagProtection(now, id, given, context.at))
      const state = await repositories.change(services, context, repository.id, 'protect tags', decide)
      await settled(services, context, reply)
      return await tagProtectionWire(services, repository, protectionsIn(state), id)
    },
  )

  app.delete(
    '/repos/:owner/:repo/tag_protections/:id',
    route('repository', { params: TagProtectionParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const id = tagProtectionId(request.params.id)
      const context = commandContext(request)
      const decide = ifStillOwnedBy(repository, (now) => decideRemoveTagProtection(now, id))
      await repositories.change(services, context, repository.id, 'protect tags', decide)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
