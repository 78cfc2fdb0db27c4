import t from 'tap'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const server = await startTestServer(t)
const [alice, bob, admin] = [await server.as('alice'), await server.as('bob'), await server.as('admin')]
let made = 0

async function repository(options: { private?: boolean } = {}) {
  const name = `app${++made}`
  const body = { name, auto_init: true, ...options }
  const { data } = await alice.user.createCurrentUserRepo(body)
  const { data: issue } = await alice.repos.issueCreateIssue('alice', name, { title: 'First' })
  return { name, repoId: data.id ?? 0, issueId: issue.id }
}

const KEYED = { 'idempotency-key': 'the key' }
const BAD_KEY = { 'idempotency-key': 'k'.repeat(256) }

/** Follows a redirect, as clients do. `first`: distinguishes created things. */
async function post(login: string, path: string, body: object | FormData, headers: object = KEYED) {
  const form = body instanceof FormData ? new Response(body) : undefined
  const type = form?.headers.get('content-type')
  const init = {
    method: 'POST',
    headers: { ...(type && { 'content-type': type }), ...headers },
    // Node's fetch does not send a form again after a redirect.
    body: form === undefined ? JSON.stringify(body) : await form.text(),
  }
  const answer = await server.fetch(login, path, init)
  const text = await answer.text()
  const first = /"(?:id|number|sha)":[^,}]*/.exec(text)?.[0]
  return { status: answer.status, first, redirected: answer.redirected, text }
}

const file = () => {
  const form = new FormData()
  form.set('attachment', new File(['x'], 'x.txt'))
  return form
}

/** Requests that create something each time, below `/repos/{owner}/{repo}`. */
const requests: [path: string, body: () => object | FormData][] = [
  ['/contents/a.txt', () => ({ content: 'eA==', message: 'a', branch: 'main' })],
  ['/issues', () => ({ title: 'An issue' })],
  ['/issues/1/comments', () => ({ body: 'A comment' })],
  ['/issues/1/assets', file],
  ['/labels', () => ({ name: 'bug', color: '#ff0000' })],
  ['/milestones', () => ({ title: 'One' })],
  ['/branches', () => ({ new_branch_name: 'topic' })],
  ['/pulls', () => ({ title: 'A pull request', head: 'topic', base: 'main' })],
  ['/tags', () => ({ tag_name: 'v1', message: 'One' })],
  ['/releases', () => ({ tag_name: 'v2', name: 'Two', target_commitish: 'main' })],
  ['/hooks', () => ({ type: 'gitea', config: { url: 'https://example.org/', content_type: 'json' } })],
]
const ONE_OF_EACH = { issues: 2, pulls: 1, comments: 1, labels: 1, milestones: 1, releases: 1, hooks: 1 }

async function counts(owner: string, name: string) {
  const { repos } = alice
  return {
    issues: (await repos.issueListIssues(owner, name, { type: 'issues' })).data.length,
    pulls: (await repos.repoListPullRequests(owner, name)).data.length,
    comments: (await repos.issueGetComments(owner, name, 1)).data.length,
    labels: (await repos.issueListLabels(owner, name)).data.length,
    milestones: (await repos.issueGetMilestonesList(owner, name)).data.length,
    releases: (await repos.repoListReleases(owner, name)).data.length,
    hooks: (await repos.repoListHooks(owner, name)).data.length,
  }
}

t.test(
  'a POST with an Idempotency-Key is done once, also when its repository was renamed since',
  async (t) => {
    const { name } = await repository()
    const answers = []
    for (const [path, body] of requests) {
      const answer = await post('alice', `/api/v1/repos/alice/${name}${path}`, body())
      t.equal(answer.status, 201, `${path} ${answer.text}`)
      answers.push(answer)
    }
    t.same(await counts('alice', name), ONE_OF_EACH)

    const renamed = `${name}-renamed`
    await alice.repos.repoEdit('alice', name, { name: renamed })
    for (const [by, redirected] of [
      [name, true],
      [renamed, false],
      [renamed.toUpperCase(), false],
    ] as const) {
      for (const [i, [path, body]] of requests.entries()) {
        const again = await post('alice', `/api/v1/repos/alice/${by}${path}`, body())
        const { status, first } = answers[i] ?? {}
        t.match(again, { status, first, redirected }, `${by}${path} ${again.text}`)
      }
    }
    t.same(await counts('alice', renamed), ONE_OF_EACH)
    const other = await post('alice', `/api/v1/repos/alice/${renamed}/issues`, { title: 'Another' })
    t.equal(other.status, 422, 'the key is taken')
  },
)

