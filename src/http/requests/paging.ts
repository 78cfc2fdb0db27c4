/** Pages of a list: reads `page` and `limit`, and sends `Link` and `X-Total-Count`. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../../config/config.ts'
import { exposeHeaders } from '../answers/exposed-headers.ts'
import { OptionalText } from './optional-text.ts'

export interface Page {
  /** 1 is the first page. */
  page: number
  limit: number
  skip: number
}

/**
 * Maximum length of an address with paging links. Four links must fit into 16 KiB, the largest head of an answer that
 * many clients read.
 */
const MAX_LINKED = 3000

const TRUNCATED = 'Mergelog-Truncated'

/** The types are strings, because an invalid number means the default and must not be an error. */
export const PageQuery = {
  page: OptionalText('Number of the page; the first is 1'),
  limit: OptionalText('Page size: default 30, maximum 50, unless configured'),
}

/** The requested page: `api.paging.1`. A limit below 1, or one that is not a number, is the default; a page below 1 is page 1. */
export function pageOf(query: { page?: string; limit?: string }, config: Config): Page {
  const limit = wholeNumber(query.limit)
  const size =
    limit === undefined || limit < 1 ? config.pageLimitDefault : Math.min(limit, config.pageLimitMax)
  const page = Math.min(Math.max(wholeNumber(query.page) ?? 1, 1), Math.floor(Number.MAX_SAFE_INTEGER / size))
  return { page, limit: size, skip: (page - 1) * size }
}

/**
 * The requested page of a list that is complete by default: undefined when the request names neither a page nor its
 * size. Clients that read pages until one is empty name them.
 */
export function wantedPage(query: { page?: string; limit?: string }, config: Config): Page | undefined {
  return query.page || query.limit ? pageOf(query, config) : undefined
}

function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^-?\d{1,15}$/.test(text) ? Number(text) : undefined
}

/**
 * Sets the total and the links to other pages in headers that pages of other origins may read. As in Gitea, the first
 * page has `next` and `last`, the last page `first` and `prev`. A single page has `first` and `last`.
 * See `api.paging.2`.
 */
export function sendPaging(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  { page, limit }: Page,
  total: number,
): void {
  reply.header('X-Total-Count', total)
  exposeHeaders(reply, 'X-Total-Count, Link')
  if (request.url.length > MAX_LINKED) return
  const last = Math.max(1, Math.ceil(total / limit))
  const at = (target: number, rel: string) => {
    const url = new URL(request.url, publicUrl)
    url.searchParams.set('page', `${target}`)
    url.searchParams.set('limit', `${limit}`)
    return `<${publicUrl}${url.pathname}${url.search}>; rel="${rel}"`
  }
  const links: string[] = []
  if (page < last) links.push(at(page + 1, 'next'), at(last, 'last'))
  if (page > 1) links.push(at(1, 'first'), at(Math.min(page - 1, last), 'prev'))
  if (links.length === 0) links.push(at(1, 'first'), at(last, 'last'))
  reply.header('Link', links.join(', '))
}

/** Sets the headers of a complete list: the total, and a single page. */
export function sendOnePage(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  total: number,
): void {
  reply.header('X-Total-Count', total)
  exposeHeaders(reply, 'X-Total-Count, Link')
  if (request.url.length > MAX_LINKED) return
  const { pathname, search } = new URL(request.url, publicUrl)
  const link = (rel: string) => `<${publicUrl}${pathname}${search}>; rel="${rel}"`
  reply.header('Link', `${link('first')}, ${link('last')}`)
}

/** Marks the answer's list as truncated by a limit of the server. */
export function sendTruncated(reply: FastifyReply): void {
  reply.header(TRUNCATED, 'true')
  exposeHeaders(reply, TRUNCATED)
}

/** `api.paging.3`: like `sendPaging`, with the four additional headers of lists of commits and changed files. */
export function sendCommitPaging(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  page: Page,
  total: number,
): void {
  sendPaging(request, reply, publicUrl, page, total)
  const pageCount = Math.ceil(total / page.limit)
  reply.headers({
    'X-Page': page.page,
    'X-PerPage': page.limit,
    'X-PageCount': pageCount,
    'X-HasMore': `${page.page < pageCount}`,
  })
  exposeHeaders(reply, 'X-Page, X-PerPage, X-PageCount, X-HasMore')
}
