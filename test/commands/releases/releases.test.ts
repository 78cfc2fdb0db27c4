import { randomUUID } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { removeOrphans } from '../../../src/processes/attachments/attachment-removal.ts'
import { openAttachmentFiles } from '../../../src/storage/attachments/files.ts'
import { GIT_ENVIRONMENT } from '../../git-client.ts'
import { hostedWork } from '../../hosted-work.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'
import { isStored, storedFiles } from '../attachments/setup.ts'

const server = await startTestServer(t, { LOG_LEVEL: 'fatal' })
const [alice, bob, carol] = await Promise.all([server.as('alice'), server.as('bob'), server.as('carol')])

/** A repository of alice's with a branch `topic`, in which carol writes; bob reads it when it is public. */
async function released(name: string, options: { private?: boolean } = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
  await alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'write' })
  const repoId = data.id ?? 0
  const work = await hostedWork(t, server, { login: 'alice', repoId, fullName: `alice/${name}` })
  const topic = await work.branch('topic', { topic: 'topic' })
  const events = async () => {
    const found: { type: string; stream: string; data: object }[] = []
    for await (const { type, stream, data } of server.services.events.readAll())
      if ('repoId' in data && data.repoId === repoId) found.push({ type, stream, data })
    return found
  }
  return { repoId, work, topic, events }
}
const json = async (login: string | null, path: string, init: RequestInit = {}) => {
  const answer = await server.fetch(login, path, init)
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
}
const tagsOf = (all: { tag_name?: string }[]) => all.map(({ tag_name }) => tag_name)

t.test('a release creates a missing tag, at target_commitish', async (t) => {
  const { work, topic, events } = await released('one')
  const { data, status } = await carol.repos.repoCreateRelease('alice', 'one', {
    ...{ tag_name: 'v1.0.0', target_commitish: 'topic', name: 'First', body: 'All new' },
  })
  t.equal(status, 201)
  const page = `${server.url}/alice/one`
  const url = `${server.url}/api/v1/repos/alice/one/releases/${data.id}`
  t.match(data, {
    ...{ tag_name: 'v1.0.0', target_commitish: 'topic', name: 'First', body: 'All new' },
    ...{ draft: false, prerelease: false, assets: [], author: { login: 'carol' } },
    ...{ url, html_url: `${page}/releases/tag/v1.0.0`, upload_url: `${url}/assets` },
    ...{ tarball_url: `${page}/archive/v1.0.0.tar.gz`, zipball_url: `${page}/archive/v1.0.0.zip` },
    ...{ created_at: /Z$/, published_at: /Z$/ },
  })
  t.equal(await work.tip('refs/tags/v1.0.0'), topic)
  const types = (await events()).map(({ type }) => type)
  t.same(types.slice(types.lastIndexOf('RefsUpdated')), ['RefsUpdated', 'ReleaseCreated'])
  const id = data.id ?? 0
  t.same((await bob.repos.repoGetRelease('alice', 'one', id)).data, data)
  t.same((await bob.repos.repoGetReleaseByTag('alice', 'one', 'v1.0.0')).data, data)
  t.same((await bob.repos.repoGetLatestRelease('alice', 'one')).data, data)

  const again = alice.repos.repoCreateRelease('alice', 'one', { tag_name: 'v1.0.0' })
  t.equal(await statusOf(again), 409, 'a tag has one release')
  const create = (option: object) =>
    json('carol', '/api/v1/repos/alice/one/releases', { method: 'POST', body: JSON.stringify(option) })
  const before = (await events()).length
  t.equal((await create({ tag_name: 'v2', target_commitish: 'nothing' })).status, 404, 'no such target')
  for (const tag_name of ['', 'a b', '-x', 'x..y', 'refs/heads/~']) {
    t.equal((await create({ tag_name })).status, 422, tag_name)
  }
  t.equal((await create({})).status, 422)
  t.equal((await create({ tag_name: 'v1.0.0/x' })).status, 409, 'git cannot have both')
  t.equal((await create({ tag_name: 'v9', name: 'x'.repeat(256) })).status, 422)
  t.equal((await create({ tag_name: 'v9', hide_archive_links: true })).status, 422, 'refused, not ignored')
  t.equal((await create({ tag_name: 'v9', external_url: 'https://example.org/' })).status, 422)
  t.equal((await events()).length, before, 'what is refused changes nothing')
  t.equal(
    (await create({ tag_name: 'v2', tag_message: 'Signed off', hide_archive_links: false })).status,
    201,
    'its tag is free again',
  )
  t.equal(
    await work.work
      .git('ls-remote', server.gitUrl('alice', 'alice/one'), 'v2^{}')
      .then((out) => out.length > 40),
    true,
  )
})

