/** Adds files to comments, renames them and deletes them. */
import { randomUUID } from 'node:crypto'
import multipart from '@fastify/multipart'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Static, Type } from 'typebox'
import { isAllowed, sniff } from '../../attachments/file-kind.ts'
import { cleanFileName } from '../../attachments/file-name.ts'
import type { AccountRef, Attachment } from '../../events/domain-events.ts'
import { idsStream } from '../../events/streams.ts'
import type { CommentDocument } from '../../projections/comments.ts'
import type { Reservation } from '../../projections/disk-usage.ts'
import { Refused, refuse } from '../../refusal.ts'
import { atLeast } from '../../rights/access.ts'
import { onRepository, type RepositoryRequest } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import type { Services } from '../../services.ts'
import { AttachmentParams, AttachmentWire, attachmentOf, attachmentWire } from '../../wire/attachments.ts'
import { CommentParams, commentFor } from '../../wire/comments.ts'
import { GivenOrNull } from '../../wire/nullable.ts'
import { changeComment } from '../comments/change.ts'
import { decideAddAttachment, decideDeleteAttachment, decideRenameAttachment } from '../comments/comment.ts'
import type { CommandContext } from '../execute.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeRoom } from '../room.ts'
import { takeNumber } from '../sequences.ts'
import { drainRequest, receiveUpload, type Upload } from './upload.ts'

/** The name of an upload without a usable name. */
const NAMELESS = 'attachment'

const UploadQuery = Type.Object({
  name: Type.Optional(
    Type.String({ description: 'name of the attachment; if empty, the name of the uploaded file' }),
  ),
})
type UploadRequest = { Params: Static<typeof CommentParams>; Querystring: Static<typeof UploadQuery> }

const EditAttachmentOptions = Type.Object({ name: GivenOrNull(Type.String()) })

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

  /** Checks the type of a file by its name and its first bytes. @throws Refused (unprocessable) */
  async function requireAllowed(name: string, head: Uint8Array): Promise<void> {
    if (isAllowed(config.attachmentAllowedTypes, name, await sniff(head))) return
    throw new Refused(refuse.unprocessable('attachment: files of this type are not allowed here'))
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
    const { id: repoId, ownerId, ownerLogin } = repository
    const owner = { id: ownerId, login: ownerLogin }
    // What it says of its size is refused before it is read; what it is counts in the end.
    const bytes = Number(request.headers['content-length'] ?? 0)
    const announced = await takeRoom(services, {
      owner,
      repoId,
      bytes: Math.min(bytes, config.attachmentMaxBytes),
    })
    announced.end('dropped')
    const uuid = randomUUID()
    const received = await receiveUpload(request, attachments, {
      uuid,
      maxSize: config.attachmentMaxBytes,
      digest: request.headers['idempotency-key'] !== undefined,
    })
    const name = cleanFileName(request.query.name || received.fileName) ?? NAMELESS
    let room: Reservation | undefined
    try {
      await requireAllowed(name, received.head)
      room = await takeRoom(services, { owner, repoId, bytes: received.size })
      await attachments.keep(uuid)
    } catch (error) {
      room?.end('dropped')
      await attachments.remove(uuid)
      throw error
    }
    try {
      const wire = await recordUpload(request, reply, received, name)
      room.end('written')
      return reply.code(201).send(wire)
    } catch (error) {
      room.end('dropped')
      // After any other failure it may be recorded. If it is not, the next start removes the file.
      if (error instanceof Refused) await attachments.remove(uuid)
      throw error
    }
  }

  /** Only this route reads multipart bodies, and it reads nothing else. */
  async function uploadRoute(app: FastifyInstance): Promise<void> {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*', (_request, _payload, done) => done(null))
    await app.register(multipart, { throwFileSizeLimit: false })
    app.addHook('onError', async (request, reply) => drainRequest(request, reply))
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
        const given = request.body.name ?? ''
        const name = given === '' ? file.name : cleanFileName(given)
        if (name === undefined) throw new Refused(refuse.unprocessable('name: has no visible characters'))
        if (name !== file.name) {
          const head = await attachments.head(file.uuid)
          await requireAllowed(name, head ?? Buffer.alloc(0))
        }
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
