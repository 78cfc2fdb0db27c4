/** Routes that clients call: Terraform, Woodpecker, Drone, the SDKs. */
import t from 'tap'
import { gitStream } from '../../src/events/streams.ts'
import { workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'

const server = await startTestServer(t)

async function call(login: string | null, method: string, path: string, body?: object) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  const text = await answer.text()
  return { status: answer.status, json: text === '' ? null : JSON.parse(text) }
}
const statusOf = async (...args: Parameters<typeof call>) => (await call(...args)).status
const now = () => server.services.events.lastPosition()

/** A repository of alice with a first commit. */
async function newRepository(name: string, option: object = {}) {
  return (await call('alice', 'POST', '/user/repos', { name, auto_init: true, ...option })).json
}
const write = (repo: string, branch: string, path: string, text: string) =>
  call('alice', 'POST', `/repos/${repo}/contents/${path}`, {
    branch,
    content: Buffer.from(text).toString('base64'),
  })
const tipOf = async (repo: string, branch: string, by = 'alice'): Promise<string> =>
  (await call(by, 'GET', `/repos/${repo}/branches/${branch}`)).json.commit.id

t.test('/repositories/{id} is the repository with that id, for those who may read it', async (t) => {
  const { id } = await newRepository('by-id', { private: true })
  const { status, json } = await call('alice', 'GET', `/repositories/${id}`)
  t.equal(status, 200)
  t.same(json, (await call('alice', 'GET', '/repos/alice/by-id')).json)
  for (const by of ['bob', null]) t.equal(await statusOf(by, 'GET', `/repositories/${id}`), 404)
  for (const other of [0, 999999, 'x', -1]) {
    t.equal(await statusOf('alice', 'GET', `/repositories/${other}`), 404)
  }
})

t.test('/org/{org}/repos makes a repository of an organization', async (t) => {
  await call('alice', 'POST', '/orgs', { username: 'acme' })
  const { status, json } = await call('alice', 'POST', '/org/acme/repos', { name: 'app' })
  t.equal(status, 201)
  t.equal(json.full_name, 'acme/app')
  t.equal(await statusOf('alice', 'POST', '/org/acme/repos', { name: 'app' }), 409)
  t.equal(await statusOf('bob', 'POST', '/org/acme/repos', { name: 'other' }), 403)
  t.equal(await statusOf(null, 'POST', '/org/acme/repos', { name: 'other' }), 401)
})

t.test('/user/emails lists the address of the user', async (t) => {
  const { id, email } = (await call('alice', 'GET', '/user')).json
  t.same((await call('alice', 'GET', '/user/emails')).json, [
    { email, verified: true, primary: true, user_id: id, username: 'alice' },
  ])
  t.equal(await statusOf(null, 'GET', '/user/emails'), 401)
})

t.test('/users/{u}/orgs/{org}/permissions says what a user may do in an organization', async (t) => {
  await call('alice', 'POST', '/orgs', { username: 'makers' })
  await call('alice', 'PUT', '/orgs/makers/members/bob', { permission: 'write' })
  const team = (await call('alice', 'POST', '/orgs/makers/teams', { name: 'readers' })).json.id
  await call('alice', 'PUT', `/teams/${team}/members/carol`)
  const of = async (by: string, login: string) => {
    const { json } = await call(by, 'GET', `/users/${login}/orgs/makers/permissions`)
    return [json.is_owner, json.is_admin, json.can_write, json.can_read, json.can_create_repository]
  }
  const nothing = [false, false, false, false, false]
  t.same(await of('alice', 'alice'), [true, true, true, true, true])
  t.same(await of('bob', 'bob'), [false, false, true, true, true])
  t.same(await of('carol', 'carol'), [false, false, false, true, false])
  t.same(await of('dave', 'dave'), nothing)
  t.same(await of('admin', 'bob'), [false, false, true, true, true])
  t.same(await of('dave', 'bob'), nothing, 'who may not know of the membership')
  await call('bob', 'PUT', '/orgs/makers/public_members/bob')
  t.same(await of('dave', 'bob'), [false, false, true, true, true])
  t.equal(await statusOf(null, 'GET', '/users/bob/orgs/makers/permissions'), 401)
  for (const path of ['/users/nobody/orgs/makers', '/users/bob/orgs/nothing', '/users/bob/orgs/alice']) {
    t.equal(await statusOf('alice', 'GET', `${path}/permissions`), 404)
  }
})

