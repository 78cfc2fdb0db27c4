/** Shared parameters of lists: the page, with its headers, and the time of the last update. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type TProperties, type TSchema, Type } from 'typebox'
import { timeRange } from '../api/time-range.ts'
import { Refused, refuse } from '../errors/refusal.ts'
import { sendStreamedList } from '../http/answers/streamed-list.ts'
import { type Page, PageQuery, pageOf, sendOnePage, sendPaging, wantedPage } from '../http/requests/paging.ts'
import type { Filter, Row, Sort } from '../projections/store/read-store.ts'
import type { View } from '../projections/views/view.ts'
import type { Services } from '../services/services.ts'

/** Filters by `since` and `before`, both inclusive. @throws Refused (unprocessable) for an invalid date-time */
export function updatedBetween(query: { since?: string; before?: string }): {
  updatedAt?: { $gte?: string; $lte?: string }
} {
  const { since, before } = timeRange(query)
  if (since === undefined && before === undefined) return {}
  return {
    updatedAt: { ...(since !== undefined && { $gte: since }), ...(before !== undefined && { $lte: before }) },
  }
}

/** Refuses Gitea's filters that this list lacks, because an unfiltered list would be wrong. */
export function refuseFilters(query: object, names: readonly string[]): void {
  const given = new Map<string, unknown>(Object.entries(query))
  const errors = names.flatMap((name) => {
    const value = given.get(name)
    return value === undefined || value === '' || value === 'false' ? [] : [`${name}: is not supported`]
  })
  if (errors.length > 0) throw new Refused(refuse.unprocessable(errors.join('; '), errors))
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

interface PagedView<D extends object> {
  view: View<D>
  filter: Filter<D>
  sort: Sort<D>
  /** The number of documents on all pages, if known without counting. */
  total?: number | undefined
}

/**
 * Returns the requested page of a view whose documents may be long: `wires` converts documents to rows. Sets
 * `X-Total-Count` and `Link` on the reply.
 */
export async function sendPage<D extends object, W extends object>(
  services: Services,
  request: PageRequest,
  reply: FastifyReply,
  { view, filter, sort, total }: PagedView<D>,
  wires: (documents: readonly D[]) => Promise<W[]>,
): Promise<W[] | FastifyReply> {
  const page = pageOf(request.query, services.config)
  const options = { sort, skip: page.skip, limit: page.limit }
  const { rows, total: count } =
    total === undefined ? await view.page(filter, options) : { rows: await view.rows(filter, options), total }
  sendPaging(request, reply, services.publicUrl(), page, count)
  return sendRows(reply, view, rows, wires)
}

/** Returns all documents of the requested page of a view. Sets the headers of `sendPage`. */
export async function pagedList<D extends object>(
  services: Services,
  request: PageRequest,
  reply: FastifyReply,
  { view, filter, sort }: Omit<PagedView<D>, 'total'>,
): Promise<D[]> {
  const { documents, page, total } = await documentPage(services, request.query, { view, filter, sort })
  sendPaging(request, reply, services.publicUrl(), page, total)
  return documents
}

/** The documents of the page that a query names, all at once. */
export async function documentPage<D extends object>(
  { config }: Pick<Services, 'config'>,
  query: PageRequest['query'],
  { view, filter, sort, total: known }: PagedView<D>,
): Promise<{ documents: D[]; page: Page; total: number }> {
  const page = pageOf(query, config)
  const options = { sort, skip: page.skip, limit: page.limit }
  const { rows, total } =
    known === undefined
      ? await view.page(filter, options)
      : { rows: await view.rows(filter, options), total: known }
  return { documents: (await Array.fromAsync(documentsIn(view, rows))).flat(), page, total }
}

/** Sends the rows of a view. If some are long, sends them in parts, as the client reads them. */
export async function sendRows<D extends object, W extends object>(
  reply: FastifyReply,
  view: View<D>,
  rows: readonly Row<D>[],
  wires: (documents: readonly D[]) => Promise<W[]>,
): Promise<W[] | FastifyReply> {
  const short = rows.flatMap((row) => ('body' in row ? [row.body] : []))
  if (short.length === rows.length) return wires(short)
  async function* parts() {
    for await (const documents of documentsIn(view, rows)) yield await wires(documents)
  }
  return sendStreamedList(reply, parts())
}

/** Number of short documents per part of an answer. */
const PART_ROWS = 10

/** Yields the documents of rows in order, in batches. Reads long ones separately, and leaves out deleted ones. */
export async function* documentsIn<D extends object>(
  view: View<D>,
  rows: readonly Row<D>[],
): AsyncGenerator<D[]> {
  let part: D[] = []
  for (const row of rows) {
    if ('body' in row) part.push(row.body)
    if ('body' in row && part.length < PART_ROWS) continue
    if (part.length > 0) yield part
    part = []
    const long = 'body' in row ? undefined : await view.get(row.id)
    if (long !== undefined) yield [long]
  }
  if (part.length > 0) yield part
}

/** Returns the requested page of rows in memory. Sets `X-Total-Count` and `Link` on the reply. */
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

/** Returns the requested page, or all rows without a requested page. */
export function rowsOrPage<T>(
  services: Services,
  request: PageRequest,
  reply: FastifyReply,
  rows: readonly T[],
): readonly T[] {
  if (wantedPage(request.query, services.config)) return pagedRows(services, request, reply, rows)
  sendOnePage(request, reply, services.publicUrl(), rows.length)
  return rows
}
