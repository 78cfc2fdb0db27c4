/** The first content of a repository, and the known values of its fields. */
import t from 'tap'
import { startTestServer } from '../../../start-server.ts'

const server = await startTestServer(t)

async function call(method: string, path: string, body?: object) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
  const answer = await server.fetch('alice', `/api/v1${path}`, init)
  const text = await answer.text()
  return { status: answer.status, json: text === '' ? null : JSON.parse(text) }
}
const create = (name: string, body: object) => call('POST', '/user/repos', { name, ...body })
const fileOf = async (repo: string, path: string) =>
  (await server.fetch('alice', `/api/v1/repos/alice/${repo}/raw/${path}`)).text()
const filesOf = async (repo: string) =>
  (await call('GET', `/repos/alice/${repo}/contents`)).json.map(({ name }: { name: string }) => name)

t.test('license: the text of SPDX is the file LICENSE of the first commit', async (t) => {
  t.equal((await create('licensed', { auto_init: true, license: 'MIT', description: 'Words' })).status, 201)
  t.same(await filesOf('licensed'), ['LICENSE', 'README.md'])
  const text = await fileOf('licensed', 'LICENSE')
  t.match(text, `Copyright (c) ${new Date().getUTCFullYear()} alice\n`)
  t.match(text, /^MIT License\n/)
  t.equal(await fileOf('licensed', 'README.md'), '# licensed\n\nWords\n')
  t.equal((await call('GET', '/repos/alice/licensed/commits')).json.length, 1)

  t.equal((await create('only-license', { license: 'Apache-2.0' })).status, 201)
  t.same(await filesOf('only-license'), ['LICENSE'], 'it is not ignored without auto_init')

  for (const license of ['No-Such-License', '../package', 'MIT/../MIT', 'x'.repeat(101), '.']) {
    const { status, json } = await create('unlicensed', { auto_init: true, license })
    t.equal(status, 422, license)
    t.match(json.message, /^license: /)
  }
  t.equal((await call('GET', '/repos/alice/unlicensed')).status, 404, 'nothing is made')
})

t.test('issue_labels: Default are the labels of that name in Gitea', async (t) => {
  t.equal((await create('labeled', { issue_labels: 'Default' })).status, 201)
  const { json } = await call('GET', '/repos/alice/labeled/labels')
  const rows = json.map(({ name, color }: { name: string; color: string }) => `${name} ${color}`)
  t.same(rows.sort(), [
    'bug ee0701',
    'duplicate cccccc',
    'enhancement 84b6eb',
    'help wanted 128a0c',
    'invalid e6e6e6',
    'question cc317c',
    'wontfix ffffff',
  ])
  t.ok((await call('GET', '/repos/alice/labeled')).json.empty, 'labels alone need no commit')
})

t.test('a retried request makes the labels and the first commit once', async (t) => {
  const body = JSON.stringify({ name: 'twice', auto_init: true, license: 'ISC', issue_labels: 'Default' })
  const send = async () => {
    const headers = { 'idempotency-key': 'twice' }
    return (await server.fetch('alice', '/api/v1/user/repos', { method: 'POST', body, headers })).status
  }
  t.same([await send(), await send()], [201, 201])
  t.equal((await call('GET', '/repos/alice/twice/labels')).json.length, 7)
  t.equal((await call('GET', '/repos/alice/twice/commits')).json.length, 1)
})

t.test('default values that clients send are accepted and take effect', async (t) => {
  const terraform = {
    auto_init: true,
    default_branch: 'main',
    description: '',
    gitignores: '',
    issue_labels: 'Default',
    license: '',
    private: true,
    readme: '',
  }
  t.equal((await create('terraform', terraform)).status, 201)
  t.same(await filesOf('terraform'), ['README.md'])
  const tea = {
    auto_init: false,
    gitignores: '',
    issue_labels: '',
    license: '',
    object_format_name: '',
    readme: '',
    trust_model: '',
  }
  t.equal((await create('tea', tea)).status, 201)
  t.ok((await call('GET', '/repos/alice/tea')).json.empty)
  const words = { readme: 'Default', trust_model: 'default', object_format_name: 'sha1', gitignores: null }
  t.match(await create('words', words), { status: 201, json: { object_format_name: 'sha1' } })
  t.same(await filesOf('words'), ['README.md'])
})

t.test('no field of a new repository is silently ignored: other values are 422 by name', async (t) => {
  const bad = {
    object_format_name: 'sha256',
    trust_model: 'committer',
    gitignores: 'Go',
    issue_labels: 'Advanced',
    readme: 'Long',
    license: 'None',
  }
  const before = await server.services.events.lastPosition()
  for (const [field, value] of Object.entries(bad)) {
    const { status, json } = await create('refused', { [field]: value })
    t.equal(status, 422, field)
    t.match(json.errors, [new RegExp(`^${field}: `)])
  }
  t.same(await server.services.events.lastPosition(), before, 'nothing is made')
})

t.test("a repository's website refuses javascript: like a user's does", async (t) => {
  await create('site', {})
  for (const website of ['javascript:alert(1)', 'data:text/html,x', 'file:///etc/passwd', 'x']) {
    const { status, json } = await call('PATCH', '/repos/alice/site', { website, description: 'changed' })
    t.equal(status, 422, website)
    t.match(json.errors, [/^website: /])
  }
  t.match((await call('GET', '/repos/alice/site')).json, { website: '', description: '' })
  for (const website of ['https://example.org/x', '']) {
    t.match(await call('PATCH', '/repos/alice/site', { website }), { status: 200, json: { website } })
  }
})