t.test('an empty repository has no releases', async (t) => {
  await alice.user.createCurrentUserRepo({ name: 'empty' })
  t.equal(await statusOf(alice.repos.repoCreateRelease('alice', 'empty', { tag_name: 'v1' })), 422)
})

t.test('only writers see drafts, also in the history', async (t) => {
  const { work, topic } = await released('drafts')
  const { data } = await alice.repos.repoCreateRelease('alice', 'drafts', {
    ...{ tag_name: 'v1', target_commitish: 'topic', body: 'secret plans', draft: true },
  })
  const id = data.id ?? 0
  t.equal(data.published_at, null)
  t.equal(await work.tip('refs/tags/v1'), undefined, 'a draft makes no tag')
  t.equal((await carol.repos.repoGetRelease('alice', 'drafts', id)).status, 200)
  for (const client of [bob, server.anonymous]) {
    t.equal(await statusOf(client.repos.repoGetRelease('alice', 'drafts', id)), 404)
    t.equal(await statusOf(client.repos.repoGetReleaseByTag('alice', 'drafts', 'v1')), 404)
    t.equal(await statusOf(client.repos.repoGetLatestRelease('alice', 'drafts')), 404)
    t.equal(await statusOf(client.repos.repoListReleaseAttachments('alice', 'drafts', id)), 404)
    t.same((await client.repos.repoListReleases('alice', 'drafts')).data, [])
    t.same((await client.repos.repoListReleases('alice', 'drafts', { draft: true })).data, [])
  }
  t.equal((await carol.repos.repoListReleases('alice', 'drafts')).data.length, 1)
  t.same((await carol.repos.repoListReleases('alice', 'drafts', { draft: false })).data, [])
  const form = { attachment: new File(['x'], 'plan.txt') }
  const { data: asset } = await alice.repos.repoCreateReleaseAttachment('alice', 'drafts', id, form)
  const download = async (login: string | null) =>
    (await server.fetch(login, `/attachments/${asset.uuid}`)).status
  t.same([await download('bob'), await download(null), await download('carol')], [404, 404, 200])
  t.equal((await server.fetch('bob', '/alice/drafts/releases/download/v1/plan.txt')).status, 404)

  const historyOf = async (login: string, query = '') =>
    await (await server.fetch(login, `/api/v1/repos/alice/drafts/history${query}`)).text()
  for (const query of ['', '?type=ReleaseCreated', '?type=ReleaseCreated,RefsUpdated']) {
    t.notMatch(await historyOf('bob', query), 'secret plans', query)
    t.match(await historyOf('alice', query), 'secret plans', query)
  }
  const published = await alice.repos.repoEditRelease('alice', 'drafts', id, { draft: false })
  t.match(published.data, {
    draft: false,
    published_at: /Z$/,
    body: 'secret plans',
    assets: [{ name: 'plan.txt' }],
  })
  t.equal(await work.tip('refs/tags/v1'), topic, 'the tag is made when it is published')
  t.equal(await download('bob'), 200)
  t.equal((await bob.repos.repoGetLatestRelease('alice', 'drafts')).data.id, id)
  t.match(await historyOf('bob'), '"type":"ReleaseEdited"')
})

