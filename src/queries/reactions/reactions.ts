/** Reading the reactions to issues, pull requests and comments. */
import type { FastifyReply } from 'fastify'
import { onRepository } from '../../access/repository-access.ts'
import { CommentParams, commentFor } from '../../api/comments/comments.ts'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { ReactionWire, reactionWires } from '../../api/reactions/reactions.ts'
import { type Routes, route } from '../../auth/routes.ts'
import { sendOnePage, wantedPage } from '../../http/requests/paging.ts'
import { NO_COMMENT } from '../../projections/models/reactions/reactions.fold.ts'
import { listSchema, type PageRequest, pagedList } from '../paged-list.ts'

const IN_ORDER = [['createdAt', 1]] as const

export const reactionQueryRoutes: Routes = (services) => {
  const { reactions: view } = services.views

  /** As in Gitea, sends all reactions without a requested page; their maximum is 1,000. */
  async function send(
    request: PageRequest,
    reply: FastifyReply,
    filter: { repoId: number; index: number; commentId: number },
  ) {
    if (wantedPage(request.query, services.config)) {
      return reactionWires(
        services,
        await pagedList(services, request, reply, { view, filter, sort: IN_ORDER }),
      )
    }
    const all = await view.find(filter, { sort: IN_ORDER })
    sendOnePage(request, reply, services.publicUrl(), all.length)
    return reactionWires(services, all)
  }

  return async (app) => {
    app.get(
      '/repos/:owner/:repo/issues/:index/reactions',
      route('issue', { params: IssueParams, ...listSchema(ReactionWire) }),
      async (request, reply) => {
        const { repoId, index } = (await onIssue(services, request, 'read')).issue
        return send(request, reply, { repoId, index, commentId: NO_COMMENT })
      },
    )

    app.get(
      '/repos/:owner/:repo/issues/comments/:id/reactions',
      route('issue', { params: CommentParams, ...listSchema(ReactionWire) }),
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        const { repoId, index, id } = await commentFor(services, repository.id, request.params.id)
        return send(request, reply, { repoId, index, commentId: id })
      },
    )
  }
}
