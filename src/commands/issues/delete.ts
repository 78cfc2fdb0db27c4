/** Deletes issues: `DELETE /repos/{owner}/{repo}/issues/{index}`, for admins of the repository, as in Gitea. */

import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { issueStream } from '../../events/streams.ts'
import { execute } from '../execution/execute.ts'
import { requestContext, settled } from '../execution/request-context.ts'
import { decideDeleteIssue, wholeIssueDecider } from './deletion.decider.ts'

const DESCRIPTION =
  'For admins of the repository. The number is not used again. The events of the issue stay in the history of the ' +
  'repository, with their texts: `POST …/issues/{index}/erase` destroys the texts, before or after the deletion. Pull ' +
  'requests cannot be deleted.'

export const deleteIssueRoutes: Routes = (services) => async (app) => {
  app.delete(
    '/repos/:owner/:repo/issues/:index',
    route('issue', { description: DESCRIPTION, params: IssueParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { issue } = await onIssue(services, request, 'admin')
      const { repoId, index, isPull } = issue
      if (isPull) {
        throw new Refused(
          refuse.unprocessable(`index: #${index} is a pull request, which can be closed but not deleted`),
        )
      }
      const context = requestContext(request)
      const command = { stream: issueStream(repoId, index), step: 'delete issue', decider: wholeIssueDecider }
      await execute(services, context, { ...command, decide: decideDeleteIssue })
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
