import t from 'tap'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { statusOf } from '../start-server.ts'
import { until } from '../until.ts'

const { server, alice, bob, repository } = await startPulls(t)

/** An unparsed answer below the API. */
async function get(login: string | null, path: string) {
  const answer = await server.fetch(login, `/api/v1/${path}`)
  return JSON.parse(await answer.text())
}

t.test(
  'repositories carry `ssh_url` (empty), `language`, `languages_url` and `size`, also inside `base.repo`',
  async (t) => {
    const { branch, open, call } = await repository(t, 'fields')
    await branch('topic', { a: 'a' })
    const index = await open('topic')
    const fields = {
      ssh_url: '',
      language: String,
      languages_url: `${server.url}/api/v1/repos/alice/fields/languages`,
    }
    await until('it is measured', async () => (await get(null, 'repos/alice/fields')).size > 0)
    t.match(await get(null, 'repos/alice/fields'), fields)
    const { size } = await get(null, 'repos/alice/fields')
    const inside = { ...fields, size: Number }
    for (const pull of [
      (await call(null, 'GET', `pulls/${index}`)).body,
      (await call(null, 'GET', 'pulls')).body[0],
    ]) {
      t.match(pull, { base: { repo: inside }, head: { repo: inside } })
      t.ok(pull.base.repo.size >= size)
    }
    t.match((await get(null, `repos/alice/fields/commits/topic/status`)).repository, inside)
    t.match(await get('alice', 'users/alice/repos'), [inside])
  },
)

t.test('a fork has its `parent` in lists, too, for those who may read the parent', async (t) => {
  await repository(t, 'base', { writers: ['bob'] })
  await bob.repos.createFork('alice', 'base', { name: 'copy' })
  const parent = { full_name: 'alice/base', parent: null, size: Number }
  const shown = async (login: string | null) => {
    const lists = await Promise.all([
      get(login, 'users/bob/repos'),
      get(login, 'repos/search?q=copy').then(({ data }) => data),
    ])
    return lists.map(([row]) => row)
  }
  for (const login of ['bob', 'dave', null]) {
    for (const row of await shown(login))
      t.match(row, { full_name: 'bob/copy', fork: true, parent }, `${login}`)
  }
  t.match(await get('bob', 'repos/alice/base/forks'), [{ full_name: 'bob/copy', parent }])
  t.equal(await statusOf(alice.repos.repoEdit('alice', 'base', { private: true })), 200)
  t.match(await get('bob', 'user/repos'), [{ full_name: 'bob/copy', parent }, {}], 'a collaborator')
  for (const row of (await shown('dave')).filter((row) => row !== undefined)) {
    t.match(row, { full_name: 'bob/copy', parent: null })
  }
})

t.test(
  '`comments` of a pull request counts reviews, and `review_comments` the comments on lines',
  async (t) => {
    const { branches, open, call, get: pullAt } = await repository(t, 'counted', { writers: ['bob'] })
    await branches('topic')
    const index = await open('topic')
    const counts = async () => {
      const { comments, review_comments } = await pullAt(index)
      const { body } = await call(null, 'GET', 'issues')
      t.equal(body[0].comments, comments, 'the same in the list of issues')
      return [comments, review_comments]
    }
    t.strictSame(await counts(), [0, 0])
    await call('bob', 'POST', `issues/${index}/comments`, { body: 'Hm' })
    const comments = [
      { path: 'topic', body: 'Why?', new_position: 1 },
      { path: 'other', body: 'And this?', new_position: 1 },
    ]
    const { body: draft } = await call('bob', 'POST', `pulls/${index}/reviews`, { body: 'Draft', comments })
    t.strictSame(await counts(), [1, 0], 'a draft is nobody else’s')
    await call('bob', 'POST', `pulls/${index}/reviews/${draft.id}`, { event: 'COMMENT' })
    t.strictSame(await counts(), [2, 2])
    await call('bob', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED' })
    t.strictSame(await counts(), [3, 2])
    t.equal((await call('bob', 'DELETE', `pulls/${index}/reviews/${draft.id}`)).status, 204)
    t.strictSame(await counts(), [2, 0])
  },
)

t.test('`languages` of a repository: the bytes of its default branch, the largest first', async (t) => {
  const { work, commit, push, call } = await repository(t, 'languages')
  const languages = async () => (await call(null, 'GET', 'languages')).text
  t.equal(await languages(), '{}', 'a text is no program')
  await work.git('checkout', '-q', 'main')
  await commit('Programs', {
    'a.sh': '#!/bin/sh\n',
    'src/b.go': 'package b\n// b\n',
    'src/c.go': '',
    'd.json': '{}',
  })
  await push('main')
  t.equal(await languages(), '{"Go":15,"Shell":10}')
  await until('the languages are counted', async () => {
    return (await get(null, 'repos/alice/languages')).language === 'Go'
  })
  t.equal(await languages(), '{"Go":15,"Shell":10}', 'the same from what was counted')
  await push('main:other')
  t.equal((await alice.repos.repoEdit('alice', 'languages', { default_branch: 'other' })).status, 200)
  t.equal(await languages(), '{"Go":15,"Shell":10}')
  const { data: empty } = await alice.user.createCurrentUserRepo({ name: 'no-languages' })
  t.strictSame(await get(null, `repos/${empty.full_name}/languages`), {})
  await repository(t, 'secret-languages', { private: true })
  t.equal((await server.fetch('dave', '/api/v1/repos/alice/secret-languages/languages')).status, 404)
})
