/** The contents of files of issues, comments and releases, for readers of the repository. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { accessTo, atLeast } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import { noSuchFile } from '../../api/attachments/attachments.ts'
import { maySeeDrafts, ReleaseTagParams, releaseOfTag } from '../../api/releases/releases.ts'
import { requireScope } from '../../auth/auth.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { issueId } from '../../projections/models/issues/issue-selection.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { isUuid } from '../../storage/attachments/files.ts'
import { FILE_ANSWERS, fileDownload } from '../contents/file-download.ts'

/**
 * `GET /attachments/{uuid}`, the address in `browser_download_url`, outside the API; and a release's file by its name.
 */
export function attachmentDownloadRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services
  const download = fileDownload(services)

  /** Returns the owner of the file with this uuid; undefined without one. */
  async function ownerOf(uuid: string) {
    const [comment] = await views.comments.find({ attachmentUuids: uuid }, { limit: 1 })
    if (comment !== undefined) return { ...comment, files: comment.attachments, scope: 'issue' as const }
    const [known] = await views.issueFiles.find({ uuids: uuid }, { limit: 1 })
    if (known !== undefined) {
      const issue = await views.issues.get(issueId(known.repoId, known.index))
      return { repoId: known.repoId, files: issue?.assets ?? [], scope: 'issue' as const }
    }
    const [release] = await views.releases.find({ assetUuids: uuid }, { limit: 1 })
    if (release !== undefined) return { ...release, files: release.assets, scope: 'repository' as const }
    return undefined
  }

  /** Returns a file that the requester may read. A token needs the scope of the file's resource. */
  async function readable(request: FastifyRequest, uuid: string): Promise<{ uuid: string; name: string }> {
    const owner = isUuid(uuid) ? await ownerOf(uuid) : undefined
    // The path does not show which scope the file needs.
    requireScope(request, [owner?.scope ?? 'issue'], 'read')
    const repository = owner && (await views.repositories.get(`${owner.repoId}`))
    const access = repository === undefined ? 'none' : accessTo(repository, request.requester)
    const file = owner?.files.find((one) => one.uuid === uuid)
    const isDraft = owner !== undefined && 'draft' in owner && owner.draft
    if (file === undefined || !atLeast(access, 'read')) throw noSuchFile(services)
    if (isDraft && !maySeeDrafts(access)) throw noSuchFile(services)
    if ('erased' in file && file.erased !== undefined) {
      throw new Refused(refuse.notFound(`the file was ${file.erased}`))
    }
    return file
  }

  return async (app) => {
    const answer = { response: FILE_ANSWERS, refusals: ['preconditionFailed' as const] }

    app.get(
      '/attachments/:uuid',
      // The handler checks the scope.
      {
        config: { scope: [] },
        schema: { tags: ['issue'], params: Type.Object({ uuid: Type.String() }), ...answer },
      },
      async (request, reply) => download(request, reply, await readable(request, request.params.uuid)),
    )

    app.get(
      '/:owner/:repo/releases/download/*',
      {
        config: { scope: 'repository' },
        schema: { tags: ['repository'], params: ReleaseTagParams, ...answer },
      },
      async (request, reply) => {
        const found = await onRepository(services, request, 'read')
        const path = request.params['*']
        // The name has no slash; the tag may have some.
        const slash = path.lastIndexOf('/')
        const release = await releaseOfTag(services, found, path.slice(0, Math.max(slash, 0)))
        const file = release.assets.find(({ name }) => name === path.slice(slash + 1))
        if (file === undefined) throw notFoundIn(views.releases, 'attachment not found')
        return download(request, reply, file)
      },
    )
  }
}
