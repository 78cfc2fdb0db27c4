/** Erases texts that were posted by mistake: `POST /repos/{owner}/{repo}/issues/{index}/erase`. */
import { type Static, Type } from 'typebox'
import { onRepository } from '../../../access/repository-access.ts'
import { ErasedWire } from '../../../api/issues/erasures.ts'
import { IssueParams } from '../../../api/issues/issues.ts'
import { type Routes, route } from '../../../auth/routes.ts'
import { Refused, refuse } from '../../../errors/refusal.ts'
import { pathNumber } from '../../../http/requests/path-number.ts'
import { issueId } from '../../../projections/models/issues/issue-selection.ts'
import { requestContext, settled } from '../../execution/request-context.ts'
import { dryRunErasure, eraseTexts } from './erase.ts'

/** Rejects unknown fields: an erasure is final, so a misspelt field must not widen it. */
const EraseOption = Type.Object(
  {
    comment: Type.Optional(Type.Integer({ description: 'Id of the only comment to erase' })),
    all: Type.Optional(Type.Boolean({ description: 'true: erase all texts and files' })),
    dry_run: Type.Optional(Type.Boolean({ description: 'true: list the texts without erasing them' })),
  },
  { additionalProperties: false, title: 'EraseOption' },
)

const DESCRIPTION =
  'For admins of the repository. All texts that were written until now read "erased by … on …" from then on: title, ' +
  'bodies, comments, names of files, in the history and in replays too. Also of an issue that was deleted. Attached files are removed. Commits ' +
  'stay. The request names one comment, or says `"all": true`. It can be repeated; 503: the erasure is recorded, and the ' +
  'server finishes it later.'

/** Returns the comment to erase; null for all texts. @throws Refused (unprocessable) when the request names neither */
function commentIn({ comment, all }: Static<typeof EraseOption>): number | null {
  const one = comment ?? null
  if ((one === null) === (all === true)) return one
  throw new Refused(refuse.unprocessable('comment: either the id of a comment or "all": true is required'))
}

export const eraseRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/issues/:index/erase',
    route('issue', {
      description: DESCRIPTION,
      params: IssueParams,
      body: EraseOption,
      response: { 200: ErasedWire, 204: Type.Null() },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'admin')
      const index = pathNumber(request.params.index)
      if (index === undefined) throw new Refused(refuse.notFound('issue not found'))
      const there = await services.views.issues.get(issueId(repository.id, index))
      // A deleted issue still has its texts in the log. Pull requests cannot be deleted.
      const issue = there ?? { repoId: repository.id, index, isPull: false }
      const comment = commentIn(request.body)
      const context = requestContext(request)
      if (request.body.dry_run) {
        return reply.code(200).send(await dryRunErasure(services.texts.stored, context, issue, comment))
      }
      await eraseTexts(services, context, issue, comment)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
