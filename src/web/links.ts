/** Where addresses of Gitea's pages lead that have no page here: to the nearest thing that exists. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { loginProblem } from '../commands/users/accounts/names.ts'
import { goImport } from '../http/answers/go-import.ts'
import { basePath } from '../http/requests/base-path.ts'

/** Addresses of pages, and where each leads. The first group is the owner, the second the repository. */
const PLACES: readonly (readonly [RegExp, string])[] = [
  [/^\/([^/]+)$/, '/api/v1/users/$1'],
  [/^\/([^/]+)\/([^/]+)$/, '/api/v1/repos/$1/$2'],
  [/^\/([^/]+)\/([^/]+)\/pulls\/(\d+)(?:\/(?:commits|files))?$/, '/ui/$1/$2/pulls/$3'],
  [/^\/([^/]+)\/([^/]+)\/issues\/(\d+)$/, '/api/v1/repos/$1/$2/issues/$3'],
  [/^\/([^/]+)\/([^/]+)\/commit\/([^/]+)$/, '/api/v1/repos/$1/$2/git/commits/$3'],
  [/^\/([^/]+)\/([^/]+)\/compare\/(.+)$/, '/api/v1/repos/$1/$2/compare/$3'],
  [/^\/([^/]+)\/([^/]+)\/milestone\/(\d+)$/, '/api/v1/repos/$1/$2/milestones/$3'],
  [/^\/([^/]+)\/([^/]+)\/releases\/tag\/(.+)$/, '/api/v1/repos/$1/$2/releases/tags/$3'],
  [
    /^\/([^/]+)\/([^/]+)\/(branches|commits|issues|labels|milestones|pulls|releases|tags)$/,
    '/api/v1/repos/$1/$2/$3',
  ],
]

/** Paths that belong to no owner. */
const OWN_PLACES: Readonly<Record<string, string>> = {
  '/api': '/api/docs',
  '/api/v1': '/api/docs',
  '/favicon.ico': '/ui/assets/icon.svg',
}

/** Scans from the end: a regular expression takes quadratic time for a path of slashes. */
function lengthWithoutSlashes(path: string): number {
  let { length } = path
  while (path[length - 1] === '/') length -= 1
  return length
}

/**
 * The path that a page's path leads to; undefined when no page of Gitea has it. It is the same for every name, so it does
 * not tell which repositories exist.
 */
export function placeOf(path: string): string | undefined {
  const page = path.slice(0, lengthWithoutSlashes(path))
  const own = OWN_PLACES[page]
  if (own !== undefined) return own
  const [, owner = ''] = page.split('/', 2)
  // The first account has a name that no other may have.
  if (loginProblem(owner, true) !== undefined) return undefined
  const [pattern, target] = PLACES.find(([pattern]) => pattern.test(page)) ?? []
  return pattern && target && page.replace(pattern, target)
}

/** Answers a request for a path that no route has, when clients of Gitea expect something there. */
export function linkedPlace(
  request: FastifyRequest,
  reply: FastifyReply,
  publicUrl: string,
): FastifyReply | undefined {
  const module = goImport(request, publicUrl)
  if (module !== undefined) return reply.type('text/html; charset=utf-8').send(module)
  const { method, url } = request
  if (method !== 'GET' && method !== 'HEAD') return undefined
  const [path = '', ...query] = url.split('?')
  const place = placeOf(path)
  if (place === undefined) return undefined
  return reply.redirect(basePath(publicUrl) + [place, ...query].join('?'), 302)
}
