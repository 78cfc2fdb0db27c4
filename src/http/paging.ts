/** Pages of a list: `page` and `limit` in, `Link` and `X-Total-Count` out. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { Config } from '../config.ts'

export interface Page {
  /** From 1. */
  page: number
  limit: number
  skip: number
}

/** Strings on purpose: what is not a number gives the default, never an error (DESIGN section 8). */
export const PageQuery = {
  page: Type.Optional(Type.String({ description: 'page number, 1-based' })),
  limit: Type.Optional(Type.String({ description: 'page size' })),
}

/** The page asked for. A limit of 0 or less, or no number, is the default; page below 1 is 1. */
export function pageOf(query: { page?: string; limit?: string }, config: Config): Page {
  const limit = wholeNumber(query.limit)
  const size =
    limit === undefined || limit < 1 ? config.pageLimitDefault : Math.min(limit, config.pageLimitMax)
  const page = Math.min(Math.max(wholeNumber(query.page) ?? 1, 1), Math.floor(Number.MAX_SAFE_INTEGER / size))
  return { page, limit: size, skip: (page - 1) * size }
}

function wholeNumber(text: string | undefined): number | undefined {
  return text !== undefined && /^-?\d{1,15}$/.test(text) ? Number(text) : undefined
}

/** Says on the reply how many there are and where the other pages are; browsers may read both. */
export function sendPaging(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
  { page, limit }: Page,
  total: number,
): void {
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
  reply.header('X-Total-Count', total)
  if (links.length > 0) reply.header('Link', links.join(', '))
  reply.header('Access-Control-Expose-Headers', 'X-Total-Count, Link')
}

/** The same for a list of commits or changed files, whose pages are told in four more headers. */
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
    'Access-Control-Expose-Headers': 'X-Total-Count, Link, X-Page, X-PerPage, X-PageCount, X-HasMore',
  })
}