t.test(
  'a POST with an Idempotency-Key is done once, also when its repository was transferred since',
  async (t) => {
    const { name } = await repository()
    await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'admin' })
    const issue = () => ({ title: 'An issue' })
    const first = await post('bob', `/api/v1/repos/alice/${name}/issues`, issue())
    const lock = () => ({ path: 'a.bin' })
    const lfs = { ...KEYED, 'content-type': 'application/vnd.git-lfs+json' }
    const locked = await post('bob', `/alice/${name}.git/info/lfs/locks`, lock(), lfs)
    t.equal(locked.status, 201, locked.text)
    t.equal((await admin.repos.repoTransfer('alice', name, { new_owner: 'carol' })).status, 202)
    const second = new Date().getSeconds()
    await until('it is another second', () => new Date().getSeconds() !== second)
    for (const owner of ['alice', 'carol']) {
      t.match(await post('bob', `/api/v1/repos/${owner}/${name}/issues`, issue()), {
        status: 201,
        first: first.first,
      })
      t.match(await post('bob', `/${owner}/${name}.git/info/lfs/locks`, lock(), lfs), {
        status: 201,
        text: locked.text,
      })
    }
    t.equal((await bob.repos.issueListIssues('carol', name, { type: 'issues' })).data.length, 2)
  },
)

t.test('a key does not apply to another repository that has taken the name', async (t) => {
  const { name, issueId } = await repository()
  const path = `/api/v1/repos/alice/${name}/issues`
  const first = await post('alice', path, { title: 'An issue' })
  await alice.repos.repoEdit('alice', name, { name: `${name}-renamed` })
  await alice.user.createCurrentUserRepo({ name })
  const second = await post('alice', path, { title: 'An issue' })
  t.equal(second.status, 201)
  t.not(second.first, first.first, 'an id of its own')
  t.not(second.first, `"id":${issueId}`)
})

t.test('permissions are checked before an earlier answer is repeated', async (t) => {
  const { name } = await repository({ private: true })
  await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'write' })
  const send = (rest: string, body: object, by = name) =>
    post('bob', `/api/v1/repos/alice/${by}${rest}`, body)
  t.equal((await send('/issues', { title: 'An issue' })).status, 201)
  t.equal((await send('/milestones', { title: 'One' })).status, 201)

  await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'read' })
  t.equal((await send('/issues', { title: 'An issue' })).status, 201)
  t.equal((await send('/milestones', { title: 'One' })).status, 403)
  await alice.repos.repoDeleteCollaborator('alice', name, 'bob')
  await alice.repos.repoEdit('alice', name, { name: `${name}-renamed` })
  for (const by of [name, `${name}-renamed`]) {
    t.equal((await send('/issues', { title: 'An issue' }, by)).status, 404)
    t.equal((await send('/milestones', { title: 'One' }, by)).status, 404)
  }
})

t.test('a user who has lost access does not get the earlier answer about a transfer', async (t) => {
  const { name } = await repository({ private: true })
  const path = `/api/v1/repos/alice/${name}/transfer`
  t.equal((await post('alice', path, { new_owner: 'bob' })).status, 201)
  t.equal((await bob.repos.acceptRepoTransfer('alice', name)).status, 202)
  await bob.repos.repoAddCollaborator('bob', name, 'alice', { permission: 'read' })
  t.equal((await post('alice', path, { new_owner: 'bob' })).status, 201)
  t.equal((await post('alice', path, { new_owner: 'bob' }, BAD_KEY)).status, 400)
  await bob.repos.repoDeleteCollaborator('bob', name, 'alice')
  t.equal((await post('alice', path, { new_owner: 'bob' })).status, 404)
  t.equal((await post('alice', path, { new_owner: 'bob' }, BAD_KEY)).status, 404)
})
