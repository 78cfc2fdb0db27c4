/** Creates, changes and removes tag protections: `/repos/{owner}/{repo}/tag_protections`. */
import { type Static, Type } from 'typebox'
import { idsStream } from '../../events/streams.ts'
import { Refused, refuse } from '../../refusal.ts'
import { globProblem } from '../../rights/glob.ts'
import { onRepository } from '../../rights/repository-access.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { RepositoryParams } from '../../wire/repositories.ts'
import {
  TagProtectionParams,
  TagProtectionWire,
  tagProtectionId,
  tagProtectionWire,
} from '../../wire/tag-protections.ts'
import { repositories } from '../aggregates.ts'
import { userIdsNamed } from '../branch-protections/settings.ts'
import type { RepositoryState } from '../repositories/repository.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { decideAddTagProtection, decideEditTagProtection, decideRemoveTagProtection } from './protections.ts'

const TagProtectionOption = Type.Object({
  name_pattern: GivenOrNull(Type.String()),
  whitelist_usernames: GivenOrNull(Type.Array(Type.String())),
  whitelist_teams: GivenOrNull(Type.Array(Type.String())),
})

const MAX_PATTERN_LENGTH = 255

/** The pattern in a request. @throws Refused (invalid, unprocessable) */
function patternOf(text: string): string {
  const pattern = text.trim()
  if (pattern === '') throw new Refused(refuse.invalid('name_pattern: must not be empty'))
  if (pattern.length > MAX_PATTERN_LENGTH) {
    throw new Refused(refuse.unprocessable(`name_pattern: has more than ${MAX_PATTERN_LENGTH} characters`))
  }
  // As in Gitea's patterns, this would be a regular expression.
  if (pattern.length > 1 && pattern.startsWith('/') && pattern.endsWith('/')) {
    throw new Refused(refuse.unprocessable('name_pattern: regular expressions are not supported'))
  }
  const problem = globProblem(pattern)
  if (problem !== undefined) throw new Refused(refuse.unprocessable(`name_pattern: ${problem}`))
  return pattern
}

/** Refuses a whitelist that this server does not enforce, instead of ignoring it. */
function requireNoTeams({ whitelist_teams: teams }: Static<typeof TagProtectionOption>): void {
  if (teams != null && teams.length > 0) {
    throw new Refused(refuse.unprocessable('whitelist_teams: is not supported, only [] is'))
  }
}

const protectionsIn = (state: RepositoryState) => (state.status === 'active' ? state.tagProtections : [])

export const tagProtectionRoutes: Routes = (services) => async (app) => {
  const FIELD = 'whitelist_usernames'

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
      requireNoTeams(body)
      const users = (await userIdsNamed(services, FIELD, body.whitelist_usernames ?? [])) ?? []
      if (users.length === 0) throw new Refused(refuse.invalid(`${FIELD}: must name a user`))
      const context = commandContext(request)
      const id = await takeNumber(services.events, context, idsStream('tag-protection'))
      const state = await repositories.change(services, context, repository.id, 'protect tags', (now) =>
        decideAddTagProtection(now, { id, pattern, users }, context.at),
      )
      await settled(services, context, reply)
      return reply.code(201).send(await tagProtectionWire(services, protectionsIn(state), id))
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
      requireNoTeams(body)
      const users = await userIdsNamed(services, FIELD, body.whitelist_usernames ?? undefined)
      const given = {
        ...(body.name_pattern != null && { pattern: patternOf(body.name_pattern) }),
        ...(users !== undefined && { users }),
      }
      const context = commandContext(request)
      const state = await repositories.change(services, context, repository.id, 'protect tags', (now) =>
        decideEditTagProtection(now, id, given, context.at),
      )
      await settled(services, context, reply)
      return await tagProtectionWire(services, protectionsIn(state), id)
    },
  )

  app.delete(
    '/repos/:owner/:repo/tag_protections/:id',
    route('repository', { params: TagProtectionParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const id = tagProtectionId(request.params.id)
      const context = commandContext(request)
      await repositories.change(services, context, repository.id, 'protect tags', (now) =>
        decideRemoveTagProtection(now, id),
      )
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
