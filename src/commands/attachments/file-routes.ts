/** Adds, renames and deletes the files of an issue, a comment or a release: `…/assets`. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Static, TObject } from 'typebox'
import {
  AttachmentWire,
  attachmentWire,
  fileIn,
  fileParams,
  type HasFiles,
  requestOf,
  type WithFiles,
} from '../../api/attachments/attachments.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import type { Attachment } from '../../events/catalog/attachments.ts'
import { idsStream } from '../../events/streams.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { takeNumber } from '../execution/sequences.ts'
import { EditAttachmentOptions, newNameOf, readUploads, storeUpload, UploadQuery } from './store-upload.ts'
import type { Upload } from './upload.ts'

/** An issue, comment or release whose files the requester may change. */
interface FileHolder extends WithFiles {
  repository: RepositoryDocument
  /** Returns its files as queries show them now. */
  filesNow(): Promise<WithFiles['files']>
  /**
   * Adds the file. Resolves to it, or to the file that an earlier attempt has added; undefined when it was deleted
   * since.
   */
  add(context: CommandContext, file: Attachment): Promise<Attachment | undefined>
  rename(context: CommandContext, fileId: number, name: string): Promise<unknown>
  remove(context: CommandContext, fileId: number): Promise<unknown>
}

interface Options<P extends TObject> extends HasFiles<P, FileHolder> {
  /** Allowed file types, in the syntax of `isAllowed`. */
  allowed: readonly string[]
  /** Whether a body without a form is the file itself. */
  takesRaw?: boolean
}

type UploadRequest = { Querystring: Static<typeof UploadQuery> }
type FilePath = { attachment_id: string }

export const fileRoutes =
  <P extends TObject>(
    services: Services,
    { scope, path, params, holderOf, allowed, takesRaw = false }: Options<P>,
  ) =>
  async (app: FastifyInstance): Promise<void> => {
    const { attachments } = services
    const holderIn = requestOf(params, holderOf)

    /** Records a stored file. Resolves to the file; for a retried request, to the first one. */
    async function recordUpload(
      request: FastifyRequest,
      reply: FastifyReply,
      { uuid, size, digest }: Upload,
      name: string,
    ) {
      // Check permissions again: the upload may have taken long.
      const holder = await holderIn(request)
      const uploader = signedIn(request)
      const context = commandContext(request, { name, size, digest })
      const id = await takeNumber(services, context, idsStream('attachment'))
      const added = { id, uuid, name, size, uploader: { id: uploader.id, login: uploader.login } }
      const file = await holder.add(context, added)
      if (file === undefined) throw new Refused(refuse.notFound('this attachment has been deleted since'))
      // A retried request: the file of the first attempt is the attachment.
      if (file.uuid !== uuid) await attachments.remove(uuid)
      await settled(services, context, reply)
      // Queries that lag do not return it yet.
      const known = (await holder.filesNow()).find((one) => one.id === id)
      return attachmentWire({ createdAt: context.at, ...known, ...file }, services.publicUrl())
    }

    await app.register(async (uploads) => {
      await readUploads(uploads)
      const consumes = ['multipart/form-data', ...(takesRaw ? ['application/octet-stream'] : [])]
      const response = { 201: AttachmentWire }
      const { config, schema } = route(scope, { consumes, params, querystring: UploadQuery, response })
      uploads.post<UploadRequest>(
        `${path}/assets`,
        { config: { ...config, ...(takesRaw && { streamsBody: true }) }, schema },
        async (request, reply) => {
          const { repository } = await holderIn(request)
          const into = { repository, allowed, name: request.query.name, takesRaw }
          const wire = await storeUpload(services, request, into, (received, name) =>
            recordUpload(request, reply, received, name),
          )
          return reply.code(201).send(wire)
        },
      )
    })

    app.patch<{ Params: FilePath; Body: Static<typeof EditAttachmentOptions> }>(
      `${path}/assets/:attachment_id`,
      route(scope, {
        params: fileParams(params),
        body: EditAttachmentOptions,
        response: { 201: AttachmentWire },
      }),
      async (request, reply) => {
        const holder = await holderIn(request)
        const file = fileIn(holder, request.params.attachment_id)
        const name = await newNameOf(services, file, request.body.name, allowed)
        const context = commandContext(request)
        await holder.rename(context, file.id, name)
        await settled(services, context, reply)
        return reply.code(201).send(attachmentWire({ ...file, name }, services.publicUrl()))
      },
    )

    app.delete<{ Params: FilePath }>(
      `${path}/assets/:attachment_id`,
      route(scope, { params: fileParams(params), response: NO_CONTENT }),
      async (request, reply) => {
        const holder = await holderIn(request)
        const { id, uuid } = fileIn(holder, request.params.attachment_id)
        const context = commandContext(request)
        await holder.remove(context, id)
        await attachments.remove(uuid)
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
