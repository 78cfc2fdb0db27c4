/** Adds files to releases, renames them and deletes them: `/repos/{owner}/{repo}/releases/{id}/assets`. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Static } from 'typebox'
import type { ReleaseAsset } from '../../events/release-events.ts'
import { idsStream } from '../../events/streams.ts'
import { Refused, refuse } from '../../refusal.ts'
import { onRepository, type RepositoryRequest } from '../../rights/repository-access.ts'
import { signedIn } from '../../rights/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../rights/routes.ts'
import { AttachmentWire, attachmentWire } from '../../wire/attachments.ts'
import { AssetParams, assetOf, ReleaseParams, releaseFor } from '../../wire/releases.ts'
import {
  EditAttachmentOptions,
  newNameOf,
  readUploads,
  storeUpload,
  UploadQuery,
} from '../attachments/store-upload.ts'
import type { Upload } from '../attachments/upload.ts'
import type { CommandContext } from '../execute.ts'
import { commandContext, settled } from '../request-context.ts'
import { takeNumber } from '../sequences.ts'
import { changeRelease } from './change-release.ts'
import { decideAddAsset, decideDeleteAsset, decideRenameAsset } from './release.ts'

type UploadRequest = { Params: Static<typeof ReleaseParams>; Querystring: Static<typeof UploadQuery> }

export const releaseAssetRoutes: Routes = (services) => {
  const { attachments, config, events, views } = services

  /** A file as queries show it, or as it was just recorded when queries lag. */
  async function wireOf(releaseId: number, file: ReleaseAsset, context: CommandContext) {
    const known = (await views.releases.get(`${releaseId}`))?.assets.find(({ id }) => id === file.id)
    return attachmentWire({ createdAt: context.at, ...known, ...file }, services.publicUrl())
  }

  /** The release in the path, for a requester who may change its files. */
  async function releaseToChange(request: RepositoryRequest & { params: Static<typeof ReleaseParams> }) {
    const found = await onRepository(services, request, 'write')
    const { id, login } = signedIn(request)
    const release = await releaseFor(services, found, request.params.id)
    return { release, repository: found.repository, requester: { id, login } }
  }

  /** Records a file that is stored already. Resolves to the file; for a retried request, to the first one. */
  async function recordUpload(
    request: FastifyRequest<UploadRequest>,
    reply: FastifyReply,
    { uuid, size, digest }: Upload,
    name: string,
  ) {
    // Check the rights again: the upload may have taken long.
    const { release, requester: uploader } = await releaseToChange(request)
    const context = commandContext(request, { name, size, digest })
    const id = await takeNumber(events, context, idsStream('attachment'))
    const state = await changeRelease(services, context, release.id, 'add asset', (now) =>
      decideAddAsset(now, { id, uuid, name, size, uploader }),
    )
    const file = state.status === 'there' ? state.assets.find((one) => one.id === id) : undefined
    if (file === undefined) throw new Refused(refuse.notFound('this attachment has been deleted since'))
    // This is a retried request: the file of the first one is the asset.
    if (file.uuid !== uuid) await attachments.remove(uuid)
    await settled(services, context, reply)
    return wireOf(release.id, file, context)
  }

  async function uploadRoute(app: FastifyInstance): Promise<void> {
    await readUploads(app)
    const { config: scope, schema } = route('repository', {
      consumes: ['multipart/form-data', 'application/octet-stream'],
      params: ReleaseParams,
      querystring: UploadQuery,
      response: { 201: AttachmentWire },
    })
    app.post<UploadRequest>(
      '/repos/:owner/:repo/releases/:id/assets',
      { config: { ...scope, streamsBody: true }, schema },
      async (request, reply) => {
        const { repository } = await releaseToChange(request)
        const into = {
          ...{ repository, allowed: config.releaseAllowedTypes, name: request.query.name },
          takesRaw: true,
        }
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
      '/repos/:owner/:repo/releases/:id/assets/:attachment_id',
      route('repository', {
        params: AssetParams,
        body: EditAttachmentOptions,
        response: { 201: AttachmentWire },
      }),
      async (request, reply) => {
        const { release } = await releaseToChange(request)
        const file = assetOf(services, release, request.params.attachment_id)
        const name = await newNameOf(services, file, request.body.name, config.releaseAllowedTypes)
        const context = commandContext(request)
        await changeRelease(services, context, release.id, 'rename asset', (state) =>
          decideRenameAsset(state, file.id, name),
        )
        await settled(services, context, reply)
        return reply.code(201).send(await wireOf(release.id, { ...file, name }, context))
      },
    )

    app.delete(
      '/repos/:owner/:repo/releases/:id/assets/:attachment_id',
      route('repository', { params: AssetParams, response: NO_CONTENT }),
      async (request, reply) => {
        const { release } = await releaseToChange(request)
        const { id, uuid } = assetOf(services, release, request.params.attachment_id)
        const context = commandContext(request)
        await changeRelease(services, context, release.id, 'delete asset', (state) =>
          decideDeleteAsset(state, id),
        )
        await attachments.remove(uuid)
        await settled(services, context, reply)
        return reply.code(204).send(null)
      },
    )
  }
}