t.test('issues/{n}/comments/{id} changes and deletes a comment of that issue', async (t) => {
  await newRepository('talk')
  const issues = '/repos/alice/talk/issues'
  const first = (await call('alice', 'POST', issues, { title: 'One' })).json.number
  const second = (await call('alice', 'POST', issues, { title: 'Two' })).json.number
  const { id } = (await call('bob', 'POST', `${issues}/${first}/comments`, { body: 'Hm' })).json
  const before = await now()
  t.equal(await statusOf('bob', 'DELETE', `${issues}/${second}/comments/${id}`), 404)
  t.equal(await statusOf('bob', 'PATCH', `${issues}/${second}/comments/${id}`, { body: 'x' }), 404)
  t.equal(await statusOf('carol', 'DELETE', `${issues}/${first}/comments/${id}`), 403)
  t.equal(await statusOf(null, 'DELETE', `${issues}/${first}/comments/${id}`), 401)
  t.same(await now(), before, 'nothing of that changed anything')
  const edited = await call('bob', 'PATCH', `${issues}/${first}/comments/${id}`, { body: 'Oh' })
  t.match(edited, { status: 200, json: { id, body: 'Oh' } })
  t.equal(await statusOf('bob', 'DELETE', `${issues}/${first}/comments/${id}`), 204)
  t.equal(await statusOf('bob', 'GET', `${issues}/comments/${id}`), 404)
})

t.test('/.well-known/nodeinfo leads to /nodeinfo, which describes the server', async (t) => {
  const answer = await server.fetch(null, '/.well-known/nodeinfo')
  t.equal(answer.status, 200)
  const { links }: { links: { rel: string; href: string }[] } = JSON.parse(await answer.text())
  t.match(links, [{ rel: 'http://nodeinfo.diaspora.software/ns/schema/2.1' }])
  const { status, json } = await call(null, 'GET', '/nodeinfo')
  t.equal(links[0]?.href, `${server.url}/api/v1/nodeinfo`)
  t.equal(status, 200)
  t.match(json, { version: '2.1', software: { name: 'mergelog' }, openRegistrations: false })
  t.equal(json.usage.users.total, 5)
})

t.test('PUT branches/{branch} moves a branch to a commit', async (t) => {
  const repo = 'alice/moving'
  await newRepository('moving')
  const path = `/repos/${repo}/branches`
  const first = await tipOf(repo, 'main')
  await call('alice', 'POST', path, { new_branch_name: 'dir/topic', old_ref_name: 'main' })
  await write(repo, 'main', 'a.txt', 'a')
  const second = await tipOf(repo, 'main')
  await call('alice', 'POST', path, { new_branch_name: 'second', old_ref_name: 'main' })
  await call('alice', 'PUT', `/repos/${repo}/collaborators/bob`, { permission: 'read' })
  const move = (by: string | null, body: object, branch = 'dir/topic') =>
    statusOf(by, 'PUT', `${path}/${branch}`, body)

  const before = await now()
  t.equal(await move(null, { new_commit_id: second }), 401)
  t.equal(await move('bob', { new_commit_id: second }), 403)
  t.equal(await move('alice', { new_commit_id: second, old_commit_id: second }), 409)
  t.equal(await move('alice', { new_commit_id: '1'.repeat(40) }), 404)
  t.equal(await move('alice', { new_commit_id: second }, 'unknown'), 404)
  t.equal(await move('alice', { new_commit_id: second }, 'a..b'), 404)
  t.equal(await move('alice', {}), 422)
  t.equal(await move('alice', { new_commit_id: first }), 204, 'where it is already')
  t.same(await now(), before, 'nothing of that changed anything')

  const pull = await call('alice', 'POST', `/repos/${repo}/pulls`, {
    head: 'main',
    base: 'dir/topic',
    title: 'T',
  })
  t.equal(await move('alice', { new_commit_id: second, old_commit_id: first }), 204)
  t.equal(await tipOf(repo, 'dir/topic'), second)
  t.equal(await move('alice', { new_commit_id: first }), 409, 'it is no fast-forward')
  t.equal(await tipOf(repo, 'dir/topic'), second)
  t.equal(await move('alice', { new_commit_id: first, force: true, old_commit_id: null }), 204)
  t.equal(await tipOf(repo, 'dir/topic'), first)
  const index = pull.json.number
  t.equal(await move('alice', { new_commit_id: first, force: true }, 'main'), 204)
  t.equal(
    (await call('alice', 'GET', `/repos/${repo}/pulls/${index}`)).json.head.sha,
    first,
    'a head follows',
  )

  await call('alice', 'POST', `/repos/${repo}/branch_protections`, { rule_name: 'main', enable_push: true })
  t.equal(await move('alice', { new_commit_id: second }, 'main'), 204)
  t.equal(await move('alice', { new_commit_id: first, force: true }, 'main'), 403)
  t.equal(await tipOf(repo, 'main'), second, 'a protected branch takes fast-forwards only')

  await call('alice', 'PATCH', `/repos/${repo}/branch_protections/main`, { require_signed_commits: true })
  await write(repo, 'second', 'b.txt', 'b')
  t.equal(await move('alice', { new_commit_id: await tipOf(repo, 'second') }, 'main'), 403)
  t.equal(await tipOf(repo, 'main'), second, 'a branch of signed commits is moved by pushes alone')
})

