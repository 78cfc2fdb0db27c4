/** Routes for files of issues, pull requests, comments and releases, with the permission that each needs. */

import { atLeast } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { CommentParams, commentFor } from '../../api/comments/comments.ts'
import { IssueParams, onIssue } from '../../api/issues/issues.ts'
import { ReleaseParams, releaseFor } from '../../api/releases/releases.ts'
import { signedIn } from '../../auth/requester.ts'
import type { Routes } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { IssueFileEvent } from '../../events/catalog/attachments.ts'
import { discussionStream } from '../../events/streams.ts'
import type { Discussion } from '../../projections/models/issues/discussion.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import { changeComment } from '../comments/change.ts'
import {
  decideAddAttachment,
  decideDeleteAttachment,
  decideRenameAttachment,
} from '../comments/comment.decider.ts'
import type { CommandContext } from '../execution/command-context.ts'
import type { Decision } from '../execution/decider.ts'
import { changeDiscussion } from '../issues/change-discussion.ts'
import {
  decideAddIssueFile,
  decideDeleteIssueFile,
  decideRenameIssueFile,
} from '../issues/issue-files.decider.ts'
import { changeRelease } from '../releases/change-release.ts'
import { decideAddAsset, decideDeleteAsset, decideRenameAsset } from '../releases/release.decider.ts'
import { fileRoutes } from './file-routes.ts'

/** Files of issues and pull requests: for the poster and for writers. */
export const issueFileRoutes: Routes = (services) => {
  const { config, views } = services
  return fileRoutes(services, {
    scope: 'issue',
    path: '/repos/:owner/:repo/issues/:index',
    params: IssueParams,
    allowed: config.attachmentAllowedTypes,
    async holderOf(request) {
      const { repository, access, issue } = await onIssue(services, request, 'read')
      if (issue.poster.id !== signedIn(request).id && !atLeast(access, 'write')) {
        throw new Refused(
          refuse.forbidden('only its poster and writers may change the attachments of an issue'),
        )
      }
      /** Serializes changes on this node: clients add several files at once, and these would conflict in the log. */
      const change = (
        context: CommandContext,
        step: string,
        decide: (discussion: Discussion) => Decision<IssueFileEvent>,
      ): Promise<Discussion | undefined> =>
        services.writeState.mutex(`files of ${discussionStream(issue)}`, () =>
          changeDiscussion(services, context, issue, step, { issue: decide }),
        )
      return {
        repository,
        view: views.issues,
        files: issue.assets ?? [],
        filesNow: async () => (await views.issues.get(issueId(issue.repoId, issue.index)))?.assets ?? [],
        async add(context, file) {
          const added = { ...file, createdAt: context.at }
          const state = await change(context, 'add file', (now) => decideAddIssueFile(now, added))
          return state?.assets?.find(({ id }) => id === file.id)
        },
        rename: (context, id, name) =>
          change(context, 'rename file', (now) => decideRenameIssueFile(now, id, name)),
        remove: (context, id) => change(context, 'delete file', (now) => decideDeleteIssueFile(now, id)),
      }
    },
  })
}

/** Files of comments: for admins, and for the poster with write access. */
export const attachmentRoutes: Routes = (services) => {
  const { config, views } = services
  return fileRoutes(services, {
    scope: 'issue',
    path: '/repos/:owner/:repo/issues/comments/:id',
    params: CommentParams,
    allowed: config.attachmentAllowedTypes,
    async holderOf(request) {
      const { repository, access } = await onRepository(services, request, 'read')
      const { id: requesterId } = signedIn(request)
      const comment = await commentFor(services, repository.id, request.params.id)
      if (!atLeast(access, comment.author.id === requesterId ? 'write' : 'admin')) {
        throw new Refused(
          refuse.forbidden(
            "only admins, and its poster with write access, may change a comment's attachments",
          ),
        )
      }
      return {
        repository,
        view: views.comments,
        files: comment.attachments,
        filesNow: async () => (await views.comments.get(`${comment.id}`))?.attachments ?? [],
        async add(context, file) {
          const state = await changeComment(services, context, comment, 'add attachment', (now) =>
            decideAddAttachment(now, file),
          )
          return state.status === 'there' ? state.attachments.find(({ id }) => id === file.id) : undefined
        },
        rename: (context, id, name) =>
          changeComment(services, context, comment, 'rename attachment', (now) =>
            decideRenameAttachment(now, id, name),
          ),
        remove: (context, id) =>
          changeComment(services, context, comment, 'delete attachment', (now) =>
            decideDeleteAttachment(now, id),
          ),
      }
    },
  })
}

/** Files of releases: for writers. */
export const releaseAssetRoutes: Routes = (services) => {
  const { config, views } = services
  return fileRoutes(services, {
    scope: 'repository',
    path: '/repos/:owner/:repo/releases/:id',
    params: ReleaseParams,
    allowed: config.releaseAllowedTypes,
    takesRaw: true,
    async holderOf(request) {
      const found = await onRepository(services, request, 'write')
      signedIn(request)
      const { id: releaseId, assets } = await releaseFor(services, found, request.params.id)
      return {
        repository: found.repository,
        view: views.releases,
        files: assets,
        filesNow: async () => (await views.releases.get(`${releaseId}`))?.assets ?? [],
        async add(context, file) {
          const state = await changeRelease(services, context, releaseId, 'add asset', (now) =>
            decideAddAsset(now, file),
          )
          return state.status === 'there' ? state.assets.find(({ id }) => id === file.id) : undefined
        },
        rename: (context, id, name) =>
          changeRelease(services, context, releaseId, 'rename asset', (now) =>
            decideRenameAsset(now, id, name),
          ),
        remove: (context, id) =>
          changeRelease(services, context, releaseId, 'delete asset', (now) => decideDeleteAsset(now, id)),
      }
    },
  })
}
