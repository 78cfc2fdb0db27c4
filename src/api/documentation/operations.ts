/** The operations of the API's documentation: by route, and the place of each on the page. */
import type { FastifyRequest } from 'fastify'
import { OPERATIONS } from './operation-table.ts'

export interface OperationRow {
  id: string
  summary: string
  tag: string
  /** The name of the wildcard at the end of the path; empty without one. */
  rest: string
}

const OUTSIDE_OF_API = /^\/(livez|healthz|sdk\/|attachments\/|:owner\/)/

const ROWS: ReadonlyMap<string, OperationRow> = new Map(
  Object.entries(OPERATIONS).flatMap(([tag, rows]) =>
    Object.entries(rows).map(([route, [id, summary]]) => {
      const [method = '', path = ''] = route.split(' ')
      const [, before = path, rest] = /^(.*)\*(\w+)$/.exec(path) ?? []
      const prefix = OUTSIDE_OF_API.test(path) ? '' : '/api/v1'
      const key = `${method} ${prefix}${before}${rest === undefined ? '' : '*'}`
      return [key, { id, summary, tag, rest: rest ?? '' }] as const
    }),
  ),
)

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  history: 'The recorded events of issues, pull requests, repositories and the site, also as a live stream',
  replay: 'Earlier states of issues and pull requests, their differences, and the evidence of merges',
  upgrade: 'Upgrade plans as the Cosmos SDK has them, and their administration',
  repository: 'Repositories with their branches, commits, files, pull requests, reviews and releases',
  issue: 'Issues, comments, labels, milestones and attachments',
  organization: 'Organizations and teams',
  user: 'Accounts, keys, tokens and what they follow',
  notification: 'Notifications of the caller',
  admin: 'Administration of the site',
  settings: 'Settings that clients ask for',
  miscellaneous: 'Version, Markdown and node information',
  lfs: "Git LFS: objects and locks, as git's LFS client asks for them",
  server: 'Health of the server',
}

/** The tags in the order of the page. */
export const TAGS = Object.keys(OPERATIONS).map((name) => ({ name, description: DESCRIPTIONS[name] ?? name }))

/** Paths with reads for signed-in callers only, whatever they read. */
const SIGNED_IN_PATHS = [
  /^\/api\/v1\/(user|admin|notifications|teams|topics\/search|repos\/issues\/search)(\/|$)/,
  /\/(hooks|tokens|notifications|subscription|subscriptions\/check|permissions?)(\/|$)/,
  /^\/api\/v1\/(repos\/:owner\/:repo|orgs\/:org)\/(\w+_protections|teams|collaborators|keys|reviewers|assignees)(\/|$)/,
]
/** Operations that read, although they have a body. */
const READS: ReadonlySet<string> = new Set(['repoGetFileContentsPost', 'lfsBatch', 'lfsVerifyObject'])

/** Whether an anonymous caller may call an operation on public resources. `path`: as routes have it. */
export const admitsAnonymous = (method: string, path: string, id: string): boolean =>
  (method === 'GET' || READS.has(id)) && !SIGNED_IN_PATHS.some((pattern) => pattern.test(path))

/** The operation of a route; undefined for a route without documentation. `path`: as routes have it. */
export const operationOf = (method: string, path: string): OperationRow | undefined =>
  ROWS.get(`${method} ${path}`)

/** Where the operation of a request is documented; the whole documentation when it is not. */
export function operationUrl({ method, routeOptions }: FastifyRequest, docsUrl: string): string {
  const { schema, url } = routeOptions
  const operation =
    schema?.hide === true ? undefined : operationOf(method === 'HEAD' ? 'GET' : method, url ?? '')
  return operation === undefined ? docsUrl : `${docsUrl}#/${operation.tag}/${operation.id}`
}
