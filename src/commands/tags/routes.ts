/** Creates and deletes tags: `/repos/{owner}/{repo}/tags`. */
import { Type } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import { servedCommitOf } from '../../api/contents/reached-objects.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { TagParams, TagWire, tagWires } from '../../api/tags/tags.ts'
import { signedIn } from '../../auth/requester.ts'
import { NO_CONTENT, type Routes, route } from '../../auth/routes.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { type TagDocument, tagId } from '../../projections/models/tags/tags.fold.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import { commandContext, settled } from '../execution/request-context.ts'
import { TextOf } from '../execution/text-schema.ts'
import { createTag, deleteTag } from './tags.ts'

export const tagRoutes: Routes = (services) => async (app) => {
  app.post(
    '/repos/:owner/:repo/tags',
    route('repository', {
      params: RepositoryParams,
      body: Type.Object(
        {
          tag_name: Type.String(),
          target: Type.Optional(
            Type.String({ description: 'Branch, tag or commit; default: the default branch' }),
          ),
          message: Type.Optional(TextOf(services)),
        },
        { title: 'CreateTagOption' },
      ),
      response: { 201: TagWire },
    }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const { tag_name: name, target, message } = request.body
      const caller = { request, reply }
      const commit = await servedCommitOf(services, caller, repository, target || repository.defaultBranch)
      const context = commandContext(request)
      const tagging = { repository, requester: signedIn(request), caller }
      const sha = await createTag(services, context, tagging, { name, commit, message: message ?? '' })
      await settled(services, context, reply)
      const made: TagDocument = { repoId: repository.id, name, sha, date: Date.parse(context.at) }
      const [wire] = await tagWires(services, repository, [made])
      if (wire === undefined) throw notFoundIn(services.views.tags, 'tag not found')
      return reply.code(201).send(wire)
    },
  )

  app.delete(
    '/repos/:owner/:repo/tags/*',
    route('repository', { params: TagParams, response: NO_CONTENT }),
    async (request, reply) => {
      const { repository } = await onRepository(services, request, 'write')
      const name = request.params['*']
      const known = await services.views.tags.get(tagId(repository.id, name))
      if (known === undefined) throw notFoundIn(services.views.tags, 'tag not found')
      const release = await services.views.releases.findOne({ repoId: repository.id, tag: name })
      if (release !== undefined) {
        throw new Refused(refuse.conflict('the tag belongs to a release: delete the release first'))
      }
      const context = commandContext(request)
      const tagging = { repository, requester: signedIn(request), request }
      await deleteTag(services, context, tagging, name)
      await settled(services, context, reply)
      return reply.code(204).send(null)
    },
  )
}
