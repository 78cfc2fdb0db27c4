/** Issue 15, line 13: the audience of public repositories of private and limited organizations. */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import {
  hideForksOf,
  recordOwnerVisibility,
} from '../../src/commands/repositories/ownership/owner-visibility.ts'
import { organizationStream, repositoryStream } from '../../src/events/streams.ts'
import { hostedWork } from '../hosted-work.ts'
import { startTestServer } from '../start-server.ts'
import { aContext } from '../stores.ts'
import { until } from '../until.ts'

const server = await startTestServer(t)
const { services } = server
const PEOPLE = [null, 'alice', 'bob', 'carol', 'dave', 'admin'] as const

async function call(login: string | null, method: string, path: string, body?: object) {
  const answer = await server.fetch(login, `/api/v1${path}`, {
    method,
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  const isJson = answer.headers.get('content-type')?.startsWith('application/json')
  return { status: answer.status, headers: answer.headers, text, body: isJson ? JSON.parse(text) : undefined }
}

async function must(login: string, method: string, path: string, body?: object) {
  const answer = await call(login, method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
  return answer.body
}

/** Creates an organization of alice, with the member bob and a public repository with the collaborator dave. */
async function organization(username: string, visibility: string) {
  await must('alice', 'POST', '/orgs', { username, visibility })
  await must('alice', 'PUT', `/orgs/${username}/members/bob`, { permission: 'read' })
  const { id } = await must('alice', 'POST', `/orgs/${username}/repos`, { name: 'open', auto_init: true })
  await must('alice', 'PUT', `/repos/${username}/open/collaborators/dave`, { permission: 'read' })
  return { repoId: Number(id), path: `/repos/${username}/open` }
}

/** Creates an issue, a comment with a file, and a pull request. Resolves to all addresses of the repository. */
async function filled(test: Parameters<typeof hostedWork>[0], org: string, repoId: number) {
  const work = await hostedWork(test, server, { login: 'alice', repoId, fullName: `${org}/open` })
  const sha = await work.branch('topic', { a: 'a' })
  const path = `/repos/${org}/open`
  await must('alice', 'POST', `${path}/issues`, { title: 'whispered' })
  const comment = await must('alice', 'POST', `${path}/issues/1/comments`, { body: 'whispered' })
  await must('alice', 'POST', `${path}/labels`, { name: 'quiet', color: '#aabbcc' })
  const milestone = await must('alice', 'POST', `${path}/milestones`, { title: 'soon' })
  await must('alice', 'POST', `${path}/pulls`, { title: 'Topic', head: 'topic', base: 'main' })
  const form = new FormData()
  form.set('attachment', new Blob(['whispered']), 'a.txt')
  const assets = `${path}/issues/comments/${comment.id}/assets`
  const uploaded = await server.fetch('alice', `/api/v1${assets}`, { method: 'POST', body: form })
  const attachment = JSON.parse(await uploaded.text())
  const api = [
    path,
    ...[
      'branches',
      'branches/main',
      'labels',
      'milestones',
      `milestones/${milestone.id}`,
      'forks',
      'history',
    ],
    ...[
      'issues',
      'issues/1',
      'issues/1/comments',
      'issues/1/timeline',
      'issues/1/labels',
      'issues/1/history',
    ],
    ...['issues/1/dependencies', 'issues/comments', `issues/comments/${comment.id}`],
    ...['pulls', 'pulls/2', 'pulls/2/files', 'pulls/2/commits', 'pulls/2.diff', 'pulls/2/history'],
    ...[
      'issues/1/replay?revision=0',
      'pulls/2/replay?revision=0',
      `statuses/${sha}`,
      `commits/${sha}/status`,
    ],
  ].map((part) => (part === path ? path : `${path}/${part}`))
  return [
    ...[...api, assets, `${assets}/${attachment.id}`].map((part) => `/api/v1${part}`),
    new URL(attachment.browser_download_url).pathname,
    `/ui/${org}/open/pulls/2`,
    `/ui/${org}/open/pulls/2/diff?revision=0`,
    `/${org}/open.git/info/refs?service=git-upload-pack`,
  ]
}

/** Returns the status of an address for each user, in order. */
async function statuses(address: string, headers: Record<string, string> = {}) {
  const found: number[] = []
  for (const login of PEOPLE) {
    const answer = await server.fetch(login, address, { headers })
    await answer.body?.cancel()
    found.push(answer.status)
  }
  return found
}

t.test(
  'a public repository of a private organization is visible only to its members, everywhere',
  async (t) => {
    const { repoId } = await organization('lodge', 'private')
    for (const address of await filled(t, 'lodge', repoId)) {
      const [anonymous, ...others] = await statuses(address)
      // git and the page ask for a password.
      t.equal(anonymous, /^\/(ui|lodge)\//.test(address) ? 401 : 404, address)
      // An admin of the organization has added the collaborator.
      t.strictSame(others, [200, 200, 404, 200, 200], address)
    }
    for (const path of ['/repos/lodge/open/history', '/repos/lodge/open/issues/1/history']) {
      const lines = await statuses(`/api/v1${path}`, { accept: 'application/x-ndjson' })
      t.strictSame(lines, [404, 200, 200, 404, 200, 200], `${path} as lines`)
      const stream = await statuses(`/api/v1${path}`, { accept: 'text/event-stream' })
      t.strictSame(stream, [404, 200, 200, 404, 200, 200], `${path} as it comes`)
    }
    const post = await call('carol', 'POST', '/repos/lodge/open/issues', { title: 'Mine' })
    t.equal(post.status, 404, 'nor can a stranger write')
    t.equal((await call('carol', 'POST', '/repos/lodge/open/forks', {})).status, 404)
    const seen = async (login: string) =>
      (await must(login, 'GET', '/repos/issues/search?q=whispered')).map(
        ({ repository }: { repository: { full_name: string } }) => repository.full_name,
      )
    t.strictSame(await seen('carol'), [])
    t.strictSame(await seen('bob'), ['lodge/open'])
    t.strictSame(await seen('dave'), ['lodge/open'])
    t.strictSame(await seen('admin'), ['lodge/open'])
    t.strictSame(await must('carol', 'GET', '/user/repos'), [])
    const page = await server.fetch('bob', '/ui/lodge/open/pulls/2')
    t.match(page.headers.get('cache-control'), /no-store/)
    t.match(await must('bob', 'GET', '/repos/lodge/open'), { private: false, internal: true })
  },
)

t.test('a public repository of a limited organization is visible to all signed-in users', async (t) => {
  const { path } = await organization('inner', 'limited')
  t.strictSame(await statuses(`/api/v1${path}`), [404, 200, 200, 200, 200, 200])
  t.strictSame(await statuses('/api/v1/orgs/inner/repos'), [404, 200, 200, 200, 200, 200])
  const names = async (login: string | null) =>
    (await call(login, 'GET', '/users/inner/repos')).body.map(({ name }: { name: string }) => name)
  t.strictSame(await names('carol'), ['open'])
  await must('alice', 'POST', `${path}/issues`, { title: 'murmured' })
  t.equal((await must('carol', 'GET', '/repos/issues/search?q=murmured')).length, 1)
})

t.test('a fork of a private repository can be made public only by an admin of the parent', async (t) => {
  await must('alice', 'POST', '/user/repos', { name: 'vault', private: true, auto_init: true })
  await must('alice', 'PUT', '/repos/alice/vault/collaborators/carol', { permission: 'write' })
  const fork = await must('carol', 'POST', '/repos/alice/vault/forks', {})
  t.equal(fork.private, true)
  const publish = async (login: string, path: string) =>
    (await call(login, 'PATCH', path, { private: false, description: 'x' })).status
  t.equal(await publish('carol', '/repos/carol/vault'), 403)
  t.match(await must('carol', 'GET', '/repos/carol/vault'), { private: true, description: '' })

  // Nor by a way round: a fork of the fork, whose parent she administers.
  await must('carol', 'POST', '/orgs', { username: 'round' })
  await must('carol', 'POST', '/repos/carol/vault/forks', { organization: 'round' })
  t.equal(await publish('carol', '/repos/round/vault'), 403)
  await must('carol', 'DELETE', '/repos/carol/vault')
  t.equal(await publish('carol', '/repos/round/vault'), 403, 'also when the fork between is gone')
  t.match(await must('carol', 'GET', '/repos/round/vault'), { private: true })

  await must('carol', 'POST', '/repos/alice/vault/forks', {})
  await must('alice', 'PUT', '/repos/alice/vault/collaborators/carol', { permission: 'admin' })
  t.equal(await publish('carol', '/repos/carol/vault'), 200, 'who administers the parent may')
})

t.test('the owner of a fork of a public repository may hide and show it', async (t) => {
  await must('alice', 'POST', '/user/repos', { name: 'shown', auto_init: true })
  t.match(await must('carol', 'POST', '/repos/alice/shown/forks', {}), { private: false })
  await must('carol', 'PATCH', '/repos/carol/shown', { private: true })
  t.match(await must('carol', 'PATCH', '/repos/carol/shown', { private: false }), { private: false })
})

t.test("forks of a private organization's repository are private, and stay so", async (t) => {
  const { path } = await organization('order', 'private')
  const fork = await must('bob', 'POST', `${path}/forks`, {})
  t.match(fork, { private: true, full_name: 'bob/open' })
  t.equal((await call('bob', 'PATCH', '/repos/bob/open', { private: false })).status, 403)
  t.equal((await call('carol', 'GET', '/repos/bob/open')).status, 404)
  t.equal(
    (await call('admin', 'PATCH', '/repos/bob/open', { private: false })).status,
    200,
    'but a site admin may',
  )
})

t.test('a repository that is created while its organization changes gets the new visibility', async (t) => {
  const { events, projector, views } = services
  const [alice] = await views.accounts.find({ loginKey: 'alice' })
  if (alice === undefined) throw new Error('no alice')
  const by = { id: alice.id, login: 'alice' }
  const org = { id: 9001, login: 'changed' }
  const repoId = 9001
  const metadata = {
    actor: by,
    at: new Date().toISOString(),
    correlationId: 'c',
    causationId: 'c',
    schema: 1,
  }
  const event = (type: string, data: object) => ({ id: randomUUID(), type, data, metadata })
  const details = {
    fullName: '',
    description: '',
    email: '',
    location: '',
    website: '',
    visibility: 'private',
  }
  await events.append(
    organizationStream(org.id),
    [
      event('OrganizationCreated', { ...org, ...details }),
      event('MemberSet', { organization: org, user: by, permission: 'admin' }),
    ],
    'no-stream',
  )
  const settings = { name: 'open', description: '', website: '', private: false, defaultBranch: 'main' }
  const owner = { ...org, kind: 'organization' }
  await events.append(
    repositoryStream(repoId),
    [event('RepositoryCreated', { repoId, owner, ...settings })],
    'no-stream',
  )
  await until('the process has seen it', async () => {
    await projector.waitFor(await events.lastPosition(), 1000)
    if ((await views.repositories.get(`${repoId}`))?.ownerVisibility === 'private') return true
    await delay(10)
    return false
  })
  t.equal((await call('carol', 'GET', '/repos/changed/open')).status, 404)
  t.equal((await call('alice', 'GET', '/repos/changed/open')).status, 200)
})

t.test(
  'an organization that becomes private hides its repositories immediately, and their forks follow',
  async (t) => {
    const { path } = await organization('closing', 'public')
    await must('carol', 'POST', `${path}/forks`, { name: 'of-closing' })
    await must('dave', 'POST', '/repos/carol/of-closing/forks', {})
    const fork = '/repos/carol/of-closing'
    const stream = await server.fetch('carol', `/api/v1${path}/history`, {
      headers: { accept: 'text/event-stream' },
    })
    t.equal(stream.status, 200)
    await must('alice', 'PATCH', '/orgs/closing', { visibility: 'private' })
    t.equal((await call('carol', 'GET', path)).status, 404, 'at once')
    t.equal((await call(null, 'GET', path)).status, 404)
    t.equal((await call('bob', 'GET', path)).status, 200, 'for its members it is there')
    await stream.text().catch(() => '')
    t.pass('the open stream of a stranger ends')
    for (const [owner, at] of [
      ['carol', fork],
      ['dave', '/repos/dave/of-closing'],
    ] as const) {
      await until('the fork is private', async () => (await must(owner, 'GET', at)).private)
      t.equal((await call(null, 'GET', at)).status, 404)
    }
    t.equal((await call('carol', 'PATCH', fork, { private: false })).status, 403)
    await must('alice', 'PATCH', '/orgs/closing', { visibility: 'public' })
    t.equal((await call(null, 'GET', path)).status, 200)
    t.match(await must('carol', 'GET', fork), { private: true }, 'nobody else makes a fork public')
    t.match(await must('carol', 'PATCH', fork, { private: false }), { private: false })
  },
)

t.test('the public forks of a repository that becomes private become private too, as in Gitea', async (t) => {
  await must('alice', 'POST', '/user/repos', { name: 'closes', auto_init: true })
  await must('carol', 'POST', '/repos/alice/closes/forks', {})
  await must('dave', 'POST', '/repos/carol/closes/forks', { name: 'closes-too' })
  t.equal((await call(null, 'GET', '/repos/carol/closes')).status, 200)
  await must('alice', 'PATCH', '/repos/alice/closes', { private: true })
  for (const [owner, name] of [
    ['carol', 'closes'],
    ['dave', 'closes-too'],
  ] as const) {
    await until(
      'the fork is private',
      async () => (await must(owner, 'GET', `/repos/${owner}/${name}`)).private,
    )
    t.equal((await call(null, 'GET', `/repos/${owner}/${name}`)).status, 404)
    t.equal((await call(owner, 'PATCH', `/repos/${owner}/${name}`, { private: false })).status, 403)
  }
})

t.test(
  'changing the visibility of an organization with many repositories blocks no request: none of their documents is read',
  async (t) => {
    const { repoId } = await organization('many', 'public')
    await must('bob', 'POST', `/repos/many/open/forks`, { name: 'forked' })
    const { repositories } = services.views
    const find = () => Promise.reject(new Error('documents of all repositories are read'))
    const views = { ...services.views, repositories: { ...repositories, find } }
    const { id } = (await services.views.accounts.findOne({ loginKey: 'many' })) ?? { id: 0 }
    await recordOwnerVisibility({ ...services, views }, aContext(), id)
    await hideForksOf({ ...services, views }, aContext(), repoId)
    t.equal((await call(null, 'GET', '/repos/bob/forked')).status, 200, 'nothing to hide')
    await must('alice', 'PATCH', '/orgs/many', { visibility: 'private' })
    await hideForksOf({ ...services, views }, aContext(), repoId)
    await until(
      'the fork is hidden',
      async () => (await call(null, 'GET', '/repos/bob/forked')).status === 404,
    )
  },
)
