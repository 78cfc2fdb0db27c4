/** Checks that answers have exactly the fields of the API documentation, with the documented types. */
import t, { type Test } from 'tap'
import { ROWS } from '../auth/route-rows.ts'
import { METHODS, startWorld } from '../auth/route-world.ts'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { checksOf, type Method, operationsOf, readDocumentation } from './documented.ts'
import { mergedPull } from './operation-targets.ts'

const JSON_TYPE = 'application/json'
const server = await startTestServer(t)
const documentation = readDocumentation(await (await server.fetch(null, '/api/openapi.json')).text())
const { problemIn } = checksOf(documentation)
const checked = new Set<string>()
const followed = new Set<string>()

const LINKS = /"(?:html_url|diff_url|patch_url|issue_url|pull_request_url|html|url)":"(http[^"#]+)/g

/** Checks that each link in an answer works. */
async function follow(t: Test, login: string, what: string, text: string): Promise<void> {
  for (const [, link = ''] of text.matchAll(LINKS)) {
    if (followed.has(link) || !link.startsWith(`${server.url}/`)) continue
    followed.add(link)
    const { status } = await server.fetch(login, link.slice(server.url.length))
    t.equal(status, 200, `${what} has ${link}`)
  }
}

/** Sends a request as this user, and checks the answer against the documentation. Resolves to its JSON. */
async function call<T>(
  t: Test,
  login: string,
  method: Method,
  path: string,
  {
    params = {},
    query = '',
    body,
  }: { params?: Record<string, string | number>; query?: string; body?: object },
): Promise<T> {
  const operation = documentation.paths[path]?.[method]
  if (operation === undefined) throw new Error(`${method} ${path} is not documented`)
  const url = path.replaceAll(/\{(.+?)\}/g, (_, name) => `${params[name] ?? t.fail(`${path}: no ${name}`)}`)
  const init = body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }
  const answer = await server.fetch(login, `${url}${query}`, { method: method.toUpperCase(), ...init })
  const text = await answer.text()
  const what = `${method} ${path} ${answer.status}`
  const type = answer.headers.get('content-type')?.split(';')[0] ?? ''
  if (!answer.ok || type !== JSON_TYPE) throw new Error(`${what} ${type}: ${text}`)
  t.equal(problemIn(operation, { status: answer.status, type, text }), undefined, what)
  const json: T = JSON.parse(text)
  checked.add(`${method} ${path}`)
  await follow(t, login, what, text)
  return json
}

/** Values for the rest of a path, by a part of the path. */
const WILD = [
  ['/branches/', 'main'],
  ['/commits/', 'topic/status'],
  ['/tags/', 'v1'],
  ['/compare/', 'main...topic'],
  ['/git/refs/', 'heads/'],
] as const

