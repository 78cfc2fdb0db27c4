/**
 * Statuses of every route by role. A repository route has a part for each kind of repository: public, private, private
 * organization; a missing part repeats the previous one. A part has a status for each role: anonymous, stranger,
 * reader, writer, admin, site admin. Words stand for common parts, with the status of success.
 */
import { LFS_ROWS } from './lfs-rows.ts'
import type { Call, Place, World } from './route-world.ts'
import { SOCIAL_ROWS } from './social-rows.ts'

/** `S` is the status of success. */
const WORDS: Readonly<Record<string, string>> = {
  /** Of no repository. */
  everybody: 'S S S S S S',
  'signed-in': '401 S S S S S',
  'site-admin': '401 403 403 403 403 S',
  /** Of a repository. */
  read: 'S S S S S S / 404 404 S S S S',
  'read-signed-in': '401 S S S S S / 404 404 S S S S',
  people: '401 403 S S S S / 404 404 S S S S',
  write: '401 403 403 S S S / 404 404 403 S S S',
  admin: '401 403 403 403 S S / 404 404 403 403 S S',
}

/** The statuses of a row, by kind of repository and then by role. */
export function statusesIn(row: string): number[][] {
  const [word = '', success = ''] = row.split(' ')
  const parts = (WORDS[word]?.replaceAll('S', success) ?? row).split(' / ')
  return parts.map((part) => part.split(' ').map(Number))
}

export interface Row {
  /** A word and the status of success, or the statuses. */
  who: string
  /** Creates a fresh target, if the route needs one, and returns the request. */
  call?: (place: Place, world: World) => Call | Promise<Call>
}

const row = (who: string, call?: Row['call']): Row => (call === undefined ? { who } : { who, call })

const REPO = '/api/v1/repos/:owner/:repo'
const upgrade = (path: string) => [
  `GET ${path}`,
  `GET /api/v1${path}`,
  `GET ${path.replace('sdk', 'cosmos')}`,
  `GET /api/v1${path.replace('sdk', 'cosmos')}`,
]
const same = (routes: readonly string[], of: Row) => Object.fromEntries(routes.map((route) => [route, of]))

/** A team of the organization `closed` with carol; `repo`: also with a repository. */
async function closedTeam({ must, next }: World | Place, member = 'carol') {
  const { id } = await must<{ id: number }>('alice', 'POST', '/orgs/closed/teams', { name: `t${next()}` })
  await must('alice', 'PUT', `/teams/${id}/members/${member}`)
  const repo = `of-team-${next()}`
  await must('alice', 'POST', '/orgs/closed/repos', { name: repo })
  await must('alice', 'PUT', `/teams/${id}/repos/closed/${repo}`)
  return { path: { id, org: 'closed', repo, username: member } }
}

/** A team of the organization that owns a repository, for repository routes; without an organization, any name. */
async function teamOf({ owner, base, must, next }: Place, isIn: boolean) {
  const team = `t${next()}`
  if (owner !== 'closed') return { path: { team } }
  await must('alice', 'POST', '/orgs/closed/teams', { name: team })
  if (isIn) await must('alice', 'PUT', `${base}/teams/${team}`)
  return { path: { team } }
}

/** A repository that is offered to carol. */
async function offered(path: { owner: string; repo: string }, must: Place['must']) {
  await must('alice', 'POST', `/repos/${path.owner}/${path.repo}/transfer`, { new_owner: 'carol' })
  return path
}

/** A comment, with the number of its issue. */
async function placeOf(base: string, id: number, must: Place['must']) {
  const { issue_url } = await must<{ issue_url: string }>('alice', 'GET', `${base}/issues/comments/${id}`)
  return { id, index: Number(issue_url.split('/').at(-1)) }
}

const index = ({ issue }: Place): Call => ({ path: { index: issue } })
const pullIndex = ({ pull }: Place): Call => ({ path: { index: pull } })
/** A review of the place's pull request. */
const review =
  (login: string, body: object) =>
  async ({ pull, base, must }: Place): Promise<Call> => {
    const { id } = await must<{ id: number }>(login, 'POST', `${base}/pulls/${pull}/reviews`, body)
    return { path: { index: pull, id } }
  }
/** A comment of alice on a file of the place's pull request. */
async function lineComment({ pull, base, must, next }: Place): Promise<Call> {
  const [file] = await must<{ filename: string }[]>('alice', 'GET', `${base}/pulls/${pull}/files`)
  const comments = [{ path: file?.filename, new_position: 1, body: `Hm ${next()}` }]
  const reviews = `${base}/pulls/${pull}/reviews`
  const { id } = await must<{ id: number }>('alice', 'POST', reviews, { event: 'COMMENT', comments })
  const [comment] = await must<{ id: number }[]>('alice', 'GET', `${reviews}/${id}/comments`)
  return { path: { index: pull, id: comment?.id ?? 0 } }
}
const sdk = '/sdk/upgrade/v1beta1'

const HOOK = { type: 'gitea', config: { url: 'https://ci.example.org/hook', content_type: 'json' } }

/** The routes of webhooks of an account or of the site. `who`: `S` is the status of success. */
function hookRows(
  url: string,
  who: string,
  login: string,
  made: string,
  path: Record<string, string>,
): Record<string, Row> {
  const all = [
    ['GET', '', 200],
    ['POST', '', 201],
  ] as const
  const one = [
    ['GET', '/:id', 200],
    ['PATCH', '/:id', 200],
    ['DELETE', '/:id', 204],
    ['GET', '/:id/deliveries', 200],
  ] as const
  const statuses = (status: number) => who.replaceAll('S', `${status}`)
  return Object.fromEntries([
    ...all.map(([method, rest, status]) => [
      `${method} ${url}${rest}`,
      row(statuses(status), () => ({ path, ...(method === 'POST' && { body: HOOK }) })),
    ]),
    ...one.map(([method, rest, status]) => [
      `${method} ${url}${rest}`,
      row(statuses(status), async ({ must, next }) => {
        const { id } = await must<{ id: number }>(login, 'POST', made, HOOK)
        return { path: { ...path, id }, ...(method === 'PATCH' && { body: { branch_filter: `b${next()}` } }) }
      }),
    ]),
  ])
}

