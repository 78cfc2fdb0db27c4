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
  replay: 'Earlier states of issues and pull requests, and their differences',
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

/** Tags with operations that anonymous callers may use on public resources. */
const PUBLIC_TAGS: ReadonlySet<string> = new Set([
  'history',
  'replay',
  'repository',
  'issue',
  'organization',
  'user',
  'lfs',
  'settings',
  'miscellaneous',
])

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

/** Operations of these tags that answer 401 to anonymous callers. */
const NOT_ANONYMOUS: ReadonlySet<string> = new Set([
  'adminGetHistory',
  'getUserSettings',
  'getVerificationToken',
  'issueCheckSubscription',
  'issueSearchIssues',
  'orgGetHook',
  'orgGetTeam',
  'orgGetUserPermissions',
  'orgListHookDeliveries',
  'orgListHooks',
  'orgListTeamMember',
  'orgListTeamMembers',
  'orgListTeamRepo',
  'orgListTeamRepos',
  'orgListTeams',
  'repoCheckCollaborator',
  'repoCheckTeam',
  'repoGetAssignees',
  'repoGetBranchProtection',
  'repoGetHook',
  'repoGetKey',
  'repoGetRepoPermissions',
  'repoGetReviewers',
  'repoGetTagProtection',
  'repoListBranchProtection',
  'repoListCollaborators',
  'repoListHookDeliveries',
  'repoListHooks',
  'repoListKeys',
  'repoListTagProtection',
  'repoListTeams',
  'teamSearch',
  'topicSearch',
  'userGetHook',
  'userGetTokens',
  'userListEmails',
  'userListHookDeliveries',
  'userListHooks',
  'userListTeams',
])

/** Whether anonymous callers may use the operation on public resources. */
export const isAnonymous = (method: string, { id, tag }: OperationRow): boolean =>
  method === 'GET' && PUBLIC_TAGS.has(tag) && !id.includes('Current') && !NOT_ANONYMOUS.has(id)
