/** Erases what was posted by mistake: `POST /repos/{owner}/{repo}/issues/{index}/erase`. */
import { Type } from 'typebox'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { IssueParams, onIssue } from '../../wire/issues.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { requestContext, settled } from '../request-context.ts'
import { eraseTexts } from './erase.ts'

const EraseOption = Type.Object({
  comment: GivenOrNull(
    Type.Integer({ description: 'id of the only comment to erase; without it, all texts and files' }),
  ),
})

const DESCRIPTION =
  'For admins of the repository. All texts that were written until now read "erased by … on …" from then on: title, ' +
  'bodies, comments, names of files, in the history and in replays too. Attached files are removed. What is in git ' +
  'stays. It can be repeated; 503: it is recorded, and the server goes on with it.'

export const eraseRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/issues/:index/erase',
    route('issue', {
      description: DESCRIPTION,
      params: IssueParams,
      body: GivenOrNull(EraseOption),
      response: NO_CONTENT,
    }),
    async (request, reply) => {
      const { issue } = await onIssue(services, request, 'admin')
      const context = requestContext(request)
      await eraseTexts(services, context, issue, request.body?.comment ?? null)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
