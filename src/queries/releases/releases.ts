/** Reading the releases of a repository, and their files. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { Access } from '../../access/access.ts'
import { onRepository } from '../../access/repository-access.ts'
import {
  maySeeDrafts,
  ReleaseParams,
  ReleaseTagParams,
  ReleaseWire,
  releaseFor,
  releaseOfTag,
  releaseWire,
  releaseWires,
} from '../../api/releases/releases.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { flagOf, OptionalText } from '../../http/requests/optional-text.ts'
import type { ReleaseDocument } from '../../projections/models/releases/releases.fold.ts'
import type { Filter, Sort } from '../../projections/store/read-store.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { searchedWords } from '../issues/issue-pages.ts'
import { filteredListSchema, sendPage } from '../paged-list.ts'

/** The order of a list. */
export const NEWEST_RELEASES: Sort<ReleaseDocument> = [
  ['createdAt', -1],
  ['id', -1],
]

interface ReleaseQuery {
  draft?: string
  'pre-release'?: string
  q?: string
}

/** Returns the filter for matching releases that the requester may see. */
export function releaseFilterOf(
  repoId: number,
  access: Access,
  query: ReleaseQuery,
): Filter<ReleaseDocument> {
  const filter: Filter<ReleaseDocument> = { repoId }
  if (query.draft) filter.draft = flagOf(query.draft, false)
  if (query['pre-release']) filter.prerelease = flagOf(query['pre-release'], false)
  const words = searchedWords(query.q)
  // A keyword without words matches nothing.
  if (words?.length === 0) filter.id = { $in: [] }
  else if (words !== undefined) filter.words = { $words: words }
  // Requesters who may not see drafts get none.
  if (!maySeeDrafts(access)) filter.draft = filter.draft === true ? { $in: [] } : false
  return filter
}

export function releaseQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { views } = services
  return async (app) => {
    const config = { scope: 'repository' } as const
    const tags = ['repository']

    app.get(
      '/repos/:owner/:repo/releases',
      {
        config,
        schema: {
          tags,
          params: RepositoryParams,
          ...filteredListSchema(ReleaseWire, {
            draft: OptionalText(
              'true: only drafts; false: without drafts; callers without write access get no drafts',
            ),
            'pre-release': OptionalText('true: only prereleases; false: without prereleases'),
            q: OptionalText('Words in the name or the tag'),
          }),
        },
      },
      async (request, reply) => {
        const { repository, access } = await onRepository(services, request, 'read')
        const filter = releaseFilterOf(repository.id, access, request.query)
        const page = { view: views.releases, filter, sort: NEWEST_RELEASES }
        return sendPage(services, request, reply, page, (found) => releaseWires(services, repository, found))
      },
    )

    app.get(
      '/repos/:owner/:repo/releases/latest',
      { config, schema: { tags, params: RepositoryParams, response: { 200: ReleaseWire } } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        const published = { repoId: repository.id, draft: false, prerelease: false }
        const [latest] = await views.releases.find(published, { sort: NEWEST_RELEASES, limit: 1 })
        if (latest === undefined) throw notFoundIn(views.releases, 'release not found')
        return releaseWire(services, repository, latest)
      },
    )

    app.get(
      '/repos/:owner/:repo/releases/tags/*',
      { config, schema: { tags, params: ReleaseTagParams, response: { 200: ReleaseWire } } },
      async (request) => {
        const found = await onRepository(services, request, 'read')
        const release = await releaseOfTag(services, found, request.params['*'])
        return releaseWire(services, found.repository, release)
      },
    )

    app.get(
      '/repos/:owner/:repo/releases/:id',
      { config, schema: { tags, params: ReleaseParams, response: { 200: ReleaseWire } } },
      async (request) => {
        const found = await onRepository(services, request, 'read')
        const release = await releaseFor(services, found, request.params.id)
        return releaseWire(services, found.repository, release)
      },
    )
  }
}
