/** Reading the labels of a repository or of an organization. */
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import type { FastifyReply } from 'fastify'
import type { Static } from 'typebox'
import { onRepository } from '../../access/repository-access.ts'
import {
  type LabelOwner,
  LabelParams,
  LabelWire,
  labelIdIn,
  labelWire,
  OrganizationLabelParams,
  organizationAsLabelOwner,
  repositoryAsLabelOwner,
} from '../../api/labels/labels.ts'
import { OrganizationParams, organizationFor } from '../../api/organizations/organizations.ts'
import { RepositoryParams } from '../../api/repositories/repositories.ts'
import { type LabelDocument, scopeKey } from '../../projections/models/labels/labels.fold.ts'
import type { Sort } from '../../projections/store/read-store.ts'
import { notFoundIn } from '../../projections/views/view.ts'
import type { Services } from '../../services/services.ts'
import { listSchema, type PageRequest, pagedList } from '../paged-list.ts'

/** The order of a list. */
export const LABELS_BY_NAME: Sort<LabelDocument> = [
  ['nameKey', 1],
  ['id', 1],
]

export function labelQueryRoutes(services: Services): FastifyPluginAsyncTypebox {
  const { labels } = services.views

  async function labelIn(owner: LabelOwner, idOrName: string): Promise<Static<typeof LabelWire>> {
    const id = await labelIdIn(services, owner.scope, idOrName)
    const label = id === undefined ? undefined : await labels.get(`${id}`)
    if (label?.scopeKey !== scopeKey(owner.scope)) throw notFoundIn(labels, 'label not found')
    return labelWire(label, owner, services.publicUrl())
  }

  async function labelsOf(owner: LabelOwner, request: PageRequest, reply: FastifyReply) {
    const page = { view: labels, filter: { scopeKey: scopeKey(owner.scope) }, sort: LABELS_BY_NAME }
    const found = await pagedList(services, request, reply, page)
    return found.map((label) => labelWire(label, owner, services.publicUrl()))
  }

  return async (app) => {
    const list = listSchema(LabelWire)
    const one = { response: { 200: LabelWire } }
    const repository = { scope: 'issue' } as const
    const organization = { scope: 'organization' } as const

    app.get(
      '/repos/:owner/:repo/labels',
      { config: repository, schema: { ...list, tags: ['issue'], params: RepositoryParams } },
      async (request, reply) => {
        const { repository } = await onRepository(services, request, 'read')
        return labelsOf(repositoryAsLabelOwner(repository), request, reply)
      },
    )

    app.get(
      '/repos/:owner/:repo/labels/:id',
      { config: repository, schema: { ...one, tags: ['issue'], params: LabelParams } },
      async (request) => {
        const { repository } = await onRepository(services, request, 'read')
        return labelIn(repositoryAsLabelOwner(repository), request.params.id)
      },
    )

    app.get(
      '/orgs/:org/labels',
      { config: organization, schema: { ...list, tags: ['organization'], params: OrganizationParams } },
      async (request, reply) => {
        const organization = await organizationFor(services, request, request.params.org)
        return labelsOf(organizationAsLabelOwner(organization), request, reply)
      },
    )

    app.get(
      '/orgs/:org/labels/:id',
      { config: organization, schema: { ...one, tags: ['organization'], params: OrganizationLabelParams } },
      async (request) => {
        const organization = await organizationFor(services, request, request.params.org)
        return labelIn(organizationAsLabelOwner(organization), request.params.id)
      },
    )
  }
}
