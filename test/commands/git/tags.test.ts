import type { Tag } from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { TagWire } from '../../../src/api/tags/tags.ts'
import { recordedRefs } from '../../../src/commands/git/recorded-refs.ts'
import { withRefLock } from '../../../src/commands/git/ref-lock.ts'
import { looseObjects } from '../../../src/git/repository/object-counts.ts'
import { reconcileRefs } from '../../../src/processes/recovery.ts'
import { gitDirOf } from '../../../src/services/services.ts'
import { GIT_ENVIRONMENT } from '../../git-client.ts'
import { clockOf } from '../../set-clock.ts'
import { statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

/** Compiles only if Gitea's client knows the name of every field. */
type Known<Wire, Theirs> = Exclude<keyof Wire, keyof Theirs> extends never ? true : never
export const knownToClients: Known<Static<typeof TagWire>, Tag> = true

const { server, alice, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
const post = async (path: string, body: object, headers = {}) => {
  const answer = await server.fetch('alice', `/api/v1/repos/alice/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  return { status: answer.status, body: await answer.json() }
}

t.test(
  'a branch is made from a branch, a tag, a commit or the default branch, and a push is in order after it',
  async (t) => {
    const { repoId, branch, tip } = await repository(t, 'branches')
    const topic = await branch('topic', { a: 'a' })
    const main = await tip('main')
    const make = async (new_branch_name: string, old_ref_name = '') =>
      (await alice.repos.repoCreateBranch('alice', 'branches', { new_branch_name, old_ref_name })).data
    t.match(await make('of/default'), {
      name: 'of/default',
      commit: { id: main },
      protected: false,
    })
    t.match(await make('of/branch', 'topic'), { commit: { id: topic } })
    t.match(await make('of/commit', topic), { commit: { id: topic } })
    await alice.repos.repoCreateTag('alice', 'branches', { tag_name: 'v1', target: 'topic' })
    t.match(await make('of/tag', 'v1'), { commit: { id: topic, message: 'Commit on topic\n' } })
    t.equal(await tip('of/tag'), topic)
    t.match((await alice.repos.repoGetBranch('alice', 'branches', 'of/tag')).data, { commit: { id: topic } })
    t.equal(
      (await post('branches/branches', { new_branch_name: 'older', old_branch_name: 'topic' })).status,
      201,
    )

    for (const [body, status] of [
      [{ new_branch_name: 'topic' }, 409],
      [{ new_branch_name: 'of' }, 409],
      [{ new_branch_name: 'topic/below' }, 409],
      [{ new_branch_name: 'v1' }, 409],
      [{ new_branch_name: 'a..b' }, 422],
      [{ new_branch_name: '' }, 422],
      [{}, 422],
      [{ new_branch_name: 'x', old_ref_name: 'nowhere' }, 404],
      [{ new_branch_name: 'x', old_ref_name: '../../etc' }, 404],
    ] as const) {
      t.equal((await post('branches/branches', body)).status, status, JSON.stringify(body))
    }
    const key = { 'idempotency-key': 'one' }
    t.equal((await post('branches/branches', { new_branch_name: 'once' }, key)).status, 201)
    t.equal((await post('branches/branches', { new_branch_name: 'once' }, key)).status, 201, 'retried')
    t.equal((await post('branches/branches', { new_branch_name: 'once' })).status, 409)
    t.equal((await post('branches/branches', { new_branch_name: 'other' }, key)).status, 422, 'another body')
    t.equal(await tip('other'), undefined)
    await alice.repos.repoDeleteBranch('alice', 'branches', 'once')
    t.equal(
      (await post('branches/branches', { new_branch_name: 'once' }, key)).status,
      201,
      'the first answer',
    )
    t.equal(await tip('once'), undefined, 'what was deleted since is not made again')
    t.equal(await reconcileRefs(server.services, repoId), 0, 'git and the log agree')

    await alice.repos.repoCreateBranchProtection('alice', 'branches', { rule_name: 'release/*' })
    t.equal((await post('branches/branches', { new_branch_name: 'release/1' })).status, 403)
    t.equal(await tip('release/1'), undefined)
    t.equal(await reconcileRefs(server.services, repoId), 0, 'git and the log agree')
  },
)

t.test('tags are made with and without a message, listed newest first, and deleted', async (t) => {
  const { repoId, work, branch, push, tip } = await repository(t, 'tags')
  const topic = await branch('topic', { a: 'a' })
  const { data: light } = await alice.repos.repoCreateTag('alice', 'tags', {
    tag_name: 'light',
    target: topic,
  })
  const api = `${server.url}/api/v1/repos/alice/tags/git`
  t.match(light, {
    name: 'light',
    id: topic,
    message: 'Commit on topic',
    commit: { sha: topic, url: `${api}/commits/${topic}` },
    zipball_url: `${server.url}/alice/tags/archive/light.zip`,
    tarball_url: `${server.url}/alice/tags/archive/light.tar.gz`,
  })
  const { data: heavy } = await alice.repos.repoCreateTag('alice', 'tags', {
    tag_name: 'rel/v1',
    message: 'One\n\nThe first — ever',
  })
  t.match(heavy, { name: 'rel/v1', message: 'One\n\nThe first — ever', commit: { sha: await tip('main') } })
  t.not(heavy.id, heavy.commit?.sha)
  t.equal(await tip('refs/tags/rel/v1'), heavy.id)
  await work.git('fetch', '-q', 'origin', 'tag', 'rel/v1')
  t.match(await work.git('cat-file', 'tag', 'rel/v1'), /tagger alice <.*noreply.*>/)
  t.strictSame((await alice.repos.repoGetTag('alice', 'tags', 'rel/v1')).data, heavy)

  await work.gitWith(
    { ...GIT_ENVIRONMENT, GIT_COMMITTER_DATE: '2001-01-01T00:00:00Z' },
    'tag',
    '-a',
    '-m',
    'Old',
    'old',
    'topic',
  )
  await push('refs/tags/old:refs/tags/old')
  const names = async (query = {}) =>
    (await alice.repos.repoListTags('alice', 'tags', query)).data.map(({ name }) => name)
  t.equal((await names()).at(-1), 'old', 'by the time of the tagger')
  t.same(new Set(await names()), new Set(['light', 'rel/v1', 'old']))
  t.strictSame(await names({ limit: 1, page: 3 }), ['old'])

  for (const [body, status] of [
    [{ tag_name: 'light' }, 409],
    [{ tag_name: 'light/below' }, 409],
    [{ tag_name: 'a b' }, 422],
    [{ tag_name: 'x', message: 'nul \0' }, 422],
    [{ tag_name: 'x', target: 'nowhere' }, 404],
  ] as const) {
    t.equal((await post('tags/tags', body)).status, status, JSON.stringify(body))
  }
  const key = { 'idempotency-key': 'one' }
  const first = await post('tags/tags', { tag_name: 'once', message: 'm' }, key)
  t.strictSame((await post('tags/tags', { tag_name: 'once', message: 'm' }, key)).body, first.body, 'retried')
  t.equal((await post('tags/tags', { tag_name: 'other', message: 'm' }, key)).status, 422, 'another body')

  t.equal(await statusOf(alice.repos.repoDeleteTag('alice', 'tags', 'rel/v1')), 204)
  t.equal(await statusOf(alice.repos.repoGetTag('alice', 'tags', 'rel/v1')), 404)
  t.equal(await statusOf(alice.repos.repoDeleteTag('alice', 'tags', 'rel/v1')), 404)
  const { refs } = await recordedRefs(server.services, repoId)
  t.equal(refs.has('refs/tags/rel/v1'), false)
  t.equal(await reconcileRefs(server.services, repoId), 0, 'git and the log agree')
})

t.test('two attempts at the same time make one tag, and both answer with it', async (t) => {
  const setClock = clockOf(t)
  const { repoId } = await repository(t, 'twins')
  const { services } = server
  const dir = gitDirOf(services, repoId)
  let letGo = () => {}
  const held = withRefLock(services, repoId, () => new Promise<void>((resolve) => (letGo = resolve)))
  const attempt = async (ms: number) => {
    const objects = await looseObjects(dir)
    setClock(ms)
    const answer = post('twins/tags', { tag_name: 'v1', message: 'm' }, { 'idempotency-key': 'v1' })
    await until('its object is written', async () => (await looseObjects(dir)) > objects)
    return { answer }
  }
  const attempts = [await attempt(0), await attempt(5000)]
  letGo()
  await held
  const [one, other] = await Promise.all(attempts.map(({ answer }) => answer))
  t.equal(one?.status, 201)
  t.strictSame(one, other)
})

t.test(
  'only users whom its protection names control a protected tag, by push and API, admins included',
  async (t) => {
    const { repoId, work, branch, tip, call } = await repository(t, 'guarded', { writers: ['bob'] })
    await branch('topic', { a: 'a' })
    const made = await alice.repos.repoCreateTagProtection('alice', 'guarded', {
      name_pattern: 'v*',
      whitelist_usernames: ['bob'],
    })
    const id = made.data.id ?? 0
    t.match(made.data, { name_pattern: 'v*', whitelist_usernames: ['bob'], whitelist_teams: [] })
    t.strictSame((await alice.repos.repoListTagProtection('alice', 'guarded')).data, [made.data])
    t.strictSame((await alice.repos.repoGetTagProtection('alice', 'guarded', id)).data, made.data)

    t.equal((await call('alice', 'POST', 'tags', { tag_name: 'v1/x' })).status, 422)
    t.equal((await call('bob', 'POST', 'tags', { tag_name: 'v1/x' })).status, 201)
    t.equal((await call('alice', 'DELETE', 'tags/v1/x')).status, 422)
    await work.git('tag', 'v2', 'topic')
    await work.git('tag', 'free', 'topic')
    const url = (login: string) => server.gitUrl(login, 'alice/guarded')
    await t.rejects(work.git('push', '-q', url('alice'), 'v2', 'free'), /the tag is protected/)
    t.equal(await tip('refs/tags/v2'), undefined)
    t.ok(await tip('refs/tags/free'), 'the other tag came')
    await work.git('push', '-q', url('bob'), 'v2')
    t.ok(await tip('refs/tags/v2'))
    await t.rejects(work.git('push', '-q', url('alice'), ':v2'), /the tag is protected/)

    for (const [body, status] of [
      [{ name_pattern: ' ', whitelist_usernames: ['bob'] }, 400],
      [{ name_pattern: 'x', whitelist_usernames: [] }, 400],
      [{ name_pattern: 'v*', whitelist_usernames: ['bob'] }, 403],
      [{ name_pattern: 'x', whitelist_usernames: ['nobody'] }, 422],
      [{ name_pattern: 'x', whitelist_usernames: ['bob'], whitelist_teams: ['t'] }, 422],
      [{ name_pattern: '/^v(/', whitelist_usernames: ['bob'] }, 422],
    ] as const) {
      t.equal((await call('alice', 'POST', 'tag_protections', body)).status, status, JSON.stringify(body))
    }
    t.match(
      (await alice.repos.repoEditTagProtection('alice', 'guarded', id, { whitelist_usernames: ['alice'] }))
        .data,
      { name_pattern: 'v*', whitelist_usernames: ['alice'] },
    )
    t.equal((await call('alice', 'DELETE', 'tags/v2')).status, 204)
    t.equal(await statusOf(alice.repos.repoDeleteTagProtection('alice', 'guarded', id)), 204)
    t.equal(await statusOf(alice.repos.repoGetTagProtection('alice', 'guarded', id)), 404)
    t.equal((await call('bob', 'GET', 'tag_protections')).status, 403)
    t.equal(await reconcileRefs(server.services, repoId), 0)
  },
)

t.test('a tag of a tree or blob has the time of its creation, in whole seconds like all times', async (t) => {
  const { work, branch } = await repository(t, 'of-files')
  await branch('topic', { a: 'a' })
  await work.git('tag', 'directory', 'topic^{tree}')
  await work.git('tag', 'file', 'topic:a')
  await work.git('push', '-q', server.gitUrl('alice', 'alice/of-files'), 'directory', 'file')
  for (const { name, commit } of (await alice.repos.repoListTags('alice', 'of-files')).data) {
    t.match(commit?.created, /T\d\d:\d\d:\d\dZ$/, name ?? '')
  }
})

t.test('a branch is renamed in one event, unless the name cannot be its name', async (t) => {
  const { repoId, branch, tip, call, open, protect } = await repository(t, 'renamed')
  const sha = await branch('topic', { a: 'a' })
  const rename = (from: string, name: string) => call('alice', 'PATCH', `branches/${from}`, { name })
  t.equal((await rename('topic', 'deep/other')).status, 204)
  t.strictSame([await tip('topic'), await tip('deep/other')], [undefined, sha])
  t.equal((await call('alice', 'GET', 'branches/topic')).status, 404)
  t.equal((await call('alice', 'GET', 'branches/deep/other')).body.commit.id, sha)
  const { body } = await call('alice', 'GET', 'history?type=RefsUpdated')
  t.match(body.at(-1).data, { cause: 'branch-rename', refs: [{ to: null }, { to: sha }] })

  await branch('busy', { b: 'b' })
  await open('busy')
  await branch('guarded', { c: 'c' })
  await protect('guarded', {})
  await protect('release/*', {})
  for (const [from, name, status] of [
    ['gone', 'x', 404],
    ['deep/other', 'busy', 422],
    ['deep/other', 'deep/other', 422],
    ['deep/other', 'deep', 422],
    ['deep/other', 'a..b', 422],
    ['deep/other', 'release/1', 403],
    ['guarded', 'busy', 422],
  ] as const) {
    t.equal((await rename(from, name)).status, status, `${from} to ${name}`)
  }
  t.equal(await tip('deep/other'), sha)
  t.equal(await reconcileRefs(server.services, repoId), 0, 'git and the log agree')
})
