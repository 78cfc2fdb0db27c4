/** The parameters that many lists share: the page, with its headers, and the time of the last update. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type TProperties, type TSchema, Type } from 'typebox'
import { PageQuery, pageOf, sendPaging } from '../http/paging.ts'
import { timeRange } from '../http/time-range.ts'
import type { Filter, Sort } from '../projections/read-store.ts'
import type { View } from '../projections/view.ts'
import type { Services } from '../services.ts'

/** The filter for `since` and `before`, both inclusive. @throws Refused (unprocessable) for an invalid date-time */
export function updatedBetween(query: { since?: string; before?: string }): {
  updatedAt?: { $gte?: string; $lte?: string }
} {
  const { since, before } = timeRange(query)
  if (since === undefined && before === undefined) return {}
  return {
    updatedAt: { ...(since !== undefined && { $gte: since }), ...(before !== undefined && { $lte: before }) },
  }
}

/** The schema of a paged list with filters: its query and its answer. */
export const filteredListSchema = <T extends TSchema, Q extends TProperties>(row: T, filters: Q) => ({
  querystring: Type.Object({ ...filters, ...PageQuery }),
  response: { 200: Type.Array(row) },
})

/** The schema of a paged list without filters. */
export const listSchema = <T extends TSchema>(row: T) => filteredListSchema(row, {})

/** A request for a page: its query has `page` and `limit`. */
export type PageRequest = FastifyRequest & { query: { page?: string; limit?: string } }

/**
 * The documents of the requested page of a view. Sets `X-Total-Count` and `Link` on the reply. `total`: the number of
 * documents on all pages, if it can be had faster than by counting.
 */
export async function pagedList<D extends object>(
  services: Services,
  request: PageRequest,
  reply: FastifyReply,
  {
    view,
    filter,
    sort,
    total,
  }: { view: View<D>; filter: Filter<D>; sort: Sort<D>; total?: number | undefined },
): Promise<D[]> {
  const page = pageOf(request.query, services.config)
  const options = { sort, skip: page.skip, limit: page.limit }
  const { found, total: count } =
    total === undefined
      ? await view.page(filter, options)
      : { found: await view.find(filter, options), total }
  sendPaging(request, reply, services.publicUrl(), page, count)
  return found
}

/** The requested page of rows that are all in memory. Sets `X-Total-Count` and `Link` on the reply. */
export function pagedRows<T>(
  services: Services,
  request: PageRequest,
  reply: FastifyReply,
  rows: readonly T[],
): T[] {
  const page = pageOf(request.query, services.config)
  sendPaging(request, reply, services.publicUrl(), page, rows.length)
  return rows.slice(page.skip, page.skip + page.limit)
}
