/** Reading the files of issues and pull requests themselves. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Services } from '../services.ts'
import { AttachmentWire, attachmentWire, IssueFileParams, issueFileOf } from '../wire/attachments.ts'
import { IssueParams, onIssue } from '../wire/issues.ts'
import { listSchema, rowsOrPage } from './paged-list.ts'

export function issueFileQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  return async (app) => {
    const config = { scope: 'issue' } as const
    const tags = ['issue']

    app.get(
      '/repos/:owner/:repo/issues/:index/assets',
      { config, schema: { tags, params: IssueParams, ...listSchema(AttachmentWire) } },
      async (request, reply) => {
        const { issue } = await onIssue(services, request, 'read')
        return rowsOrPage(services, request, reply, issue.assets ?? []).map((file) =>
          attachmentWire(file, services.publicUrl()),
        )
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/:index/assets/:attachment_id',
      { config, schema: { tags, params: IssueFileParams, response: { 200: AttachmentWire } } },
      async (request) => {
        const { issue } = await onIssue(services, request, 'read')
        return attachmentWire(
          issueFileOf(services, issue, request.params.attachment_id),
          services.publicUrl(),
        )
      },
    )
  }
}
