/** Pins issues and pull requests, and moves the pins: `/repos/{owner}/{repo}/issues/{index}/pin`. */
import type { FastifyReply } from 'fastify'
import { type Static, Type } from 'typebox'
import type { RepositoryRequest } from '../../access/repository-access.ts'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import type { PinEvent } from '../../events/catalog/issues.ts'
import { pathNumber } from '../../http/requests/path-number.ts'
import { repositories } from '../execution/aggregates.ts'
import type { Decision } from '../execution/decider.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { decideMovePin, decidePin, decideUnpin } from './pins.decider.ts'
import type { RepositoryState } from './repository.decider.ts'

const PositionParams = Type.Object({ ...IssueParams.properties, position: Type.String() })

export const pinRoutes: Routes = (services) => {
  /** Requires an admin of the repository. */
  async function change(
    request: Parameters<typeof commandContext>[0] &
      RepositoryRequest & { params: Static<typeof IssueParams> },
    reply: FastifyReply,
    decide: (state: RepositoryState, of: { index: number; isPull: boolean }) => Decision<PinEvent>,
  ) {
    const { repository, issue } = await onIssue(services, request, 'admin')
    const context = commandContext(request)
    await repositories.change(services, context, repository.id, 'pin', (state) => decide(state, issue))
    await settled(services, context, reply)
    return reply.code(204).send(null)
  }

  return async (app) => {
    app.post(
      '/repos/:owner/:repo/issues/:index/pin',
      route('issue', { params: IssueParams, response: NO_CONTENT }),
      (request, reply) => change(request, reply, decidePin),
    )

    app.delete(
      '/repos/:owner/:repo/issues/:index/pin',
      route('issue', { params: IssueParams, response: NO_CONTENT }),
      (request, reply) => change(request, reply, decideUnpin),
    )

    app.patch(
      '/repos/:owner/:repo/issues/:index/pin/:position',
      route('issue', { params: PositionParams, response: NO_CONTENT }),
      (request, reply) =>
        change(request, reply, (state, of) => decideMovePin(state, of, pathNumber(request.params.position))),
    )
  }
}
