import t from 'tap'
import { reconcileRefs } from '../../../src/processes/recovery.ts'
import { workTree } from '../../git-client.ts'
import { startTestServer, statusOf } from '../../start-server.ts'

const server = await startTestServer(t)
const [admin, alice, bob] = await Promise.all([server.as('admin'), server.as('alice'), server.as('bob')])
const create = (name: string, options: object = {}) => alice.user.createCurrentUserRepo({ name, ...options })

t.test('creating a repository gives 201, with the requested settings', async (t) => {
  const plain = await create('plain', { description: 'A plain one' })
  t.equal(plain.status, 201)
  t.match(plain.data, {
    name: 'plain',
    full_name: 'alice/plain',
    description: 'A plain one',
    owner: { login: 'alice' },
    empty: true,
    private: false,
    default_branch: 'main',
    clone_url: `${server.url}/alice/plain.git`,
    permissions: { admin: true, push: true, pull: true },
  })

  const settings = { auto_init: true, private: true, default_branch: 'dev/trunk', description: 'Words' }
  const full = await create('full', settings)
  t.match(full.data, { empty: false, private: true, default_branch: 'dev/trunk' })
  const branch = await alice.repos.repoGetBranch('alice', 'full', 'dev/trunk')
  t.match(branch.data, {
    name: 'dev/trunk',
    commit: { message: /^Initial commit/, author: { name: 'alice' } },
  })

  const work = await workTree(t, server.gitUrl('alice', 'alice/full'))
  t.equal(await work.git('branch', '--show-current'), 'dev/trunk')
  t.equal(await work.git('show', 'HEAD:README.md'), '# full\n\nWords')
})

t.test('a taken name gives 409, in any case, also for many requests at the same time', async (t) => {
  await create('Taken')
  t.equal(await statusOf(create('Taken')), 409)
  t.equal(await statusOf(create('tAKEN')), 409)
  const names = Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? 'rushed' : 'Rushed'))
  const statuses = await Promise.all(names.map((name) => statusOf(create(name))))
  t.strictSame(statuses.sort(), [201, ...Array(7).fill(409)])
  t.equal((await bob.user.createCurrentUserRepo({ name: 'taken' })).status, 201, 'another owner may')
})

t.test('names that Gitea refuses, and default branches that git refuses, give 422', async (t) => {
  const bad = [
    '',
    '.',
    '..',
    '-',
    'a/b',
    '../a',
    'a b',
    'a\u0000',
    'a\n',
    'ü',
    'x.git',
    'x.wiki',
    'x'.repeat(101),
  ]
  for (const name of bad) t.equal(await statusOf(create(name)), 422, JSON.stringify(name))
  for (const branch of ['-x', 'a..b', 'a b', 'a\u0000', '/a', 'a.lock', 'HEAD', 'a~1', 'x'.repeat(1001)]) {
    t.equal(await statusOf(create('branchy', { default_branch: branch })), 422, JSON.stringify(branch))
  }
  t.equal(await statusOf(alice.repos.repoGet('alice', 'branchy')), 404, 'nothing was made')
})

t.test('anonymous creation gives 401', async (t) => {
  t.equal(await statusOf(server.anonymous.user.createCurrentUserRepo({ name: 'nobody' })), 401)
})

t.test('a retried creation does not make its first branch again, which was deleted since', async (t) => {
  const post = async (path: string, body: object) => {
    const init = {
      method: 'POST',
      headers: { 'idempotency-key': 'first branch' },
      body: JSON.stringify(body),
    }
    return (await server.fetch('alice', `/api/v1${path}`, init)).status
  }
  const generated = { owner: 'alice', name: 'from-template', git_content: true }
  const made = [
    ['with-readme', '/user/repos', { name: 'with-readme', auto_init: true, template: true }],
    ['from-template', '/repos/alice/with-readme/generate', generated],
  ] as const
  for (const [, path, body] of made) t.equal(await post(path, body), 201)
  for (const [name, path, body] of [...made].reverse()) {
    const { id = 0 } = (await alice.repos.repoGet('alice', name)).data
    await alice.repos.repoCreateBranch('alice', name, { new_branch_name: 'trunk' })
    await alice.repos.repoEdit('alice', name, { default_branch: 'trunk' })
    await alice.repos.repoDeleteBranch('alice', name, 'main')
    t.equal(await post(path, body), 201)
    t.equal(await statusOf(alice.repos.repoGetBranch('alice', name, 'main')), 404)
    t.equal(await reconcileRefs(server.services, id), 0, 'git and the log agree')
  }
})

