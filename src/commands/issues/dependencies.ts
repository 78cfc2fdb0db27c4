/**
 * Adds and removes dependencies: `POST` and `DELETE /repos/{owner}/{repo}/issues/{index}/dependencies` and `/blocks`.
 * An issue can be closed only after the issues that it depends on.
 */

import type { FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { archivedRefusal } from '../../access/archived.ts'
import {
  movedRepository,
  onRepository,
  repositoryFor,
  repositoryNamed,
} from '../../access/repository-access.ts'
import { IssueParams, IssueWire, issueFor, issueNow } from '../../api/issues/issues.ts'
import { signedIn } from '../../auth/requester.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { IssueRef } from '../../events/catalog/parts.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import type { IssueDocument } from '../../projections/models/issues/issues.fold.ts'
import type { Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { changeDiscussion } from './change-discussion.ts'
import { dependsOn } from './dependency-paths.ts'
import { decideAddDependency, decideRemoveDependency } from './discussion.decider.ts'

/** The other issue; owner and name default to the repository in the path. */
const IssueMeta = Type.Object(
  {
    owner: Type.Optional(Type.String()),
    repo: Type.Optional(Type.String()),
    index: Type.Integer(),
  },
  { title: 'IssueMeta' },
)

/** Maximum number of issues that depend on one issue: each query for them reads all. */
const MAX_DEPENDENTS = 1000

/** The blocked issue and the blocking one. */
interface Dependency {
  blocked: IssueRef & { isPull: boolean }
  blocking: IssueRef
}

async function add(
  services: Services,
  context: CommandContext,
  { blocked, blocking }: Dependency,
): Promise<void> {
  const dependents = { dependencyKeys: issueId(blocking.repoId, blocking.index) }
  await changeDiscussion(services, context, blocked, 'add dependency', {
    async issue(discussion) {
      if ((await services.views.issues.count(dependents)) >= MAX_DEPENDENTS) {
        return refuse.unprocessable(`${MAX_DEPENDENTS} issues depend on that one already`)
      }
      return decideAddDependency(discussion, blocking, await dependsOn(services, blocking, blocked))
    },
  })
  // Two concurrent dependencies can form a cycle that neither request saw. Then this one is removed.
  if (!(await dependsOn(services, blocking, blocked))) return
  await changeDiscussion(services, context, blocked, 'give up dependency', {
    issue: (discussion) => decideRemoveDependency(discussion, blocking),
  })
  await services.projector.waitFor(context.written, services.config.projectionWaitMs)
  throw new Refused(refuse.unprocessable('the other issue depends on this one'))
}

async function remove(
  services: Services,
  context: CommandContext,
  { blocked, blocking }: Dependency,
): Promise<void> {
  await changeDiscussion(services, context, blocked, 'remove dependency', {
    issue: (discussion) => decideRemoveDependency(discussion, blocking),
  })
}

/** The list that changes: dependencies of the issue in the path, or issues that it blocks. */
type Side = 'dependencies' | 'blocks'

/**
 * Returns the blocking issue when the requester has lost access to its repository: a writer of the blocked issue may
 * still remove the dependency, or the issue would wait forever. Undefined for an issue that does not block this one, so
 * that the answer does not reveal which repositories exist.
 */
async function hiddenBlocking(
  services: Services,
  requester: FastifyRequest['requester'],
  { dependencyKeys }: IssueDocument,
  path: { owner: string; repo: string },
  index: number,
): Promise<IssueRef | undefined> {
  const repository = (await repositoryNamed(services, path)) ?? (await movedRepository(services, path))
  if (repository === undefined || atLeast(accessTo(repository, requester), 'read')) return undefined
  const isBlocking = dependencyKeys.includes(issueId(repository.id, index))
  return isBlocking ? { repoId: repository.id, index } : undefined
}

/**
 * Returns the dependency between the issue in the path and the one in the body. Requires write access to the blocked
 * issue, and read access to the blocking one unless the dependency is removed.
 */
async function dependencyFor(
  services: Services,
  request: FastifyRequest,
  side: Side,
  path: Static<typeof IssueParams>,
  bodyOf: () => Static<typeof IssueMeta>,
): Promise<{ issue: IssueRef; dependency: Dependency }> {
  const isBlocked = side === 'dependencies'
  const { requester, method, routeOptions } = request
  const { repository } = await onRepository(
    services,
    { requester, method, routeOptions, params: path },
    isBlocked ? 'write' : 'read',
  )
  request.repositoryId = repository.id
  const issue = await issueFor(services, repository.id, path.index)
  signedIn(request)
  const body = bodyOf()
  const otherPath = { owner: body.owner || path.owner, repo: body.repo || path.repo }
  const hidden =
    isBlocked && method === 'DELETE'
      ? await hiddenBlocking(services, requester, issue, otherPath, body.index)
      : undefined
  if (hidden !== undefined) return { issue, dependency: { blocked: issue, blocking: hidden } }
  const found = await repositoryFor(services, request.requester, otherPath, isBlocked ? 'read' : 'write')
  // The other issue is the one that changes.
  if (!isBlocked && found.repository.archived) throw new Refused(archivedRefusal)
  const other = await issueFor(services, found.repository.id, `${body.index}`)
  const [blocked, blocking] = isBlocked ? [issue, other] : [other, issue]
  return { issue, dependency: { blocked, blocking: refOf(blocking) } }
}

const refOf = ({ repoId, index }: IssueRef): IssueRef => ({ repoId, index })

export const dependencyRoutes: Routes = (services) => {
  const changes = [
    { method: 'POST', status: 201, change: add },
    { method: 'DELETE', status: 200, change: remove },
  ] as const

  return async (app) => {
    for (const side of ['dependencies', 'blocks'] as const) {
      for (const { method, status, change } of changes) {
        app.route({
          method,
          url: `/repos/:owner/:repo/issues/:index/${side}`,
          ...route('issue', { params: IssueParams, body: IssueMeta, response: { [status]: IssueWire } }),
          handler: async (request, reply) => {
            const { params } = request
            const bodyOf = () => request.body
            const { issue, dependency } = await dependencyFor(services, request, side, params, bodyOf)
            const context = commandContext(request)
            await change(services, context, dependency)
            await settled(services, context, reply)
            return reply.code(status).send(await issueNow(services, issue, request.requester))
          },
        })
      }
    }
  }
}