export const ROWS: Readonly<Record<string, Row>> = {
  // For everybody
  ...same(
    [
      'GET /api/docs',
      'GET /api/docs/static/swagger-initializer.js',
      'GET /api/docs/json',
      'GET /api/docs/yaml',
      'GET /api/docs/static/theme/mergelog.css',
      'GET /api/docs/static/theme/mergelog.js',
      'GET /api/docs/static/theme/icon.svg',
      'GET /api/openapi.json',
      'GET /.well-known/nodeinfo',
      'GET /api/v1/nodeinfo',
      'GET /api/v1/version',
      'GET /api/v1/settings/api',
      'GET /api/v1/settings/ui',
      'GET /api/v1/settings/repository',
      'GET /api/v1/settings/attachment',
      'GET /healthz',
      'GET /livez',
      'GET /',
      'GET /robots.txt',
      'GET /ui/assets/page.js',
      'GET /ui/assets/page.css',
      'GET /ui/assets/icon.svg',
      ...upgrade(`${sdk}/current_plan`),
      ...upgrade(`${sdk}/applied_plan/:name`),
      ...upgrade(`${sdk}/module_versions`),
      ...upgrade(`${sdk}/authority`),
    ],
    row('everybody 200'),
  ),
  ...same(
    upgrade(`${sdk}/upgraded_consensus_state/:last_height`),
    row('everybody 200', () => ({ path: { last_height: 5 } })),
  ),
  // The log of this server is not signed.
  'GET /api/v1/log/checkpoint': row('everybody 404'),
  'GET /api/v1/log/proof': row('everybody 404', () => ({ query: { from: '1' } })),
  // It sends to the page of the documentation.
  'GET /api/docs/static/index.html': row('everybody 302'),
  'GET /api/docs/static/*': row('everybody 200', () => ({ path: { '*': 'swagger-ui.css' } })),

  // Users
  'GET /api/v1/user': row('signed-in 200'),
  'GET /api/v1/user/orgs': row('signed-in 200'),
  'GET /api/v1/user/emails': row('signed-in 200'),
  'POST /api/v1/user/emails': row('signed-in 201', ({ next }) => ({
    body: { emails: [`mail${next()}@example.org`] },
  })),
  'DELETE /api/v1/user/emails': row('signed-in 204', () => ({ body: { emails: [] } })),
  'GET /api/v1/user/repos': row('signed-in 200'),
  'GET /api/v1/user/settings': row('signed-in 200'),
  'PATCH /api/v1/user/settings': row('signed-in 200', ({ next }) => ({ body: { location: `${next()}` } })),
  // With a wrong old password, so that no password changes.
  'POST /api/v1/user/password': row('signed-in 403', () => ({
    body: { old_password: 'wrong password', new_password: 'another password' },
  })),
  'POST /api/v1/user/repos': row('signed-in 201', ({ next }) => ({ body: { name: `own-${next()}` } })),
  'GET /api/v1/users/search': row('everybody 200'),
  'GET /api/v1/repos/search': row('everybody 200'),
  'GET /api/v1/topics/search': row('signed-in 200', () => ({ query: { q: 'x' } })),
  'GET /api/v1/orgs': row('everybody 200'),
  'GET /api/v1/users/:username': row('everybody 200', () => ({ path: { username: 'carol' } })),
  'GET /api/v1/users/:username/orgs': row('everybody 200', () => ({ path: { username: 'carol' } })),
  'GET /api/v1/users/:username/repos': row('everybody 200', () => ({ path: { username: 'carol' } })),
  'GET /api/v1/users/:username/tokens': row('401 403 200 403 403 200', () => ({
    path: { username: 'carol' },
  })),
  'POST /api/v1/users/:username/tokens': row('401 403 201 403 403 201', ({ next }) => ({
    path: { username: 'carol' },
    body: { name: `t${next()}`, scopes: ['all'] },
  })),
  'DELETE /api/v1/users/:username/tokens/:token': row('401 403 204 403 403 204', async ({ must, next }) => {
    const body = { name: `t${next()}`, scopes: ['all'] }
    const { id } = await must<{ id: number }>('carol', 'POST', '/users/carol/tokens', body)
    return { path: { username: 'carol', token: id } }
  }),

  // Sign-in and tokens on pages. No provider is set.
  'GET /user/login': row('everybody 200'),
  'GET /user/oauth2/oidc': row('everybody 404'),
  'GET /user/oauth2/oidc/callback': row('everybody 404'),
  'POST /user/logout': row('everybody 303'),
  'GET /user/settings/applications': row('signed-in 200'),
  'POST /user/settings/applications': row('signed-in 200', ({ next }) => ({
    body: { name: [`t${next()}`], scopes: ['all'] },
  })),
  // None of these users has the token.
  'POST /user/settings/applications/delete': row('signed-in 404', () => ({ body: { id: ['none'] } })),

  // Site administration
  'GET /api/v1/admin/history': row('site-admin 200'),
  'GET /metrics': row('site-admin 200'),
  'GET /api/v1/admin/users': row('site-admin 200'),
  'GET /api/v1/admin/orgs': row('site-admin 200'),
  'POST /api/v1/admin/users/:username/orgs': row('site-admin 201', ({ next }) => ({
    path: { username: 'carol' },
    body: { username: `given${next()}` },
  })),
  'POST /api/v1/admin/users/:username/repos': row('site-admin 201', ({ next }) => ({
    path: { username: 'carol' },
    body: { name: `given${next()}` },
  })),
  'GET /api/v1/admin/nodes': row('site-admin 200'),
  'POST /api/v1/admin/users': row('site-admin 201', ({ next }) => {
    const username = `made${next()}`
    return { body: { username, email: `${username}@example.org`, password: 'a password' } }
  }),
  'PATCH /api/v1/admin/users/:username': row('site-admin 200', ({ next }) => ({
    path: { username: 'dave' },
    body: { location: `${next()}` },
  })),
  'DELETE /api/v1/admin/users/:username': row('site-admin 204', async (_place, { newUser }) => ({
    path: { username: await newUser() },
  })),
  'POST /api/v1/admin/rebuild': row('site-admin 200', () => ({ body: { models: ['labels'] } })),
  'GET /api/v1/admin/repos': row('site-admin 200'),
  'POST /api/v1/admin/maintenance': row('site-admin 200', ({ owner, repo }) => ({
    body: { repository: `${owner}/${repo}` },
  })),
  'PUT /api/v1/admin/upgrade/plan': row('site-admin 200', ({ next }) => ({
    body: { name: `v${next()}`, height: '10', info: '' },
  })),
  'DELETE /api/v1/admin/upgrade/plan': row('site-admin 204'),
  'POST /api/v1/admin/upgrade/plan/apply': row('site-admin 204', async ({ must, next }) => {
    await must('admin', 'PUT', '/admin/upgrade/plan', { name: `v${next()}`, height: '10', info: '' })
    return {}
  }),
  'PUT /api/v1/admin/upgrade/module_versions': row('site-admin 200', ({ next }) => ({
    body: { module_versions: [{ name: 'bank', version: `${next()}` }] },
  })),
  'PUT /api/v1/admin/upgrade/authority': row('site-admin 200', ({ next }) => ({
    body: { address: `cosmos${next()}` },
  })),
  'PUT /api/v1/admin/upgrade/consensus_states/:last_height': row('site-admin 200', ({ next }) => ({
    path: { last_height: next() },
    body: { upgraded_consensus_state: 'AA==' },
  })),

  // A private organization, of which all but the stranger are members
  'POST /api/v1/orgs': row('signed-in 201', ({ next }) => ({ body: { username: `org${next()}` } })),
  ...same(
    [
      'GET /api/v1/orgs/:org',
      'GET /api/v1/orgs/:org/members',
      'GET /api/v1/orgs/:org/public_members',
      'GET /api/v1/orgs/:org/labels',
      'GET /api/v1/orgs/:org/repos',
    ],
    row('404 404 200 200 200 200', () => ({ path: { org: 'closed' } })),
  ),
  ...same(
    ['GET /api/v1/orgs/:org/teams', 'GET /api/v1/orgs/:org/teams/search'],
    row('404 404 200 200 200 200', () => ({ path: { org: 'closed' } })),
  ),
  'POST /api/v1/orgs/:org/teams': row('401 404 403 403 201 201', ({ next }) => ({
    path: { org: 'closed' },
    body: { name: `t${next()}` },
  })),
  'GET /api/v1/user/teams': row('signed-in 200'),
  ...same(
    [
      'GET /api/v1/teams/:id',
      'GET /api/v1/teams/:id/members',
      'GET /api/v1/teams/:id/members/:username',
      'GET /api/v1/teams/:id/repos',
      'GET /api/v1/teams/:id/repos/:org/:repo',
    ],
    row('401 404 200 403 200 200', (place) => closedTeam(place)),
  ),
  'PATCH /api/v1/teams/:id': row('401 404 403 403 200 200', async (place) => ({
    ...(await closedTeam(place)),
    body: { description: 'd' },
  })),
  ...same(
    [
      'DELETE /api/v1/teams/:id',
      'DELETE /api/v1/teams/:id/members/:username',
      'DELETE /api/v1/teams/:id/repos/:org/:repo',
      'PUT /api/v1/teams/:id/repos/:org/:repo',
    ],
    row('401 404 403 403 204 204', (place) => closedTeam(place)),
  ),
  'PUT /api/v1/teams/:id/members/:username': row('401 404 403 403 204 204', async (place, { newUser }) => {
    const { path } = await closedTeam(place)
    return { path: { ...path, username: await newUser() } }
  }),
  'PATCH /api/v1/orgs/:org': row('401 404 403 403 200 200', ({ next }) => ({
    path: { org: 'closed' },
    body: { description: `${next()}` },
  })),
  // Without repositories, because an organization that has some cannot be deleted.
  'DELETE /api/v1/orgs/:org': row('401 404 403 403 204 204', async ({ must, next }) => {
    const org = `ended-${next()}`
    await must('alice', 'POST', '/orgs', { username: org, visibility: 'private' })
    await must('alice', 'PUT', `/orgs/${org}/members/bob`, { permission: 'write' })
    await must('alice', 'PUT', `/orgs/${org}/members/carol`, { permission: 'read' })
    return { path: { org } }
  }),
  ...same(
    ['POST /api/v1/orgs/:org/repos', 'POST /api/v1/org/:org/repos'],
    row('401 404 403 201 201 201', ({ next }) => ({
      path: { org: 'closed' },
      body: { name: `of-all-${next()}` },
    })),
  ),
  'GET /api/v1/users/:username/orgs/:org/permissions': row('401 404 200 200 200 200', () => ({
    path: { username: 'bob', org: 'closed' },
  })),
  'GET /api/v1/orgs/:org/members/:username': row('404 404 204 204 204 204', () => ({
    path: { org: 'closed', username: 'bob' },
  })),
  'GET /api/v1/orgs/:org/public_members/:username': row('404 404 204 204 204 204', async ({ must }) => {
    await must('bob', 'PUT', '/orgs/closed/public_members/bob')
    return { path: { org: 'closed', username: 'bob' } }
  }),
  ...same(
    ['PUT /api/v1/orgs/:org/public_members/:username', 'DELETE /api/v1/orgs/:org/public_members/:username'],
    row('401 404 403 204 403 403', () => ({ path: { org: 'closed', username: 'bob' } })),
  ),
  'PUT /api/v1/orgs/:org/members/:username': row('401 404 403 403 204 204', async (_place, { newUser }) => ({
    path: { org: 'closed', username: await newUser() },
    body: { permission: 'read' },
  })),
  'DELETE /api/v1/orgs/:org/members/:username': row(
    '401 404 403 403 204 204',
    async ({ must }, { newUser }) => {
      const username = await newUser()
      await must('alice', 'PUT', `/orgs/closed/members/${username}`, { permission: 'read' })
      return { path: { org: 'closed', username } }
    },
  ),
  'POST /api/v1/orgs/:org/labels': row('404 404 403 201 201 201', ({ next }) => ({
    path: { org: 'closed' },
    body: { name: `o${next()}`, color: '#aabbcc' },
  })),
  ...Object.fromEntries(
    (
      [
        ['GET', '404 404 200 200 200 200'],
        ['PATCH', '404 404 403 200 200 200'],
        ['DELETE', '404 404 403 204 204 204'],
      ] as const
    ).map(([method, who]) => [
      `${method} /api/v1/orgs/:org/labels/:id`,
      row(who, async ({ must, next }) => {
        const body = { name: `o${next()}`, color: '#aabbcc' }
        const { id } = await must<{ id: number }>('alice', 'POST', '/orgs/closed/labels', body)
        return { path: { org: 'closed', id }, ...(method === 'PATCH' && { body: { description: 'd' } }) }
      }),
    ]),
  ),

  // Webhooks, not active: nothing is sent
  ...hookRows('/api/v1/orgs/:org/hooks', '404 404 403 403 S S', 'alice', '/orgs/closed/hooks', {
    org: 'closed',
  }),
  ...hookRows('/api/v1/admin/hooks', '401 403 403 403 403 S', 'admin', '/admin/hooks', {}),
  ...hookRows('/api/v1/user/hooks', '401 404 404 404 404 S', 'admin', '/user/hooks', {}),
  'GET /api/v1/user/hooks': row('signed-in 200'),
  'POST /api/v1/user/hooks': row('signed-in 201', () => ({ body: HOOK })),

  // A repository
  ...same(
    [
      `GET ${REPO}`,
      `GET ${REPO}/branches`,
      `GET ${REPO}/forks`,
      `GET ${REPO}/languages`,
      `GET ${REPO}/topics`,
      `GET ${REPO}/evidence`,
      `GET ${REPO}/history`,
      `GET ${REPO}/issue_config`,
      `GET ${REPO}/issue_config/validate`,
      `GET ${REPO}/issue_templates`,
      `GET ${REPO}/issues`,
      `GET ${REPO}/issues/comments`,
      `GET ${REPO}/labels`,
      `GET ${REPO}/milestones`,
      `GET ${REPO}/pulls`,
    ],
    row('read 200'),
  ),
  'GET /api/v1/repositories/:id': row('read 200', async ({ base, must }) => ({
    path: { id: (await must<{ id: number }>('alice', 'GET', base)).id },
  })),
  [`PUT ${REPO}/branches/*`]: row('write 204', async ({ make, must, base, next }) => {
    const branch = await make.branch()
    const { commit } = await must<{ commit: { id: string } }>('alice', 'GET', `${base}/branches/${branch}`)
    const name = `moved-${next()}`
    await must('alice', 'POST', `${base}/branches`, { new_branch_name: name, old_ref_name: 'main' })
    return { path: { '*': name }, body: { new_commit_id: commit.id, force: true } }
  }),
  // The fork belongs to an organization in which the roles have the same permissions.
  [`POST ${REPO}/merge-upstream`]: row('write 200', async ({ another, must, next }) => {
    const { owner, repo } = await another()
    const organization = `up-${next()}`
    await must('alice', 'POST', '/orgs', { username: organization })
    await must('alice', 'PUT', `/orgs/${organization}/members/bob`, { permission: 'write' })
    await must('alice', 'PUT', `/orgs/${organization}/members/carol`, { permission: 'read' })
    await must('alice', 'POST', `/repos/${owner}/${repo}/forks`, { organization })
    return { path: { owner: organization, repo }, body: { branch: 'main' } }
  }),
  'GET /api/v1/repos/issues/search': row('signed-in 200'),
  [`PATCH ${REPO}`]: row('admin 200', ({ next }) => ({ body: { description: `${next()}` } })),
  [`DELETE ${REPO}`]: row('admin 204', async ({ another }) => ({ path: await another() })),
  // A repository's owner cannot fork it.
  [`POST ${REPO}/forks`]: row(
    '401 202 202 202 409 202 / 404 404 202 202 409 202 / 404 404 202 202 202 202',
    async ({ another, next }) => ({ path: await another(), body: { name: `fork-${next()}` } }),
  ),
  [`POST ${REPO}/transfer`]: row('admin 202', async ({ another, must, next }) => {
    const new_owner = `new-owner-${next()}`
    await must('alice', 'POST', '/orgs', { username: new_owner })
    return { path: await another(), body: { new_owner } }
  }),
  [`POST ${REPO}/transfer/accept`]: row(
    '401 403 202 403 403 403 / 404 404 202 403 403 403',
    async ({ another, must }) => ({ path: await offered(await another(), must) }),
  ),
  [`POST ${REPO}/transfer/reject`]: row(
    '401 403 200 403 200 200 / 404 404 200 403 200 200',
    async ({ another, must }) => ({ path: await offered(await another(), must) }),
  ),
  [`PUT ${REPO}/topics`]: row('admin 204', ({ next }) => ({ body: { topics: [`t${next()}`] } })),
  [`PUT ${REPO}/topics/:topic`]: row('admin 204', ({ next }) => ({ path: { topic: `t${next()}` } })),
  [`DELETE ${REPO}/topics/:topic`]: row('admin 204', async ({ must, base, next }) => {
    const topic = `t${next()}`
    await must('alice', 'PUT', `${base}/topics`, { topics: [topic] })
    return { path: { topic } }
  }),
  [`GET ${REPO}/teams`]: row('401 403 405 405 405 405 / 404 404 405 405 405 405 / 404 404 200 200 200 200'),
  [`GET ${REPO}/teams/:team`]: row(
    '401 403 405 405 405 405 / 404 404 405 405 405 405 / 404 404 200 200 200 200',
    (place) => teamOf(place, true),
  ),
  [`PUT ${REPO}/teams/:team`]: row(
    '401 403 403 403 405 405 / 404 404 403 403 405 405 / 404 404 403 403 204 204',
    (place) => teamOf(place, false),
  ),
  [`DELETE ${REPO}/teams/:team`]: row(
    '401 403 403 403 405 405 / 404 404 403 403 405 405 / 404 404 403 403 204 204',
    (place) => teamOf(place, true),
  ),
  // For each requester: the row names carol, so only she and site admins may.
  [`POST ${REPO}/generate`]: row(
    '401 403 201 403 403 201 / 404 404 201 403 403 201 / 404 404 201 403 403 201',
    async ({ must, base, next }) => {
      await must('alice', 'PATCH', base, { template: true })
      return { body: { owner: 'carol', name: `made${next()}`, git_content: true } }
    },
  ),
  [`GET ${REPO}/collaborators`]: row('people 200'),
  [`GET ${REPO}/collaborators/:collaborator`]: row('people 204', async ({ must, base }) => {
    await must('alice', 'PUT', `${base}/collaborators/bob`, { permission: 'write' })
    return { path: { collaborator: 'bob' } }
  }),
  [`GET ${REPO}/collaborators/:collaborator/permission`]: row(
    '401 403 403 200 200 200 / 404 404 403 200 200 200',
    () => ({ path: { collaborator: 'bob' } }),
  ),
  [`PUT ${REPO}/collaborators/:collaborator`]: row('admin 204', async (_place, { newUser }) => ({
    path: { collaborator: await newUser() },
    body: { permission: 'read' },
  })),
  [`DELETE ${REPO}/collaborators/:collaborator`]: row('admin 204', async ({ must, base }, { newUser }) => {
    const collaborator = await newUser()
    await must('alice', 'PUT', `${base}/collaborators/${collaborator}`, { permission: 'read' })
    return { path: { collaborator } }
  }),

  // Branches and commits
  [`GET ${REPO}/branches/*`]: row('read 200', () => ({ path: { '*': 'main' } })),
  [`POST ${REPO}/branches`]: row('write 201', ({ next }) => ({
    body: { new_branch_name: `made-${next()}` },
  })),
  [`PATCH ${REPO}/branches/*`]: row('write 204', async ({ make, next }) => ({
    path: { '*': await make.branch() },
    body: { name: `renamed-${next()}` },
  })),
  [`GET ${REPO}/tags`]: row('read 200'),
  [`POST ${REPO}/tags`]: row('write 201', ({ next }) => ({ body: { tag_name: `made-${next()}` } })),
  [`GET ${REPO}/tags/*`]: row('read 200', async ({ make }) => ({ path: { '*': await make.tag() } })),
  [`DELETE ${REPO}/tags/*`]: row('write 204', async ({ make }) => ({ path: { '*': await make.tag() } })),
  [`DELETE ${REPO}/branches/*`]: row('write 204', async ({ make }) => ({
    path: { '*': await make.branch() },
  })),
  [`GET ${REPO}/branch_protections`]: row('admin 200'),
  [`POST ${REPO}/branch_protections`]: row('admin 201', ({ next }) => ({
    body: { rule_name: `p${next()}` },
  })),
  [`POST ${REPO}/branch_protections/priority`]: row('admin 204', () => ({ body: { ids: [] } })),
  [`GET ${REPO}/branch_protections/*`]: row('admin 200', ({ protection }) => ({ path: { '*': protection } })),
  [`PATCH ${REPO}/branch_protections/*`]: row('admin 200', ({ protection, next }) => ({
    path: { '*': protection },
    body: { status_check_contexts: [`c${next()}`] },
  })),
  [`DELETE ${REPO}/branch_protections/*`]: row('admin 204', async ({ make }) => ({
    path: { '*': await make.protection() },
  })),
  [`GET ${REPO}/hooks`]: row('admin 200'),
  [`POST ${REPO}/hooks`]: row('admin 201', () => ({ body: HOOK })),
  ...Object.fromEntries(
    (
      [
        ['GET', '', 200],
        ['PATCH', '', 200],
        ['DELETE', '', 204],
        ['GET', '/deliveries', 200],
        ['POST', '/tests', 204],
      ] as const
    ).map(([method, rest, status]) => [
      `${method} ${REPO}/hooks/:id${rest}`,
      row(`admin ${status}`, async ({ must, base, next }) => {
        const { id } = await must<{ id: number }>('alice', 'POST', `${base}/hooks`, HOOK)
        return { path: { id }, ...(method === 'PATCH' && { body: { branch_filter: `b${next()}` } }) }
      }),
    ]),
  ),
  [`GET ${REPO}/tag_protections`]: row('admin 200'),
  [`POST ${REPO}/tag_protections`]: row('admin 201', ({ next }) => ({
    body: { name_pattern: `p${next()}`, whitelist_usernames: ['bob'] },
  })),
  [`GET ${REPO}/tag_protections/:id`]: row('admin 200', async ({ make }) => ({
    path: { id: await make.tagProtection() },
  })),
  [`PATCH ${REPO}/tag_protections/:id`]: row('admin 200', async ({ make, next }) => ({
    path: { id: await make.tagProtection() },
    body: { name_pattern: `p${next()}` },
  })),
  [`DELETE ${REPO}/tag_protections/:id`]: row('admin 204', async ({ make }) => ({
    path: { id: await make.tagProtection() },
  })),
  [`GET ${REPO}/statuses/:sha`]: row('read 200', ({ head }) => ({ path: { sha: head } })),
  [`POST ${REPO}/statuses/:sha`]: row('write 201', ({ head, next }) => ({
    path: { sha: head },
    body: { state: 'success', context: `c${next()}` },
  })),
  [`GET ${REPO}/commits/*`]: row('read 200', () => ({ path: { '*': 'topic/status' } })),

  [`GET ${REPO}/commits`]: row('read 200'),
  [`GET ${REPO}/git/commits/:sha`]: row('read 200', ({ head }) => ({ path: { sha: head } })),
  [`GET ${REPO}/compare/*`]: row('read 200', () => ({ path: { '*': 'main...topic' } })),
  [`GET ${REPO}/git/trees/:sha`]: row('read 200', () => ({ path: { sha: 'topic' } })),
  [`GET ${REPO}/git/blobs/:sha`]: row('read 200', ({ blob }) => ({ path: { sha: blob } })),
  [`GET ${REPO}/git/refs`]: row('read 200'),
  [`GET ${REPO}/git/refs/*`]: row('read 200', () => ({ path: { '*': 'heads/' } })),
  [`GET ${REPO}/git/tags/:sha`]: row('read 200', ({ tagObject }) => ({ path: { sha: tagObject } })),
  [`GET ${REPO}/git/notes/:sha`]: row('read 200', ({ head }) => ({ path: { sha: head } })),

  // Releases
  [`GET ${REPO}/releases`]: row('read 200'),
  [`GET ${REPO}/releases/latest`]: row('read 200'),
  [`GET ${REPO}/releases/tags/*`]: row('read 200', ({ release }) => ({ path: { '*': release.tag } })),
  [`GET ${REPO}/releases/:id`]: row('read 200', ({ release }) => ({ path: { id: release.id } })),
  [`POST ${REPO}/releases`]: row('write 201', ({ next }) => ({ body: { tag_name: `t${next()}` } })),
  [`PATCH ${REPO}/releases/:id`]: row('write 200', ({ release, next }) => ({
    path: { id: release.id },
    body: { name: `Name ${next()}` },
  })),
  [`DELETE ${REPO}/releases/:id`]: row('write 204', async ({ make }) => ({
    path: { id: (await make.release()).id },
  })),
  [`DELETE ${REPO}/releases/tags/*`]: row('write 204', async ({ make }) => ({
    path: { '*': (await make.release()).tag },
  })),
  [`GET ${REPO}/releases/:id/assets`]: row('read 200', ({ release }) => ({ path: { id: release.id } })),
  [`POST ${REPO}/releases/:id/assets`]: row('write 201', ({ release, make, next }) => ({
    path: { id: release.id },
    ...make.upload(`r${next()}.bin`),
  })),
  [`GET ${REPO}/releases/:id/assets/:attachment_id`]: row('read 200', ({ release }) => ({
    path: { id: release.id, attachment_id: release.asset },
  })),
  [`PATCH ${REPO}/releases/:id/assets/:attachment_id`]: row('write 201', ({ release, next }) => ({
    path: { id: release.id, attachment_id: release.asset },
    body: { name: `s${next()}.bin` },
  })),
  [`DELETE ${REPO}/releases/:id/assets/:attachment_id`]: row('write 204', async ({ make }) => {
    const { id, asset } = await make.release()
    return { path: { id, attachment_id: asset } }
  }),
  'GET /:owner/:repo/releases/download/*': row('read 200', async ({ make }) => {
    const { tag, file } = await make.release()
    return { path: { '*': `${tag}/${file}` } }
  }),

  // Files
  [`GET ${REPO}/contents`]: row('read 200'),
  [`GET ${REPO}/contents/*`]: row('read 200', () => ({ path: { '*': '' } })),
  [`GET ${REPO}/contents-ext`]: row('read 200'),
  [`GET ${REPO}/contents-ext/*`]: row('read 200', () => ({ path: { '*': '.' } })),
  [`GET ${REPO}/file-contents`]: row('read 200', () => ({ query: { body: '{"files":["README.md"]}' } })),
  [`POST ${REPO}/file-contents`]: row('read 200', () => ({ body: { files: ['README.md', 'absent'] } })),
  ...same(
    [`GET ${REPO}/raw/*`, `GET ${REPO}/media/*`],
    row('read 200', () => ({ path: { '*': 'README.md' } })),
  ),
  'GET /:owner/:repo/raw/:kind/*': row('read 200', () => ({
    path: { kind: 'branch', '*': 'main/README.md' },
  })),
  'GET /:owner/:repo/src/:kind/*': row('read 302', () => ({
    path: { kind: 'branch', '*': 'main/README.md' },
  })),

  // Pages
  'GET /ui/kit': row('everybody 200'),
  'GET /:owner for browsers': row(
    '200 200 200 200 200 200 / 200 200 200 200 200 200 / 404 404 200 200 200 200',
  ),
  ...same(
    ['', '/issues', '/pulls', '/branches', '/tags', '/releases', '/labels', '/milestones'].map(
      (part) => `GET /:owner/:repo${part} for browsers`,
    ),
    row('read 200'),
  ),
  ...same(
    ['src', 'commits'].map((part) => `GET /:owner/:repo/${part}/:kind/* for browsers`),
    row('read 200', () => ({ path: { kind: 'branch', '*': 'main' } })),
  ),
  'GET /:owner/:repo/commit/:sha for browsers': row('read 200', () => ({ path: { sha: 'main' } })),
  'GET /:owner/:repo/issues/:index for browsers': row('read 200', index),
  'GET /:owner/:repo/milestone/:id for browsers': row('read 302', () => ({ path: { id: 1 } })),
  'GET /:owner/:repo/releases/tag/* for browsers': row('read 200', async ({ must, base, next }) => {
    const tag = `page-${next()}`
    await must('alice', 'POST', `${base}/releases`, { tag_name: tag })
    return { path: { '*': tag } }
  }),
  ...same(
    [`GET ${REPO}/archive/*`, 'GET /:owner/:repo/archive/*'],
    row('read 200', () => ({ path: { '*': 'main.zip' } })),
  ),
  [`POST ${REPO}/contents`]: row('write 201', ({ next }) => ({
    body: { files: [{ operation: 'create', path: `f${next()}`, content: '' }] },
  })),
  [`POST ${REPO}/contents/*`]: row('write 201', ({ next }) => ({
    path: { '*': `f${next()}` },
    body: { content: '' },
  })),
  [`PUT ${REPO}/contents/*`]: row('write 201', ({ next }) => ({
    path: { '*': `f${next()}` },
    body: { content: '' },
  })),
  [`DELETE ${REPO}/contents/*`]: row('write 200', async ({ must, base, next }) => {
    const path = `f${next()}`
    const { content } = await must<{ content: { sha: string } }>(
      'alice',
      'POST',
      `${base}/contents/${path}`,
      {
        content: '',
      },
    )
    return { path: { '*': path }, body: { sha: content.sha } }
  }),

  // Pull requests
  ...same(
    [
      `GET ${REPO}/pulls/:index`,
      `GET ${REPO}/pulls/:index/commits`,
      `GET ${REPO}/pulls/:index/files`,
      `GET ${REPO}/pulls/:index/history`,
    ],
    row('read 200', pullIndex),
  ),
  ...same(
    [`GET ${REPO}/pulls/:index.:diffType`, 'GET /:owner/:repo/pulls/:index.:diffType'],
    row('read 200', ({ pull }) => ({ path: { index: pull, diffType: 'diff' } })),
  ),
  [`GET ${REPO}/changes`]: row('read 200', () => ({ query: { from: '2000-01-01' } })),
  [`GET ${REPO}/pulls/:index/replay`]: row('read 200', ({ pull }) => ({
    path: { index: pull },
    query: { revision: '0' },
  })),
  [`GET ${REPO}/pulls/:index/replay/diff`]: row('read 200', ({ pull }) => ({
    path: { index: pull },
    query: { from: '0', to: '0' },
  })),
  [`GET ${REPO}/pulls/:index/evidence`]: row('read 404', pullIndex),
  [`POST ${REPO}/pulls`]: row('read-signed-in 201', async ({ make }) => ({
    body: { head: await make.branch(), base: 'main', title: 'A pull request' },
  })),
  [`PATCH ${REPO}/pulls/:index`]: row('write 201', ({ pull, next }) => ({
    path: { index: pull },
    body: { title: `Title ${next()}` },
  })),
  [`GET ${REPO}/pulls/:index/merge`]: row('read 404', pullIndex),
  [`POST ${REPO}/pulls/:index/merge`]: row(
    '401 405 405 200 200 200 / 404 404 405 200 200 200',
    async ({ make }) => ({
      path: { index: await make.pull() },
      body: { Do: 'merge' },
    }),
  ),
  // The user who scheduled it may cancel it, and admins.
  [`DELETE ${REPO}/pulls/:index/merge`]: row('admin 204', async ({ make, must, base }) => {
    const index = await make.pull()
    await must('alice', 'POST', `${base}/pulls/${index}/merge`, {
      Do: 'merge',
      merge_when_checks_succeed: true,
    })
    return { path: { index } }
  }),
  ...same([`GET ${REPO}/reviewers`, `GET ${REPO}/assignees`], row('people 200')),
  [`POST ${REPO}/pulls/:index/requested_reviewers`]: row('write 201', ({ pull }) => ({
    path: { index: pull },
    body: { reviewers: ['bob'] },
  })),
  [`DELETE ${REPO}/pulls/:index/requested_reviewers`]: row('write 204', ({ pull }) => ({
    path: { index: pull },
    body: { reviewers: ['bob'] },
  })),
  [`GET ${REPO}/pulls/:index/reviews`]: row('read 200', pullIndex),
  [`POST ${REPO}/pulls/:index/reviews`]: row('read-signed-in 200', ({ pull, next }) => ({
    path: { index: pull },
    body: { event: 'COMMENT', body: `Review ${next()}` },
  })),
  ...same(
    [`GET ${REPO}/pulls/:index/reviews/:id`, `GET ${REPO}/pulls/:index/reviews/:id/comments`],
    row('read 200', review('alice', { event: 'COMMENT', body: 'Hm' })),
  ),
  // Its reviewer deletes it, and site admins.
  [`DELETE ${REPO}/pulls/:index/reviews/:id`]: row(
    'admin 204',
    review('alice', { event: 'COMMENT', body: 'Hm' }),
  ),
  // A pending review: only its reviewer and site admins see it, and only its reviewer submits it.
  [`POST ${REPO}/pulls/:index/reviews/:id`]: row(
    '401 404 404 404 200 422 / 404 404 404 404 200 422',
    async (place) => ({
      ...(await review('alice', { event: 'PENDING', body: 'Hm' })(place)),
      body: { event: 'COMMENT', body: 'Hm' },
    }),
  ),
  ...same(
    [
      `POST ${REPO}/pulls/:index/reviews/:id/dismissals`,
      `POST ${REPO}/pulls/:index/reviews/:id/undismissals`,
    ],
    row('admin 200', review('bob', { event: 'APPROVED' })),
  ),
  [`POST ${REPO}/pulls/:index/update`]: row('write 200', pullIndex),

  // Issues
  ...same(
    [
      `GET ${REPO}/issues/:index`,
      `GET ${REPO}/issues/:index/labels`,
      `GET ${REPO}/issues/:index/comments`,
      `GET ${REPO}/issues/:index/timeline`,
      `GET ${REPO}/issues/:index/history`,
      `GET ${REPO}/issues/:index/dependencies`,
      `GET ${REPO}/issues/:index/blocks`,
    ],
    row('read 200', index),
  ),
  [`GET ${REPO}/issues/:index/replay`]: row('read 200', ({ issue }) => ({
    path: { index: issue },
    query: { revision: '0' },
  })),
  [`GET ${REPO}/issues/:index/replay/diff`]: row('read 200', ({ issue }) => ({
    path: { index: issue },
    query: { from: '0', to: '0' },
  })),
  [`POST ${REPO}/issues`]: row('read-signed-in 201', ({ next }) => ({ body: { title: `Issue ${next()}` } })),
  [`PATCH ${REPO}/issues/:index`]: row('write 201', ({ issue, next }) => ({
    path: { index: issue },
    body: { title: `Title ${next()}` },
  })),
  [`DELETE ${REPO}/issues/:index`]: row('admin 204', async ({ make }) => ({
    path: { index: await make.issue() },
  })),
  [`POST ${REPO}/issues/:index/deadline`]: row('write 201', ({ issue, next }) => ({
    path: { index: issue },
    body: { due_date: `20${30 + (next() % 60)}-01-01T00:00:00Z` },
  })),
  [`POST ${REPO}/issues/:index/labels`]: row('write 200', async ({ make, issue }) => ({
    path: { index: issue },
    body: { labels: [await make.label()] },
  })),
  [`PUT ${REPO}/issues/:index/labels`]: row('write 200', async ({ make, issue }) => ({
    path: { index: issue },
    body: { labels: [await make.label()] },
  })),
  [`DELETE ${REPO}/issues/:index/labels`]: row('write 204', index),
  [`DELETE ${REPO}/issues/:index/labels/:id`]: row('write 204', async ({ make, must, base, issue }) => {
    const id = await make.label()
    await must('alice', 'POST', `${base}/issues/${issue}/labels`, { labels: [id] })
    return { path: { index: issue, id } }
  }),
  ...Object.fromEntries(
    ['dependencies', 'blocks'].flatMap((kind) => [
      [
        `POST ${REPO}/issues/:index/${kind}`,
        row('write 201', async ({ make, issue }) => ({
          path: { index: issue },
          body: { index: await make.issue() },
        })),
      ],
      [
        `DELETE ${REPO}/issues/:index/${kind}`,
        row('write 200', async ({ make, must, base, issue }) => {
          const body = { index: await make.issue() }
          await must('alice', 'POST', `${base}/issues/${issue}/${kind}`, body)
          return { path: { index: issue }, body }
        }),
      ],
    ]),
  ),
  [`POST ${REPO}/issues/:index/comments`]: row('read-signed-in 201', ({ issue, next }) => ({
    path: { index: issue },
    body: { body: `Comment ${next()}` },
  })),
  [`POST ${REPO}/issues/:index/erase`]: row('admin 204', async ({ make }) => ({
    path: { index: await make.issue() },
    body: { all: true },
  })),
  [`POST ${REPO}/pulls/:index/comments/:id/replies`]: row('read-signed-in 201', async (place) => ({
    ...(await lineComment(place)),
    body: { body: `Reply ${place.next()}` },
  })),
  ...same(
    [`POST ${REPO}/pulls/comments/:id/resolve`, `POST ${REPO}/pulls/comments/:id/unresolve`],
    row('write 204', lineComment),
  ),
  [`GET ${REPO}/issues/comments/:id`]: row('read 200', ({ comment }) => ({ path: { id: comment } })),
  [`PATCH ${REPO}/issues/comments/:id`]: row('write 200', ({ comment, next }) => ({
    path: { id: comment },
    body: { body: `Comment ${next()}` },
  })),
  [`DELETE ${REPO}/issues/comments/:id`]: row('write 204', async ({ make }) => ({
    path: { id: await make.comment() },
  })),
  [`PATCH ${REPO}/issues/:index/comments/:id`]: row('write 200', async ({ base, comment, must, next }) => ({
    path: await placeOf(base, comment, must),
    body: { body: `Comment ${next()}` },
  })),
  [`DELETE ${REPO}/issues/:index/comments/:id`]: row('write 204', async ({ base, make, must }) => ({
    path: await placeOf(base, await make.comment(), must),
  })),
  [`GET ${REPO}/issues/comments/:id/assets`]: row('read 200', ({ comment }) => ({ path: { id: comment } })),
  // Files of a comment are for its poster and for admins.
  [`POST ${REPO}/issues/comments/:id/assets`]: row('admin 201', async ({ make, next }) => ({
    path: { id: await make.comment() },
    ...make.upload(`g${next()}.txt`),
  })),
  [`GET ${REPO}/issues/comments/:id/assets/:attachment_id`]: row('read 200', ({ comment, attachment }) => ({
    path: { id: comment, attachment_id: attachment.id },
  })),
  [`PATCH ${REPO}/issues/comments/:id/assets/:attachment_id`]: row(
    'admin 201',
    ({ comment, attachment, next }) => ({
      path: { id: comment, attachment_id: attachment.id },
      body: { name: `h${next()}.txt` },
    }),
  ),
  [`DELETE ${REPO}/issues/comments/:id/assets/:attachment_id`]: row(
    'admin 204',
    async ({ make, comment }) => ({
      path: { id: comment, attachment_id: (await make.attachment()).id },
    }),
  ),
  [`GET ${REPO}/issues/:index/assets`]: row('read 200', index),
  [`POST ${REPO}/issues/:index/assets`]: row('write 201', async ({ make, next }) => ({
    path: { index: await make.issue() },
    ...make.upload(`i${next()}.txt`),
  })),
  ...Object.fromEntries(
    (
      [
        ['GET', 'read 200'],
        ['PATCH', 'write 201'],
        ['DELETE', 'write 204'],
      ] as const
    ).map(([method, who]) => [
      `${method} ${REPO}/issues/:index/assets/:attachment_id`,
      row(who, async ({ make, issue, next }) => ({
        path: { index: issue, attachment_id: await make.issueFile() },
        ...(method === 'PATCH' && { body: { name: `j${next()}.txt` } }),
      })),
    ]),
  ),
  [`GET ${REPO}/issues/pinned`]: row('read 200'),
  [`GET ${REPO}/pulls/pinned`]: row('read 200'),
  [`GET ${REPO}/new_pin_allowed`]: row('read 200'),
  // A repository has at most three pins.
  [`POST ${REPO}/issues/:index/pin`]: row('admin 204', async ({ must, base, issue }) => {
    await must('alice', 'DELETE', `${base}/issues/${issue}/pin`)
    return { path: { index: issue } }
  }),
  ...same(
    [`DELETE ${REPO}/issues/:index/pin`, `PATCH ${REPO}/issues/:index/pin/:position`],
    row('admin 204', async ({ must, base, issue }) => {
      await must('alice', 'POST', `${base}/issues/${issue}/pin`)
      return { path: { index: issue, position: 1 } }
    }),
  ),
  [`PUT ${REPO}/issues/:index/lock`]: row('admin 204', async ({ make }) => ({
    path: { index: await make.issue() },
    body: { lock_reason: 'Resolved' },
  })),
  [`DELETE ${REPO}/issues/:index/lock`]: row('admin 204', async ({ make, must, base }) => {
    const index = await make.issue()
    await must('alice', 'PUT', `${base}/issues/${index}/lock`, {})
    return { path: { index } }
  }),
  'GET /attachments/:uuid': row('read 200', ({ attachment }) => ({ path: { uuid: attachment.uuid } })),

  ...SOCIAL_ROWS,

  // Labels and milestones
  ...Object.fromEntries(
    (
      [
        ['label', 'labels', { color: '#112233' }],
        ['milestone', 'milestones', { description: 'd' }],
      ] as const
    ).flatMap(([kind, path, body]) => [
      [`GET ${REPO}/${path}/:id`, row('read 200', (place) => ({ path: { id: place[kind] } }))],
      [`PATCH ${REPO}/${path}/:id`, row('write 200', (place) => ({ path: { id: place[kind] }, body }))],
      [
        `DELETE ${REPO}/${path}/:id`,
        row('write 204', async ({ make }) => ({ path: { id: await make[kind]() } })),
      ],
    ]),
  ),
  [`POST ${REPO}/labels`]: row('write 201', ({ next }) => ({
    body: { name: `n${next()}`, color: '#aabbcc' },
  })),
  [`POST ${REPO}/milestones`]: row('write 201', ({ next }) => ({ body: { title: `n${next()}` } })),

  // git: anonymous clients are asked to sign in, whether the repository exists or not
  'GET /:owner/:repo/info/refs': row('200 200 200 200 200 200 / 401 404 200 200 200 200', () => ({
    query: { service: 'git-upload-pack' },
  })),
  'POST /:owner/:repo/git-upload-pack': row(
    '200 200 200 200 200 200 / 401 404 200 200 200 200',
    ({ head }) => ({
      headers: { 'content-type': 'application/x-git-upload-pack-request' },
      body: `0032want ${head}\n00000009done\n`,
    }),
  ),
  'POST /:owner/:repo/git-receive-pack': row('401 403 403 200 200 200 / 401 404 403 200 200 200', () => ({
    headers: { 'content-type': 'application/x-git-receive-pack-request' },
    body: '0000',
  })),

  [`GET ${REPO}/pulls/:index/*`]: row('read 200', async ({ base, pull, must }) => {
    const { head } = await must<{ head: { ref: string } }>('alice', 'GET', `${base}/pulls/${pull}`)
    return { path: { index: 'main', '*': head.ref } }
  }),
  ...LFS_ROWS,

  // The page: as git, so that people can sign in
  'GET /ui/:owner/:repo/pulls/:index': row('200 200 200 200 200 200 / 401 404 200 200 200 200', pullIndex),
  'GET /ui/:owner/:repo/pulls/:index/evidence': row(
    '404 404 404 404 404 404 / 401 404 404 404 404 404',
    pullIndex,
  ),
  'GET /ui/:owner/:repo/pulls/:index/diff': row(
    '200 200 200 200 200 200 / 401 404 200 200 200 200',
    ({ pull }) => ({ path: { index: pull }, query: { revision: '0' } }),
  ),
  // Only its head, because the answer itself never ends.
  'GET /ui/:owner/:repo/pulls/:index/live': row(
    '200 200 200 200 200 200 / 401 404 200 200 200 200',
    ({ pull }) => ({ path: { index: pull }, method: 'HEAD' }),
  ),
}