t.test('creating with the same Idempotency-Key again gives the same repository', async (t) => {
  const post = (body: object) =>
    server.fetch('alice', '/api/v1/user/repos', {
      method: 'POST',
      headers: { 'idempotency-key': 'once' },
      body: JSON.stringify(body),
    })
  const first = await post({ name: 'once', auto_init: true })
  const again = await post({ name: 'once', auto_init: true })
  t.strictSame([first.status, again.status], [201, 201])
  t.strictSame(await again.json(), await first.json())
  t.equal((await post({ name: 'other' })).status, 422, 'another body is a mistake')

  await alice.repos.repoEdit('alice', 'once', { name: 'renamed-since' })
  t.match(await (await post({ name: 'once', auto_init: true })).json(), { name: 'renamed-since' })
  await alice.repos.repoDelete('alice', 'renamed-since')
  t.equal((await post({ name: 'once', auto_init: true })).status, 404, 'deleted since')
  t.equal((await create('once')).status, 201, 'the retries hold no name')
})

t.test('members who may write create repositories of an organization', async (t) => {
  await alice.orgs.orgCreate({ username: 'acme' })
  const made = await alice.orgs.createOrgRepo('acme', { name: 'tool', private: true })
  t.equal(made.status, 201)
  t.match(made.data, { full_name: 'acme/tool', owner: { login: 'acme' } })
  t.equal(await statusOf(bob.orgs.createOrgRepo('acme', { name: 'mine' })), 403)
  t.equal(await statusOf(alice.orgs.createOrgRepo('nowhere', { name: 'mine' })), 404)
  t.equal(
    await statusOf(alice.orgs.createOrgRepo('bob', { name: 'mine' })),
    404,
    'a user is not an organization',
  )
  t.equal(await statusOf(server.anonymous.orgs.createOrgRepo('acme', { name: 'mine' })), 401)

  t.equal(await statusOf(bob.repos.repoGet('acme', 'tool')), 404)
  const member = (permission: string) =>
    server.fetch('alice', '/api/v1/orgs/acme/members/bob', {
      method: 'PUT',
      body: JSON.stringify({ permission }),
    })
  t.equal((await member('read')).status, 204)
  t.match((await bob.repos.repoGet('acme', 'tool')).data, { permissions: { pull: true, push: false } })
  t.equal(await statusOf(bob.orgs.createOrgRepo('acme', { name: 'mine' })), 403)
  t.equal((await member('write')).status, 204)
  t.equal((await bob.orgs.createOrgRepo('acme', { name: 'mine' })).status, 201)
})

t.test('a private repository is 404 for those who may not read it', async (t) => {
  await create('hidden', { private: true })
  t.equal((await alice.repos.repoGet('ALICE', 'Hidden')).data.full_name, 'alice/hidden', 'in any case')
  t.equal((await admin.repos.repoGet('alice', 'hidden')).status, 200)
  t.equal(await statusOf(bob.repos.repoGet('alice', 'hidden')), 404)
  t.equal(await statusOf(server.anonymous.repos.repoGet('alice', 'hidden')), 404)
  t.equal(await statusOf(bob.repos.repoListBranches('alice', 'hidden')), 404)
  t.equal(await statusOf(bob.repos.repoListPullRequests('alice', 'hidden')), 404)
  t.equal(await statusOf(bob.repos.repoListCollaborators('alice', 'hidden')), 404)
  t.equal(await statusOf(bob.repos.repoEdit('alice', 'hidden', { private: false })), 404)
  t.equal(await statusOf(bob.repos.repoDelete('alice', 'hidden')), 404)
})

