/** Redirects the paths of Gitea's pages that do not exist here to the nearest equivalent. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { loginProblem } from '../commands/users/accounts/names.ts'
import { goImport } from '../http/answers/go-import.ts'
import { basePath } from '../http/requests/base-path.ts'

/** Paths of pages and their targets. The first group is the owner, the second the repository. */
const TARGETS: readonly (readonly [RegExp, string])[] = [
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
const FIXED_TARGETS: Readonly<Record<string, string>> = {
  '/api': '/api/docs',
  '/api/v1': '/api/docs',
  '/favicon.ico': '/ui/assets/icon.svg',
}

/** Scans from the end: a regular expression would take quadratic time for a path of slashes. */
function lengthWithoutSlashes(path: string): number {
  let { length } = path
  while (path[length - 1] === '/') length -= 1
  return length
}

/** Returns the target of a path that belongs to no owner. */
export const fixedTargetOf = (path: string): string | undefined =>
  FIXED_TARGETS[path.slice(0, lengthWithoutSlashes(path))]

/**
 * Returns the target of a page's path; undefined when Gitea has no such page. It does not depend on the existence of
 * the repository, so it does not reveal that.
 */
export function targetOf(path: string): string | undefined {
  const fixed = fixedTargetOf(path)
  if (fixed !== undefined) return fixed
  const page = path.slice(0, lengthWithoutSlashes(path))
  const [, owner = ''] = page.split('/', 2)
  // `true` also allows the reserved name of the first account.
  if (loginProblem(owner, true) !== undefined) return undefined
  const [pattern, target] = TARGETS.find(([pattern]) => pattern.test(page)) ?? []
  return pattern && target && page.replace(pattern, target)
}

/** Answers a request for a path without a route that clients of Gitea may expect. */
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
  const target = targetOf(path)
  if (target === undefined) return undefined
  return reply.redirect(basePath(publicUrl) + [target, ...query].join('?'), 302)
}