t.test('the latest is the newest that is neither draft nor prerelease; lists filter and page', async (t) => {
  const { work } = await released('many')
  const create = async (tag_name: string, more: object = {}) =>
    (await alice.repos.repoCreateRelease('alice', 'many', { tag_name, ...more })).data
  await create('v1.0', { name: 'Stable apple' })
  await create('v2.0')
  await create('v3.0-rc1', { prerelease: true, name: 'Preview' })
  await create('v4.0', { draft: true })
  // A tag pushed before: the release is as old as its commit.
  await work.work.gitWith(
    { ...GIT_ENVIRONMENT, GIT_COMMITTER_DATE: '2001-01-01T00:00:00Z' },
    'commit',
    '--allow-empty',
    '-qm',
    'Old',
  )
  await work.push('HEAD:refs/tags/v0.1')
  const old = await create('v0.1')
  t.equal(old.created_at, '2001-01-01T00:00:00Z')
  t.equal((await bob.repos.repoGetLatestRelease('alice', 'many')).data.tag_name, 'v2.0')
  const { data: repository } = await bob.repos.repoGet('alice', 'many')
  t.match(repository, { has_releases: true, release_counter: 4 }, 'drafts do not count')
  const list = async (query: object, client = alice) =>
    tagsOf((await client.repos.repoListReleases('alice', 'many', query)).data)
  t.same(await list({}), ['v4.0', 'v3.0-rc1', 'v2.0', 'v1.0', 'v0.1'])
  t.same(await list({}, bob), ['v3.0-rc1', 'v2.0', 'v1.0', 'v0.1'])
  t.same(await list({ 'pre-release': true }), ['v3.0-rc1'])
  t.same(await list({ 'pre-release': false }, bob), ['v2.0', 'v1.0', 'v0.1'])
  t.same(await list({ draft: true }), ['v4.0'])
  t.same(await list({ q: 'apple' }), ['v1.0'])
  t.same(await list({ q: '🎉' }), [], 'a keyword of signs alone is matched by nothing')
  t.same(await list({ limit: 2, page: 2 }), ['v2.0', 'v1.0'])
  const answer = await bob.repos.repoListReleases('alice', 'many', { limit: 1 })
  t.equal(answer.headers.get('x-total-count'), '4')
})

t.test('an edit changes what it names; another tag may be taken when it has no release', async (t) => {
  const { work } = await released('edits')
  const { data } = await alice.repos.repoCreateRelease('alice', 'edits', { tag_name: 'v1', name: 'One' })
  await alice.repos.repoCreateRelease('alice', 'edits', { tag_name: 'v2' })
  const id = data.id ?? 0
  const edit = async (body: object) => (await alice.repos.repoEditRelease('alice', 'edits', id, body)).data
  t.match(await edit({ name: '', body: 'notes', tag_name: '' }), {
    name: 'One',
    body: 'notes',
    tag_name: 'v1',
  })
  t.equal(await statusOf(alice.repos.repoEditRelease('alice', 'edits', id, { tag_name: 'v2' })), 409)
  t.match(await edit({ tag_name: 'team/v3', prerelease: true }), { tag_name: 'team/v3', prerelease: true })
  t.ok(await work.tip('refs/tags/team/v3'))
  t.equal(
    (await alice.repos.repoCreateRelease('alice', 'edits', { tag_name: 'v1' })).status,
    201,
    'v1 is free',
  )
  const slashed = await json('bob', '/api/v1/repos/alice/edits/releases/tags/team/v3')
  t.equal(slashed.body.id, id)
  t.equal((await json('bob', '/api/v1/repos/alice/edits/releases/tags/team%2Fv3')).body.id, id)
  const before = await server.services.events.lastPosition()
  await edit({ body: 'notes' })
  t.equal(await server.services.events.lastPosition(), before, 'without a change no event')
  t.equal(await statusOf(bob.repos.repoEditRelease('alice', 'edits', id, { body: 'x' })), 403)
})