t.test('PUT branches/{branch}: a move back loses no more than a forced push', async (t) => {
  const { id } = await newRepository('back')
  const [repo, path] = ['alice/back', '/repos/alice/back/branches/main']
  const first = await tipOf(repo, 'main')
  await write(repo, 'main', 'a.txt', 'a')
  const second = await tipOf(repo, 'main')
  const work = await workTree(t, server.gitUrl('alice', repo))
  t.equal(await statusOf('alice', 'PUT', path, { new_commit_id: first, force: true }), 204)
  const refs: unknown[] = []
  for await (const { type, data } of server.services.events.readStream(gitStream(id)))
    if (type === 'RefsUpdated') refs.push(data)
  t.match(refs.at(-1), { refs: [{ ref: 'refs/heads/main', from: second, to: first }] }, 'the log names it')
  t.equal(await statusOf('alice', 'PUT', path, { new_commit_id: second }), 404, 'no ref reaches it')
  await work.git('push', '-q', 'origin', `${second}:refs/heads/main`)
  t.equal(await tipOf(repo, 'main'), second)
})

t.test('merge-upstream brings a branch of a fork up to date with its parent', async (t) => {
  await newRepository('parent', { default_branch: 'main' })
  await call('bob', 'POST', '/repos/alice/parent/forks', { name: 'fork' })
  const [parent, fork] = ['alice/parent', 'bob/fork']
  const merge = (by: string | null, body: object, repo = fork) =>
    call(by, 'POST', `/repos/${repo}/merge-upstream`, body)
  const merged = async (body: object) => {
    const { status, json } = await merge('bob', body)
    return status === 200 ? json.merge_type : status
  }

  t.equal((await merge(null, { branch: 'main' })).status, 401)
  t.equal((await merge('carol', { branch: 'main' })).status, 403)
  t.equal((await merge('alice', { branch: 'main' }, parent)).status, 422, 'it is not a fork')
  t.equal((await merge('bob', { branch: 'unknown' })).status, 404)
  t.equal(await merged({ branch: 'main' }), 'up-to-date')
  await write(parent, 'main', 'a.txt', 'a')
  t.equal(await merged({ branch: 'main' }), 'fast-forward')
  t.equal(await tipOf(fork, 'main'), await tipOf(parent, 'main'))

  await write(parent, 'main', 'b.txt', 'b')
  const content = Buffer.from('c').toString('base64')
  await call('bob', 'POST', `/repos/${fork}/contents/c.txt`, { branch: 'main', content })
  const own = await tipOf(fork, 'main')
  t.equal(await merged({ branch: 'main', ff_only: true }), 409)
  t.equal(await tipOf(fork, 'main'), own)
  t.equal(await merged({ branch: 'main' }), 'merge')
  const commit = (await call('bob', 'GET', `/repos/${fork}/git/commits/${await tipOf(fork, 'main')}`)).json
  t.same(
    commit.parents.map(({ sha }: { sha: string }) => sha),
    [own, await tipOf(parent, 'main')],
  )
  t.match(commit.commit.message, /^Merge branch 'main' of alice\/parent into main/)
  t.equal(await merged({ branch: 'main' }), 'up-to-date')

  await call('bob', 'POST', `/repos/${fork}/branches`, { new_branch_name: 'topic' })
  await write(parent, 'main', 'd.txt', 'd')
  t.equal(
    await merged({ branch: 'topic' }),
    'merge',
    'the default branch stands for one that the parent lacks',
  )

  await write(parent, 'main', 'e.txt', 'theirs')
  await call('bob', 'POST', `/repos/${fork}/contents/e.txt`, { branch: 'main', content })
  const before = await tipOf(fork, 'main')
  t.equal(await merged({ branch: 'main' }), 409, 'conflicts')
  t.equal(await tipOf(fork, 'main'), before)

  await call('alice', 'PATCH', `/repos/${parent}`, { private: true })
  t.ok(
    [403, 404].includes((await merge('bob', { branch: 'main' })).status),
    'a parent that is hidden from bob',
  )
  t.equal(await tipOf(fork, 'main', 'bob'), before)
})

