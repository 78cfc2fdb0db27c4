/** Adds files to comments, renames them and deletes them. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import type { AccountRef, Attachment } from '../../events/domain-events.ts'
import { idsStream } from '../../events/streams.ts'
import type { CommentDocument } from '../../projections/comments.ts'
import { Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import { onRepository, type RepositoryRequest } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import type { Services } from '../../services.ts'
import { AttachmentParams, AttachmentWire, attachmentOf, attachmentWire } from '../../wire/attachments.ts'
import { CommentParams, commentFor } from '../../wire/comments.ts'
import { changeComment } from '../comments/change.ts'
import { decideAddAttachment, decideDeleteAttachment, decideRenameAttachment } from '../comments/comment.ts'
import type { CommandContext } from '../execute.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { EditAttachmentOptions, newNameOf, readUploads, storeUpload, UploadQuery } from './store-upload.ts'
import type { Upload } from './upload.ts'

type UploadRequest = { Params: Static<typeof CommentParams>; Querystring: Static<typeof UploadQuery> }

/**
 * The comment in the path, for a requester who may change its files: an admin of the repository, or the poster when
 * they may write to the repository.
 */
async function commentToChange(
  services: Services,
  request: RepositoryRequest & { params: { id: string } },
): Promise<{ comment: CommentDocument; requester: AccountRef }> {
  const { repository, access } = await onRepository(services, request, 'read')
  const { id, login } = signedIn(request)
  const comment = await commentFor(services, repository.id, request.params.id)
  const mayChange = comment.author.id === id ? atLeast(access, 'write') : atLeast(access, 'admin')
  if (!mayChange) {
    throw new Refused(
      refuse.forbidden("only admins, and its poster with write access, may change a comment's attachments"),
    )
  }
  return { comment, requester: { id, login } }
}

export const attachmentRoutes: Routes = (services) => {
  const { attachments, config, events, views } = services

  /** An attachment as queries show it, or as it was just recorded when queries lag. */
  async function wireOf(comment: CommentDocument, file: Attachment, context: CommandContext) {
    const known = (await views.comments.get(`${comment.id}`))?.attachments.find(({ id }) => id === file.id)
    return attachmentWire({ createdAt: context.at, ...known, ...file }, services.publicUrl())
  }

  /** Records a file that is stored already. Resolves to the attachment; for a retried request, to the first one. */
  async function recordUpload(
    request: FastifyRequest<UploadRequest>,
    reply: FastifyReply,
    { uuid, size, digest }: Upload,
    name: string,
  ) {
    // Check the rights again: the upload may have taken long.
    const { comment, requester: uploader } = await commentToChange(services, request)
    const context = commandContext(request, { name, size, digest })
    const id = await takeNumber(events, context, idsStream('attachment'))
    const state = await changeComment(services, context, comment, 'add attachment', (now) =>
      decideAddAttachment(now, { id, uuid, name, size, uploader }),
    )
    const file = state.status === 'there' ? state.attachments.find((one) => one.id === id) : undefined
    if (file === undefined) throw new Refused(refuse.notFound('this attachment has been deleted since'))
    // This is a retried request: the file of the first one is the attachment.
    if (file.uuid !== uuid) await attachments.remove(uuid)
    await settled(services, context, reply)
    return wireOf(comment, file, context)
  }

  async function upload(request: FastifyRequest<UploadRequest>, reply: FastifyReply) {
    await commentToChange(services, request)
    const { repository } = await onRepository(services, request, 'read')
    const into = { repository, allowed: config.attachmentAllowedTypes, name: request.query.name }
    const wire = await storeUpload(services, request, into, (received, name) =>
      recordUpload(request, reply, received, name),
    )
    return reply.code(201).send(wire)
  }

  /** Only this route reads multipart bodies, and it reads nothing else. */
  async function uploadRoute(app: FastifyInstance): Promise<void> {
    await readUploads(app)
    app.post<UploadRequest>(
      '/repos/:owner/:repo/issues/comments/:id/assets',
      route('issue', {
        consumes: ['multipart/form-data'],
        params: CommentParams,
        querystring: UploadQuery,
        response: { 201: AttachmentWire },
      }),
      upload,
    )
  }

  return async (app) => {
    await app.register(uploadRoute)

    app.patch(
      '/repos/:owner/:repo/issues/comments/:id/assets/:attachment_id',
      route('issue', {
        params: AttachmentParams,
        body: EditAttachmentOptions,
        response: { 201: AttachmentWire },
      }),
      async (request, reply) => {
        const { comment } = await commentToChange(services, request)
        const file = attachmentOf(services, comment, request.params.attachment_id)
        const allowed = config.attachmentAllowedTypes
        const name = await newNameOf(services, file, request.body.name, allowed)
        const context = commandContext(request)
        await changeComment(services, context, comment, 'rename attachment', (state) =>
          decideRenameAttachment(state, file.id, name),
        )
        await settled(services, context, reply)
        return reply.code(201).send(await wireOf(comment, { ...file, name }, context))
      },
    )

    app.delete(
      '/repos/:owner/:repo/issues/comments/:id/assets/:attachment_id',
      route('issue', { params: AttachmentParams, response: NO_CONTENT }),
      async (request, reply) => {
        const { comment } = await commentToChange(services, request)
        const { id, uuid } = attachmentOf(services, comment, request.params.attachment_id)
        const context = commandContext(request)
        await changeComment(services, context, comment, 'delete attachment', (state) =>
          decideDeleteAttachment(state, id),
        )
        await attachments.remove(uuid)
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