t.test('a release whose tag is deleted becomes a draft, until it is published again', async (t) => {
  const { work, topic } = await released('untagged')
  await alice.repos.repoCreateRelease('alice', 'untagged', { tag_name: 'v0', target_commitish: 'topic' })
  const { data } = await alice.repos.repoCreateRelease('alice', 'untagged', {
    ...{ tag_name: 'v1', target_commitish: 'topic' },
  })
  const id = data.id ?? 0
  t.equal(
    await statusOf(alice.repos.repoDeleteTag('alice', 'untagged', 'v1')),
    409,
    'over the API, as in Gitea',
  )
  await work.push(':refs/tags/v1')
  await until('it is a draft', async () => {
    return (await alice.repos.repoGetRelease('alice', 'untagged', id)).data.draft === true
  })
  t.equal(await statusOf(bob.repos.repoGetRelease('alice', 'untagged', id)), 404)
  t.equal((await bob.repos.repoGetLatestRelease('alice', 'untagged')).data.tag_name, 'v0')
  t.equal((await bob.repos.repoGet('alice', 'untagged')).data.release_counter, 1)
  await alice.repos.repoEditRelease('alice', 'untagged', id, { draft: false })
  t.equal(await work.tip('refs/tags/v1'), topic)
  t.equal((await bob.repos.repoGetLatestRelease('alice', 'untagged')).data.id, id)
})

t.test('deleting a release keeps its tag and removes its files', async (t) => {
  const { work } = await released('deletes')
  const create = async (tag_name: string) => {
    const { data } = await alice.repos.repoCreateRelease('alice', 'deletes', { tag_name })
    const form = { attachment: new File(['x'], 'a.bin') }
    const file = (await alice.repos.repoCreateReleaseAttachment('alice', 'deletes', data.id ?? 0, form)).data
    return { id: data.id ?? 0, uuid: file.uuid ?? '' }
  }
  const [one, two, three] = [await create('v1'), await create('v2'), await create('v3')]
  t.equal(await statusOf(bob.repos.repoDeleteRelease('alice', 'deletes', one.id)), 403)
  t.equal((await carol.repos.repoDeleteRelease('alice', 'deletes', one.id)).status, 204)
  t.equal((await carol.repos.repoDeleteReleaseByTag('alice', 'deletes', 'v2')).status, 204)
  t.equal(await statusOf(alice.repos.repoDeleteRelease('alice', 'deletes', one.id)), 404)
  t.ok(await work.tip('refs/tags/v1'))
  t.notOk((await isStored(server, one.uuid)) || (await isStored(server, two.uuid)))
  t.equal((await server.fetch('alice', `/attachments/${one.uuid}`)).status, 404)
  t.equal((await alice.repos.repoCreateRelease('alice', 'deletes', { tag_name: 'v1' })).status, 201)
  await alice.repos.repoDelete('alice', 'deletes')
  t.equal((await server.fetch('admin', `/attachments/${three.uuid}`)).status, 404)
  await until('its files are gone', async () => !(await isStored(server, three.uuid)))
})