const FORM = `name: Bug
description: Report a bug
title: "[Bug] "
labels: [bug, help wanted]
assignees: alice
ref: main
body:
  - type: markdown
    attributes: {value: Hello}
  - type: input
    id: version
    attributes: {label: Version}
    validations: {required: true}
`
const MARKDOWN = '---\nname: Idea\nabout: Something new\nlabels: "idea, later"\n---\n\n# What\n'

t.test('issue_templates are the templates of the default branch', async (t) => {
  await call('alice', 'POST', '/user/repos', { name: 'empty' })
  t.same((await call('alice', 'GET', '/repos/alice/empty/issue_templates')).json, [])
  await newRepository('forms')
  const [repo, path] = ['alice/forms', '/repos/alice/forms/issue_templates']
  t.same((await call(null, 'GET', path)).json, [])
  await write(repo, 'main', '.gitea/ISSUE_TEMPLATE/bug.yaml', FORM)
  await write(repo, 'main', '.github/issue_template/idea.md', MARKDOWN)
  await write(repo, 'main', '.gitea/ISSUE_TEMPLATE/broken.yaml', 'name: [')
  await write(repo, 'main', '.gitea/ISSUE_TEMPLATE/nameless.yaml', 'about: x\nbody: []')
  await write(repo, 'main', '.gitea/ISSUE_TEMPLATE/bomb.yml', `a: &a [x]\n${'b: [*a, *a]\n'.repeat(900)}`)
  await write(repo, 'main', '.gitea/ISSUE_TEMPLATE/other.txt', 'Not a template')
  await write(repo, 'main', '.gitea/ISSUE_TEMPLATE/config.yml', 'blank_issues_enabled: false')
  const { status, json } = await call(null, 'GET', path)
  t.equal(status, 200)
  t.same(json, [
    {
      name: 'Bug',
      title: '[Bug] ',
      about: 'Report a bug',
      labels: ['bug', 'help wanted'],
      assignees: ['alice'],
      ref: 'refs/heads/main',
      content: '',
      body: [
        { type: 'markdown', id: '0', attributes: { value: 'Hello' }, validations: {}, visible: [] },
        {
          type: 'input',
          id: 'version',
          attributes: { label: 'Version' },
          validations: { required: true },
          visible: [],
        },
      ],
      file_name: '.gitea/ISSUE_TEMPLATE/bug.yaml',
    },
    {
      name: 'Idea',
      title: '',
      about: 'Something new',
      labels: ['idea', 'later'],
      assignees: [],
      ref: '',
      content: '\n# What\n',
      body: [],
      file_name: '.github/issue_template/idea.md',
    },
  ])
})

t.test('issue_config is the configuration of the templates, or the default one', async (t) => {
  await newRepository('config')
  const path = '/repos/alice/config/issue_config'
  const byDefault = { blank_issues_enabled: true, contact_links: [] }
  t.same((await call(null, 'GET', path)).json, byDefault)
  t.same((await call(null, 'GET', `${path}/validate`)).json, { valid: true, message: '' })
  const link = { name: 'Chat', url: 'https://chat.example.org', about: 'Ask there' }
  const file = '.gitea/ISSUE_TEMPLATE/config.yaml'
  await write(
    'alice/config',
    'main',
    file,
    `blank_issues_enabled: false\ncontact_links: [${JSON.stringify(link)}]`,
  )
  t.same((await call(null, 'GET', path)).json, { blank_issues_enabled: false, contact_links: [link] })
  t.same((await call(null, 'GET', `${path}/validate`)).json, { valid: true, message: '' })

  await newRepository('bad-config')
  const bad = '/repos/alice/bad-config/issue_config'
  await write('alice/bad-config', 'main', file, 'contact_links: [{name: x}]')
  t.same((await call(null, 'GET', bad)).json, byDefault)
  t.same((await call(null, 'GET', `${bad}/validate`)).json, {
    valid: false,
    message: 'contact_link at position 1 is missing url key',
  })
})
