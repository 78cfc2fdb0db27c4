/** Adds files to issues and pull requests, renames them and deletes them: `/issues/{index}/assets`. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import type { IssueFileEvent } from '../../events/issue-file-events.ts'
import { discussionStream, idsStream } from '../../events/streams.ts'
import type { Discussion, IssueFile } from '../../projections/discussion.ts'
import type { IssueDocument } from '../../projections/issues.ts'
import { Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import type { RepositoryRequest } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { AttachmentWire, attachmentWire, IssueFileParams, issueFileOf } from '../../wire/attachments.ts'
import { IssueParams, onIssue } from '../../wire/issues.ts'
import type { CommandContext, Decision } from '../execute.ts'
import { changeDiscussion } from '../issues/change-discussion.ts'
import { decideAddIssueFile, decideDeleteIssueFile, decideRenameIssueFile } from '../issues/issue-files.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { inTurn } from '../turns.ts'
import { EditAttachmentOptions, newNameOf, readUploads, storeUpload, UploadQuery } from './store-upload.ts'
import type { Upload } from './upload.ts'

type UploadRequest = { Params: Static<typeof IssueParams>; Querystring: Static<typeof UploadQuery> }

export const issueFileRoutes: Routes = (services) => {
  const { attachments, config, events } = services
  const wireOf = (file: IssueFile) => attachmentWire(file, services.publicUrl())

  /** The issue in the path, for a requester who may change its files: its poster, or who may write. */
  async function issueToChange(request: RepositoryRequest & { params: { index: string } }) {
    const { repository, access, issue } = await onIssue(services, request, 'read')
    const { id, login } = signedIn(request)
    if (issue.poster.id !== id && !atLeast(access, 'write')) {
      throw new Refused(
        refuse.forbidden('only its poster and writers may change the attachments of an issue'),
      )
    }
    return { repository, issue, requester: { id, login } }
  }

  /** Clients add several files at once: on this node they take turns instead of meeting each other at the log. */
  function change(
    context: CommandContext,
    issue: IssueDocument,
    step: string,
    decide: (discussion: Discussion) => Decision<IssueFileEvent>,
  ): Promise<Discussion | undefined> {
    return inTurn(`files of ${discussionStream(issue)}`, () =>
      changeDiscussion(services, context, issue, step, { issue: decide }),
    )
  }

  /** Records a file that is stored already. Resolves to the file; for a retried request, to the first one. */
  async function recordUpload(
    request: FastifyRequest<UploadRequest>,
    reply: FastifyReply,
    { uuid, size, digest }: Upload,
    name: string,
  ) {
    // Check the rights again: the upload may have taken long.
    const { issue, requester: uploader } = await issueToChange(request)
    const context = commandContext(request, { name, size, digest })
    const id = await takeNumber(events, context, idsStream('attachment'))
    const added = { id, uuid, name, size, uploader, createdAt: context.at }
    const state = await change(context, issue, 'add file', (now) => decideAddIssueFile(now, added))
    const file = state?.assets?.find((one) => one.id === id)
    if (file === undefined) throw new Refused(refuse.notFound('this attachment has been deleted since'))
    // This is a retried request: the file of the first one is the attachment.
    if (file.uuid !== uuid) await attachments.remove(uuid)
    await settled(services, context, reply)
    return wireOf(file)
  }

  async function uploadRoute(app: FastifyInstance): Promise<void> {
    await readUploads(app)
    app.post<UploadRequest>(
      '/repos/:owner/:repo/issues/:index/assets',
      route('issue', {
        consumes: ['multipart/form-data'],
        params: IssueParams,
        querystring: UploadQuery,
        response: { 201: AttachmentWire },
      }),
      async (request, reply) => {
        const { repository } = await issueToChange(request)
        const into = { repository, allowed: config.attachmentAllowedTypes, name: request.query.name }
        const wire = await storeUpload(services, request, into, (received, name) =>
          recordUpload(request, reply, received, name),
        )
        return reply.code(201).send(wire)
      },
    )
  }

  return async (app) => {
    await app.register(uploadRoute)

    app.patch(
      '/repos/:owner/:repo/issues/:index/assets/:attachment_id',
      route('issue', {
        params: IssueFileParams,
        body: EditAttachmentOptions,
        response: { 201: AttachmentWire },
      }),
      async (request, reply) => {
        const { issue } = await issueToChange(request)
        const file = issueFileOf(services, issue, request.params.attachment_id)
        const name = await newNameOf(services, file, request.body.name, config.attachmentAllowedTypes)
        const context = commandContext(request)
        await change(context, issue, 'rename file', (now) => decideRenameIssueFile(now, file.id, name))
        await settled(services, context, reply)
        return reply.code(201).send(wireOf({ ...file, name }))
      },
    )

    app.delete(
      '/repos/:owner/:repo/issues/:index/assets/:attachment_id',
      route('issue', { params: IssueFileParams, response: NO_CONTENT }),
      async (request, reply) => {
        const { issue } = await issueToChange(request)
        const { id, uuid } = issueFileOf(services, issue, request.params.attachment_id)
        const context = commandContext(request)
        await change(context, issue, 'delete file', (now) => decideDeleteIssueFile(now, id))
        await attachments.remove(uuid)
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
