/** One page of a view, with the paging headers. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { pageOf, sendPaging } from '../http/paging.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { View } from '../projections/view.ts'
import type { Services } from '../services.ts'

interface ListQuery<D extends object> {
  view: View<D>
  filter: Filter<D>
  sort: Sort<D>
  /** The request's `page` and `limit`. */
  query: { page?: string; limit?: string }
}

/** The documents of the requested page. Sets `X-Total-Count` and `Link` on the reply. */
export async function pagedList<D extends object>(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  { view, filter, sort, query }: ListQuery<D>,
): Promise<D[]> {
  const page = pageOf(query, services.config)
  const [found, total] = await Promise.all([
    view.find(filter, { sort, skip: page.skip, limit: page.limit }),
    view.count(filter),
  ])
  sendPaging(request, reply, services.publicUrl(), page, total)
  return found
}
