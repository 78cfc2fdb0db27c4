/** Posts a status of a commit: `POST /repos/{owner}/{repo}/statuses/{sha}`. */
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { CommitStatusWire, commitOf, StatusParams, statusWire } from '../../api/statuses/statuses.ts'
import { userWire } from '../../api/users/users.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { isRefusal, Refused, refuse } from '../../errors/refusal.ts'
import { COMMIT_STATES, type CommitState } from '../../events/catalog/statuses.ts'
import { checksStream, idsStream } from '../../events/streams.ts'
import { execute } from '../execution/execute.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { type ChecksState, checksDecider, decidePost } from './checks.decider.ts'

/** Gitea's default context. */
const DEFAULT_CONTEXT = 'default'

const CreateStatusOption = Type.Object(
  {
    state: Type.String(),
    target_url: Type.Optional(Type.String({ maxLength: 2048 })),
    description: Type.Optional(Type.String({ maxLength: 1024 })),
    context: Type.Optional(Type.String({ maxLength: 255 })),
  },
  { title: 'CreateStatusOption' },
)

function stateOf(text: string): CommitState {
  const state = COMMIT_STATES.find((known) => known === text)
  if (state !== undefined) return state
  const given = JSON.stringify(text.slice(0, 50))
  throw new Refused(refuse.unprocessable(`state: ${given} is not one of ${COMMIT_STATES.join(', ')}`))
}

/** Returns an http or https URL, or a relative one: web pages link to it, so it must not run a script. */
function targetUrlOf(text: string): string {
  const ofPage = 'https://page.invalid/'
  const protocol = URL.canParse(text, ofPage) ? new URL(text, ofPage).protocol : undefined
  if (protocol === 'http:' || protocol === 'https:') return text
  throw new Refused(
    refuse.unprocessable('target_url: must be an http or https URL, a relative one, or empty'),
  )
}

export const postStatusRoutes: Routes = (services) => async (app) => {
  const { views } = services
  app.post(
    '/repos/:owner/:repo/statuses/:sha',
    route('repository', {
      params: StatusParams,
      body: CreateStatusOption,
      response: { 201: CommitStatusWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const requester = signedIn(request)
      const { target_url: targetUrl = '', description = '', context: name = '' } = request.body
      const context = commandContext(request)
      const sha = await commitOf(services, repository, request.params.sha)
      // A branch or tag may have moved when the request is retried.
      if (context.retry !== undefined && sha !== request.params.sha.toLowerCase()) {
        throw new Refused(refuse.unprocessable('sha: with an Idempotency-Key it must be a whole commit id'))
      }
      const status = {
        repoId: repository.id,
        sha,
        context: name === '' ? DEFAULT_CONTEXT : name,
        state: stateOf(request.body.state),
        description,
        targetUrl: targetUrlOf(targetUrl),
        creator: { id: requester.id, login: requester.login },
      }
      const id = await takeNumber(services, context, idsStream('status'))
      // Dozens of jobs start on a commit at once; this lock prevents conflicts on one node. Posts of other nodes matter
      // only when the commit has too many contexts.
      const stream = checksStream(repository.id, sha)
      const decide = (state: ChecksState) => decidePost(state, { id, ...status })
      await services.writeState.mutex(stream, () =>
        execute(services, context, {
          stream,
          step: 'post',
          decider: checksDecider,
          decide,
          isStillValid: (_decidedOn, now) => !isRefusal(decide(now)),
        }),
      )
      await settled(services, context, reply)
      const posted = (await views.commitStatuses.get(`${id}`)) ?? { id, ...status, createdAt: context.at }
      const publicUrl = services.publicUrl()
      const creator = userWire(requester, publicUrl)
      return reply.code(201).send(statusWire(posted, repository, creator, publicUrl))
    },
  )
}
