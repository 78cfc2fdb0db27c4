/** Reading the files of issues and pull requests, of comments and of releases. */
import type { FastifyInstance } from 'fastify'
import type { TObject } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import {
  AttachmentWire,
  attachmentWire,
  fileIn,
  fileParams,
  type HasFiles,
  requestOf,
  type WithFiles,
} from '../../api/attachments/attachments.ts'
import { CommentParams, commentFor } from '../../api/comments/comments.ts'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { ReleaseParams, releaseFor } from '../../api/releases/releases.ts'
import { type Routes, route } from '../../auth/routes.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, rowsOrPage } from '../paged-list.ts'

function fileLists<P extends TObject>(
  app: FastifyInstance,
  services: Services,
  { scope, path, params, holderOf }: HasFiles<P, WithFiles>,
): void {
  const holderIn = requestOf(params, holderOf)

  app.get<{ Querystring: { page?: string; limit?: string } }>(
    `${path}/assets`,
    route(scope, { params, ...listSchema(AttachmentWire) }),
    async (request, reply) => {
      const { files } = await holderIn(request)
      return rowsOrPage(services, request, reply, files).map((file) =>
        attachmentWire(file, services.publicUrl()),
      )
    },
  )

  app.get<{ Params: { attachment_id: string } }>(
    `${path}/assets/:attachment_id`,
    route(scope, { params: fileParams(params), response: { 200: AttachmentWire } }),
    async (request) =>
      attachmentWire(fileIn(await holderIn(request), request.params.attachment_id), services.publicUrl()),
  )
}

export const fileListRoutes: Routes = (services) => async (app) => {
  const { views } = services
  fileLists(app, services, {
    scope: 'issue',
    path: '/repos/:owner/:repo/issues/:index',
    params: IssueParams,
    async holderOf(request) {
      const { issue } = await onIssue(services, request, 'read')
      return { files: issue.assets ?? [], view: views.issues }
    },
  })
  fileLists(app, services, {
    scope: 'issue',
    path: '/repos/:owner/:repo/issues/comments/:id',
    params: CommentParams,
    async holderOf(request) {
      const { repository } = await onRepository(services, request, 'read')
      const comment = await commentFor(services, repository.id, request.params.id)
      return { files: comment.attachments, view: views.comments }
    },
  })
  fileLists(app, services, {
    scope: 'repository',
    path: '/repos/:owner/:repo/releases/:id',
    params: ReleaseParams,
    async holderOf(request) {
      const found = await onRepository(services, request, 'read')
      const release = await releaseFor(services, found, request.params.id)
      return { files: release.assets, view: views.releases }
    },
  })
}