t.test('editing changes what is given, and a rename frees the old name', async (t) => {
  await create('before', { auto_init: true })
  await create('occupied')
  const edited = await alice.repos.repoEdit('alice', 'before', { name: 'after', description: 'New words' })
  t.equal(edited.status, 200)
  t.match(edited.data, { full_name: 'alice/after', description: 'New words', private: false })
  const byOldName = await alice.repos.repoGet('alice', 'before')
  t.equal(byOldName.data.full_name, 'alice/after', 'it leads to the new one')
  t.equal((await alice.repos.repoGet('alice', 'after')).status, 200)
  t.equal((await create('before')).status, 201, 'the old name is free')
  t.match((await alice.repos.repoGet('alice', 'before')).data, { full_name: 'alice/before' })
  t.equal(await statusOf(alice.repos.repoEdit('alice', 'after', { name: 'OCCUPIED' })), 409)
  t.equal(
    (await alice.repos.repoEdit('alice', 'after', { name: 'After' })).data.name,
    'After',
    'only its case',
  )
  t.equal(await statusOf(alice.repos.repoEdit('alice', 'after', { name: '../x' })), 422)

  t.equal(await statusOf(alice.repos.repoEdit('alice', 'after', { default_branch: 'nowhere' })), 422)
  const work = await workTree(t, server.gitUrl('alice', 'alice/after'))
  await work.git('push', '-q', 'origin', 'HEAD:refs/heads/next')
  const moved = await alice.repos.repoEdit('alice', 'after', { default_branch: 'next' })
  t.equal(moved.data.default_branch, 'next')
  const clone = await workTree(t, server.gitUrl('alice', 'alice/after'))
  t.equal(await clone.git('branch', '--show-current'), 'next')

  t.equal(await statusOf(bob.repos.repoEdit('alice', 'after', { private: true })), 403)
  t.equal(await statusOf(server.anonymous.repos.repoEdit('alice', 'after', { private: true })), 401)
  t.equal((await alice.repos.repoEdit('alice', 'after', { private: true })).data.private, true)
  t.equal(await statusOf(bob.repos.repoGet('alice', 'after')), 404)
  t.equal((await alice.repos.repoEdit('alice', 'after', { private: false })).data.private, false)
  t.equal((await bob.repos.repoGet('alice', 'after')).status, 200)
})

t.test('a deleted repository is gone, for git too, and its name is free', async (t) => {
  await create('doomed', { auto_init: true })
  t.equal(await statusOf(bob.repos.repoDelete('alice', 'doomed')), 403)
  t.equal(await statusOf(server.anonymous.repos.repoDelete('alice', 'doomed')), 401)
  t.equal((await alice.repos.repoDelete('alice', 'doomed')).status, 204)
  t.equal(await statusOf(alice.repos.repoGet('alice', 'doomed')), 404)
  t.equal(await statusOf(alice.repos.repoDelete('alice', 'doomed')), 404)
  await t.rejects(workTree(t, server.gitUrl('alice', 'alice/doomed')), /not found/)
  t.match((await create('doomed')).data, { empty: true }, 'the new one has nothing of the old')
})

t.test('collaborators have the permission that they were given, in the API and in git', async (t) => {
  await create('shared', { private: true, auto_init: true })
  const [carol] = await Promise.all([server.as('carol'), server.as('dave')])
  const url = server.gitUrl('carol', 'alice/shared')
  const { repos } = alice
  const give = (permission?: 'read' | 'write' | 'admin') =>
    repos.repoAddCollaborator('alice', 'shared', 'carol', permission === undefined ? {} : { permission })
  const permission = async () =>
    (await repos.repoGetRepoPermissions('alice', 'shared', 'carol')).data.permission

  t.equal(await statusOf(repos.repoCheckCollaborator('alice', 'shared', 'carol')), 404)
  t.equal(await permission(), 'none')
  await t.rejects(workTree(t, url), /not found/)

  t.equal((await give('read')).status, 204)
  t.equal((await repos.repoCheckCollaborator('alice', 'shared', 'carol')).status, 204)
  t.equal(await permission(), 'read')
  t.match((await carol.repos.repoGet('alice', 'shared')).data, { permissions: { pull: true, push: false } })
  const work = await workTree(t, url)
  await work.commit('By carol', { 'carol.txt': 'c\n' })
  await t.rejects(work.git('push', '-q', 'origin', 'HEAD:carol'), /403/)

  t.equal((await give()).status, 204)
  t.equal(await permission(), 'write', 'no permission means write')
  await work.git('push', '-q', 'origin', 'HEAD:carol')
  t.equal(await statusOf(carol.repos.repoEdit('alice', 'shared', { description: 'mine' })), 403)
  t.equal(await statusOf(carol.repos.repoAddCollaborator('alice', 'shared', 'dave', {})), 403)

  t.equal((await give('admin')).status, 204)
  t.equal((await carol.repos.repoEdit('alice', 'shared', { description: 'ours' })).status, 200)
  t.equal((await carol.repos.repoAddCollaborator('alice', 'shared', 'dave', {})).status, 204)
  const listed = await repos.repoListCollaborators('alice', 'shared', { limit: 1 })
  t.equal(listed.headers.get('x-total-count'), '2')
  t.strictSame((await repos.repoListCollaborators('alice', 'shared')).data.map(({ login }) => login).sort(), [
    'carol',
    'dave',
  ])
  t.equal((await repos.repoGetRepoPermissions('alice', 'shared', 'alice')).data.permission, 'owner')

  t.equal((await repos.repoDeleteCollaborator('alice', 'shared', 'carol')).status, 204)
  t.equal(await statusOf(carol.repos.repoGet('alice', 'shared')), 404)
  await t.rejects(work.git('fetch', '-q'), /not found/)
  t.equal(
    (await repos.repoDeleteCollaborator('alice', 'shared', 'carol')).status,
    204,
    'twice is not an error',
  )

  t.equal(await statusOf(repos.repoAddCollaborator('alice', 'shared', 'nobody', {})), 422)
  t.equal(await statusOf(repos.repoAddCollaborator('alice', 'shared', 'alice', {})), 422, 'the owner')
  const odd = { method: 'PUT', body: JSON.stringify({ permission: 'owner' }) }
  t.equal((await server.fetch('alice', '/api/v1/repos/alice/shared/collaborators/carol', odd)).status, 422)
})