t.test('files are uploaded by form or as the body, of any type, many at once', async (t) => {
  await released('files')
  const { data } = await alice.repos.repoCreateRelease('alice', 'files', { tag_name: 'v1' })
  const id = data.id ?? 0
  const path = `/api/v1/repos/alice/files/releases/${id}/assets`
  const post = (login: string | null, query: string, init: RequestInit) =>
    json(login, `${path}${query}`, { method: 'POST', ...init })
  const binary = Buffer.from('\x7fELF not really')
  const headers = { 'content-type': 'application/octet-stream' }
  const raw = await post('carol', '?name=tool-linux', { headers, body: binary })
  t.equal(raw.status, 201)
  t.match(raw.body, {
    name: 'tool-linux',
    size: binary.length,
    browser_download_url: `${server.url}/attachments/${raw.body.uuid}`,
  })
  const json1 = await post('carol', '?name=facts.json', {
    headers: { 'content-type': 'application/json' },
    body: '{"a":1}',
  })
  t.equal(json1.body.size, 7, 'a body of JSON is a file, too')
  const form = new FormData()
  form.append('attachment', new Blob(['exe']), 'tool.exe')
  t.match((await post('alice', '', { body: form })).body, { name: 'tool.exe', size: 3 })
  t.equal((await post('alice', '', { headers, body: binary })).status, 400, 'a raw body needs a name')
  t.equal((await post('bob', '?name=x', { headers, body: binary })).status, 403)
  t.equal((await post(null, '?name=x', { headers, body: binary })).status, 401)
  const many = await Promise.all(
    Array.from({ length: 8 }, (_, i) => post('alice', `?name=part${i}`, { headers, body: `${i}` })),
  )
  t.ok(many.every(({ status }) => status === 201))
  const { data: list } = await bob.repos.repoListReleaseAttachments('alice', 'files', id)
  t.equal(list.length, 11)
  t.equal((await storedFiles(server)).includes(raw.body.uuid), true)

  const file = await server.fetch('bob', '/alice/files/releases/download/v1/tool-linux')
  t.equal(file.status, 200)
  t.same(Buffer.from(await file.arrayBuffer()), binary)
  t.match(file.headers.get('content-disposition'), 'attachment')
  t.equal((await server.fetch(null, `/attachments/${raw.body.uuid}`)).status, 200)
  t.equal((await server.fetch(null, '/alice/files/releases/download/v1/nothing')).status, 404)
  t.equal((await server.fetch(null, '/alice/files/releases/download/nothing')).status, 404)

  const asset = raw.body.id
  t.match((await alice.repos.repoGetReleaseAttachment('alice', 'files', id, asset)).data, {
    name: 'tool-linux',
  })
  const edited = await alice.repos.repoEditReleaseAttachment('alice', 'files', id, asset, { name: 'tool' })
  t.match([edited.status, edited.data.name], [201, 'tool'])
  t.equal((await alice.repos.repoDeleteReleaseAttachment('alice', 'files', id, asset)).status, 204)
  t.equal(await statusOf(alice.repos.repoGetReleaseAttachment('alice', 'files', id, asset)), 404)
  t.notOk(await isStored(server, raw.body.uuid))
})

t.test('a token needs the scope of repositories for the files of a release', async (t) => {
  await released('scopes')
  const { data } = await alice.repos.repoCreateRelease('alice', 'scopes', { tag_name: 'v1' })
  const form = { attachment: new File(['x'], 'a.txt') }
  const { data: file } = await alice.repos.repoCreateReleaseAttachment('alice', 'scopes', data.id ?? 0, form)
  const statusWith = async (scope: string) => {
    const { body } = await json('alice', '/api/v1/users/alice/tokens', {
      method: 'POST',
      body: JSON.stringify({ name: `r-${scope}`, scopes: [scope] }),
    })
    const headers = { authorization: `token ${body.sha1}` }
    return (await server.fetch(null, `/attachments/${file.uuid}`, { headers })).status
  }
  t.same([await statusWith('read:issue'), await statusWith('read:repository')], [403, 200])
})

t.test('a release sent again with its Idempotency-Key is the same release', async (t) => {
  const { events } = await released('again')
  const send = (option: object) =>
    json('alice', '/api/v1/repos/alice/again/releases', {
      method: 'POST',
      headers: { 'Idempotency-Key': 'release-1' },
      body: JSON.stringify(option),
    })
  const first = await send({ tag_name: 'v1' })
  t.equal(first.status, 201)
  const again = await send({ tag_name: 'v1' })
  t.same([again.status, again.body], [201, first.body])
  t.equal((await send({ tag_name: 'v2' })).status, 422)
  t.equal((await events()).filter(({ type }) => type === 'ReleaseCreated').length, 1)
})

t.test('a start keeps the files of releases, and removes files without an event', async (t) => {
  await released('orphans')
  const { data } = await alice.repos.repoCreateRelease('alice', 'orphans', { tag_name: 'v1', draft: true })
  const form = { attachment: new File(['x'], 'a.txt') }
  const { data: file } = await alice.repos.repoCreateReleaseAttachment('alice', 'orphans', data.id ?? 0, form)
  const stray = randomUUID()
  const directory = join(server.dataDir, 'attachments', stray.slice(0, 2))
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, stray), 'stray')
  await removeOrphans({
    ...server.services,
    attachments: await openAttachmentFiles(join(server.dataDir, 'attachments')),
  })
  t.same([await isStored(server, file.uuid ?? ''), await isStored(server, stray)], [true, false])
})