const repo = { owner: 'alice', repo: 'app' }
const repoPath = '/api/v1/repos/{owner}/{repo}'
const as = (t: Test, login: string) => ({
  get: <T>(path: string, params: Record<string, string | number> = {}, query = '') =>
    call<T>(t, login, 'get', path, { params: { ...repo, ...params }, query }),
  send: <T>(method: Method, path: string, body: object, params: Record<string, string | number> = {}) =>
    call<T>(t, login, method, path, { params: { ...repo, ...params }, body }),
})
t.test('every JSON answer has the documented fields, and no others', async (t) => {
  const [alice, admin] = [as(t, 'alice'), as(t, 'admin')]

  await server.as('alice')
  await admin.send('post', '/api/v1/admin/users', {
    username: 'zoe',
    email: 'zoe@example.org',
    password: 'a long password',
  })
  const ofZoe = { username: 'zoe' }
  await admin.send('post', '/api/v1/admin/users/{username}/orgs', { username: 'zoes' }, ofZoe)
  await admin.send('post', '/api/v1/admin/users/{username}/repos', { name: 'given' }, ofZoe)
  await alice.send(
    'post',
    '/api/v1/users/{username}/tokens',
    { name: 'n', scopes: ['all'] },
    { username: 'alice' },
  )
  await alice.send('post', '/api/v1/user/repos', { name: 'app', description: 'It', private: true })
  await alice.send('post', '/api/v1/orgs', { username: 'team' })
  await alice.send('patch', '/api/v1/orgs/{org}', { description: 'Us' }, { org: 'team' })
  await alice.send('post', '/api/v1/orgs/{org}/repos', { name: 'shared' }, { org: 'team' })
  const ofTeam = { name: 'builders', permission: 'write', units: ['repo.code', 'repo.issues', 'repo.pulls'] }
  const builders = await alice.send<{ id: number }>('post', '/api/v1/orgs/{org}/teams', ofTeam, {
    org: 'team',
  })
  await alice.send('patch', '/api/v1/teams/{id}', { includes_all_repositories: true }, { id: builders.id })
  await server.fetch('alice', `/api/v1/teams/${builders.id}/members/alice`, { method: 'PUT' })
  await alice.send('patch', repoPath, { website: 'https://example.org' })
  await server.fetch('alice', '/api/v1/repos/alice/app/collaborators/bob', { method: 'PUT', body: '{}' })
  await alice.send('put', `${repoPath}/subscription`, {})

  const tree = await workTree(t, server.gitUrl('alice', 'alice/app'))
  await tree.git('checkout', '-q', '-b', 'main')
  await tree.commit('First', { 'a.txt': 'one\n' })
  await tree.git('push', '-q', 'origin', 'main')
  await tree.git('checkout', '-q', '-b', 'topic')
  const sha = await tree.commit('Second', { 'a.txt': 'two\n', 'b.txt': 'new\n' })
  await tree.git('push', '-q', 'origin', 'topic')

  await tree.git('notes', 'add', '-m', 'Noted', sha)
  await tree.git('push', '-q', 'origin', 'refs/notes/commits')
  const blob = await tree.git('rev-parse', `${sha}:a.txt`)
  await alice.send('post', `${repoPath}/branches`, { new_branch_name: 'other' })
  const tag = await alice.send<{ id: string }>('post', `${repoPath}/tags`, { tag_name: 'v1', message: 'One' })

  const tagRule = await alice.send<{ id: number }>('post', `${repoPath}/tag_protections`, {
    name_pattern: 'v9.*',
    whitelist_usernames: ['bob'],
  })
  await alice.send('patch', `${repoPath}/tag_protections/{id}`, { name_pattern: 'v8.*' }, { id: tagRule.id })
  await alice.send('patch', repoPath, { template: true })
  await alice.send('post', `${repoPath}/generate`, { owner: 'alice', name: 'cast', git_content: true })
  await alice.send('post', `${repoPath}/forks`, { organization: 'team', name: 'fork' })
  await alice.send('post', `${repoPath}/branch_protections`, { rule_name: 'rel', enable_push: true })
  await alice.send('patch', `${repoPath}/branch_protections/{*}`, { required_approvals: 0 }, { '*': 'rel' })
  const label = await alice.send<{ id: number }>('post', `${repoPath}/labels`, {
    name: 'bug',
    color: '#00aabb',
  })
  await alice.send('patch', `${repoPath}/labels/{id}`, { description: 'Wrong' }, { id: label.id })
  const common = await alice.send<{ id: number }>(
    'post',
    '/api/v1/orgs/{org}/labels',
    { name: 'all', color: '#00aabb' },
    { org: 'team' },
  )
  await alice.send(
    'patch',
    '/api/v1/orgs/{org}/labels/{id}',
    { name: 'every' },
    { org: 'team', id: common.id },
  )
  const milestone = await alice.send<{ id: number }>('post', `${repoPath}/milestones`, {
    title: 'v1',
    due_on: '2030-01-01T00:00:00Z',
  })
  await alice.send('patch', `${repoPath}/milestones/{id}`, { description: 'The first' }, { id: milestone.id })
  const issue = {
    title: 'An issue',
    body: 'text',
    labels: [label.id],
    milestone: milestone.id,
    assignees: ['alice'],
  }
  await alice.send('post', `${repoPath}/issues`, issue)
  await alice.send('post', `${repoPath}/issues`, { title: 'Another' })
  await alice.send('patch', `${repoPath}/issues/{index}`, { state: 'closed' }, { index: 2 })
  const due = { due_date: '2030-01-01T00:00:00Z' }
  await alice.send('post', `${repoPath}/issues/{index}/deadline`, due, { index: 1 })
  for (const method of ['post', 'put'] as const) {
    await alice.send(method, `${repoPath}/issues/{index}/labels`, { labels: [label.id] }, { index: 2 })
  }
  for (const [kind, index] of [
    ['dependencies', 1],
    ['blocks', 2],
  ] as const) {
    await alice.send('post', `${repoPath}/issues/{index}/${kind}`, { index: 3 - index }, { index })
    await alice.send('delete', `${repoPath}/issues/{index}/${kind}`, { index: 3 - index }, { index })
  }
  await alice.send('post', `${repoPath}/issues/{index}/dependencies`, { index: 2 }, { index: 1 })
  const comment = await alice.send<{ id: number }>(
    'post',
    `${repoPath}/issues/{index}/comments`,
    { body: 'Hm' },
    { index: 1 },
  )
  await alice.send('patch', `${repoPath}/issues/comments/{id}`, { body: 'Hm!' }, { id: comment.id })
  await alice.send('post', `${repoPath}/pulls`, { ...issue, title: 'A change', head: 'topic', base: 'main' })
  await alice.send('patch', `${repoPath}/pulls/{index}`, { body: 'changed' }, { index: 3 })
  const bob = as(t, 'bob')
  const asked = { reviewers: ['bob'] }
  await alice.send('post', `${repoPath}/pulls/{index}/requested_reviewers`, asked, { index: 3 })
  const reviews = `${repoPath}/pulls/{index}/reviews`
  const review = await bob.send<{ id: number }>(
    'post',
    reviews,
    { body: 'Draft', comments: [{ path: 'b.txt', body: 'Why?', new_position: 1 }] },
    { index: 3 },
  )
  const ofReview = { index: 3, id: review.id }
  await bob.send('post', `${reviews}/{id}`, { event: 'APPROVED' }, ofReview)
  await alice.send('post', `${reviews}/{id}/dismissals`, { message: 'Wait' }, ofReview)
  await alice.send('post', `${reviews}/{id}/undismissals`, {}, ofReview)
  await alice.send('post', `${repoPath}/statuses/{sha}`, { state: 'success', context: 'ci' }, { sha })

  await admin.send('patch', '/api/v1/admin/users/{username}', { location: 'Here' }, { username: 'bob' })
  await alice.send('patch', '/api/v1/user/settings', { website: 'https://example.org' })
  await admin.send('put', '/api/v1/admin/upgrade/plan', { name: 'v2', height: '10', info: 'x' })
  await admin.send('put', '/api/v1/admin/upgrade/module_versions', {
    module_versions: [{ name: 'bank', version: '2' }],
  })
  await admin.send('put', '/api/v1/admin/upgrade/authority', { address: 'cosmos1' })
  const state = { upgraded_consensus_state: 'AA==' }
  await admin.send('put', '/api/v1/admin/upgrade/consensus_states/{last_height}', state, { last_height: 9 })

  const upload = new FormData()
  upload.set('attachment', new File(['contents'], 'notes.txt'))
  const assets = `${repoPath}/issues/comments/{id}/assets`
  const file = await call<{ id: number }>(t, 'alice', 'post', assets, {
    params: { ...repo, id: comment.id },
    body: upload,
  })
  await alice.send(
    'patch',
    `${assets}/{attachment_id}`,
    { name: 'other.txt' },
    { id: comment.id, attachment_id: file.id },
  )
  const hooks = new Map<string, number>()
  for (const place of [repoPath, '/api/v1/orgs/{org}', '/api/v1/user', '/api/v1/admin']) {
    const sender = place.includes('/admin') ? admin : alice
    const config = { url: 'https://ci.example.org/hook?token=x', content_type: 'json', secret: 'secret' }
    const hook = { type: 'gitea', config, events: ['push', 'issues'] }
    const { id } = await sender.send<{ id: number }>('post', `${place}/hooks`, hook, { org: 'team' })
    await sender.send('patch', `${place}/hooks/{id}`, { branch_filter: 'main' }, { org: 'team', id })
    hooks.set(place, id)
  }
  const files = `${repoPath}/contents`
  await alice.send('post', `${files}/{*}`, { content: '' }, { '*': 'rel' })
  const { content } = await alice.send<{ content: { sha: string } }>(
    'put',
    `${files}/{*}`,
    { content: '' },
    { '*': 'gone' },
  )
  await alice.send('delete', `${files}/{*}`, { sha: content.sha }, { '*': 'gone' })
  await alice.send('post', files, { files: [{ operation: 'upload', path: 'many', content: '' }] })
  await alice.send('post', `${repoPath}/file-contents`, { files: ['rel'] })
  const named = {
    username: 'alice',
    org: 'team',
    collaborator: 'bob',
    sha: 'topic',
    last_height: 9,
    name: 'v1',
  }
  const { projector, events } = server.services
  await projector.waitFor(await events.lastPosition(), 60_000)
  const idIn = (path: string) => hooks.get(path.split('/hooks')[0] ?? '') ?? labelOrOther(path)
  const labelOrOther = (path: string) =>
    path.includes('/teams/')
      ? builders.id
      : path.includes('/tag_protections/')
        ? tagRule.id
        : path.includes('/orgs/')
          ? common.id
          : path.includes('/comments/')
            ? comment.id
            : path.includes('/labels/')
              ? label.id
              : path.includes('/reviews/')
                ? review.id
                : milestone.id
  for (const [path, operations] of Object.entries(documentation.paths)) {
    if (operations.get?.responses[200]?.content?.[JSON_TYPE] === undefined) continue
    const reader = path.includes('/admin/') ? admin : alice
    const params: Record<string, string | number> = {
      ...named,
      id: idIn(path),
      attachment_id: file.id,
      ...(path.includes('/teams') && { owner: 'team', repo: 'shared', team: 'builders' }),
      index: path.includes('/pulls/') ? 3 : 1,
      '*': WILD.find(([part]) => path.includes(part))?.[1] ?? 'rel',
      ...(path.includes('/git/blobs/') && { sha: blob }),
      ...(path.includes('/git/tags/') && { sha: tag.id }),
    }
    const query = path.endsWith('/replay/diff')
      ? '?from=0&to=1'
      : path.endsWith('/replay')
        ? '?revision=0'
        : ''
    // Operations that need other values are called below.
    await reader.get(path, params, query).catch(() => {})
  }
  const left = operationsOf(documentation).filter(
    ({ name, operation }) =>
      !checked.has(name) &&
      // It needs a signed log, as the fuzz test has.
      name !== 'get /api/v1/log/proof' &&
      Object.entries(operation.responses).some(
        ([status, { content }]) => status.startsWith('2') && content?.[JSON_TYPE],
      ),
  )
  const world = await startWorld(t, server)
  const place = await world.place('private organization')
  for (const { name, path, operation } of left) {
    const route = path.replaceAll('{*}', '*').replaceAll(/\{(.+?)\}/g, ':$1')
    const method = METHODS.find((each) => name.startsWith(`${each.toLowerCase()} `)) ?? 'GET'
    const row = path.endsWith('/pulls/{index}/evidence')
      ? ((await mergedPull(place)).call ?? {})
      : ((await ROWS[`${method} ${route}`]?.call?.(place, world)) ?? {})
    const isCarols = /\/user\/(keys\/|gpg_key)|\/threads\/|\/transfer\/accept/.test(path)
    const login = path.includes('/admin/') ? 'admin' : isCarols ? 'carol' : 'alice'
    const sent = { ...row, path: { owner: place.owner, repo: place.repo, ...row.path } }
    const { status, type, text } = await world.send(login, method, route, sent)
    const problem = status < 300 ? problemIn(operation, { status, type, text }) : text
    t.equal(problem, undefined, `${name} ${status}`)
  }
})