t.test('users see only their own permission unless they are admins, and anonymous sees none', async (t) => {
  await create('open')
  t.equal((await bob.repos.repoGetRepoPermissions('alice', 'open', 'bob')).data.permission, 'read')
  t.equal(await statusOf(bob.repos.repoGetRepoPermissions('alice', 'open', 'alice')), 403)
  t.equal(await statusOf(server.anonymous.repos.repoListCollaborators('alice', 'open')), 401)
})

t.test('branches are listed in pages, read by name with slashes, and deleted', async (t) => {
  await create('trees', { auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', 'alice/trees'))
  const tip = await work.git('rev-parse', 'HEAD')
  await work.git(
    'push',
    '-q',
    'origin',
    'HEAD:refs/heads/a',
    'HEAD:refs/heads/feature/x/y',
    'HEAD:refs/heads/z%2f',
  )

  const { repos } = alice
  const all = await repos.repoListBranches('alice', 'trees')
  t.strictSame(
    all.data.map(({ name }) => name),
    ['a', 'feature/x/y', 'main', 'z%2f'],
  )
  t.equal(all.headers.get('x-total-count'), '4')
  const second = await repos.repoListBranches('alice', 'trees', { page: 2, limit: 3 })
  t.strictSame(
    second.data.map(({ name }) => name),
    ['z%2f'],
  )
  t.match(second.headers.get('link'), /page=1&limit=3>; rel="first"/)

  const url = '/api/v1/repos/alice/trees/branches'
  for (const path of ['feature/x/y', 'feature%2Fx%2Fy']) {
    const branch = await server.fetch('alice', `${url}/${path}`)
    t.match(await branch.json(), { name: 'feature/x/y', commit: { id: tip }, user_can_push: true })
  }
  t.match(await (await server.fetch(null, `${url}/z%252f`)).json(), { name: 'z%2f', user_can_push: false })
  for (const missing of ['nothing', 'feature', '..%2f..%2fconfig', '-d', '%00']) {
    t.equal((await server.fetch('alice', `${url}/${missing}`)).status, 404, missing)
  }

  t.equal(await statusOf(bob.repos.repoDeleteBranch('alice', 'trees', 'a')), 403)
  t.equal((await repos.repoDeleteBranch('alice', 'trees', 'feature/x/y')).status, 204)
  t.equal(await statusOf(repos.repoGetBranch('alice', 'trees', 'feature/x/y')), 404)
  t.equal(await work.git('ls-remote', 'origin', 'refs/heads/feature/*'), '')
  t.equal(await statusOf(repos.repoDeleteBranch('alice', 'trees', 'feature/x/y')), 404)
  t.equal(await statusOf(repos.repoDeleteBranch('alice', 'trees', 'main')), 403, 'the default branch')
  t.equal((await repos.repoGetBranch('alice', 'trees', 'main')).status, 200)
})
