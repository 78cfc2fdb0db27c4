import type {
  AnnotatedTag,
  Commit,
  Compare,
  GitBlobResponse,
  GitEntry,
  GitTreeResponse,
  Note,
  Reference,
} from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { CommitWire } from '../../src/api/contents/commits.ts'
import type {
  AnnotatedTagWire,
  GitBlobWire,
  GitEntryWire,
  GitTreeWire,
  NoteWire,
  ReferenceWire,
} from '../../src/api/contents/git-objects.ts'
import { writeContents } from '../commands/pull-requests/contents.ts'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { GIT_ENVIRONMENT, gitWithInput } from '../git-client.ts'
import { statusOf } from '../start-server.ts'

/** Compiles only if Gitea's client knows the name of every field. */
type Known<Wire, Theirs> = Exclude<keyof Wire, keyof Theirs> extends never ? true : never
export const knownToClients: [
  Known<Static<typeof CommitWire>, Commit>,
  Known<Static<typeof GitTreeWire>, GitTreeResponse>,
  Known<Static<typeof GitEntryWire>, GitEntry>,
  Known<Static<typeof GitBlobWire>, GitBlobResponse>,
  Known<Static<typeof ReferenceWire>, Reference>,
  Known<Static<typeof AnnotatedTagWire>, AnnotatedTag>,
  Known<Static<typeof NoteWire>, Note>,
  Known<{ total_commits: number; commits: unknown }, Compare>,
] = [true, true, true, true, true, true, true, true]

const { server, alice, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
const app = await repository(t, 'app')
const { work, push, branch, tip, call } = app
const at = async (day: number, message: string, files: Record<string, string>) => {
  const date = `2020-01-0${day}T12:00:00Z`
  await work.git('checkout', '-q', 'main')
  await writeContents(work.dir, files)
  await work.git('add', '-A')
  const dates = { GIT_AUTHOR_DATE: date, GIT_COMMITTER_DATE: date }
  await work.gitWith({ ...GIT_ENVIRONMENT, ...dates }, 'commit', '-q', '-m', message)
  return work.git('rev-parse', 'HEAD')
}
const initial = await tip('main')
const first = await at(1, 'First', { 'src/a.txt': 'a\n', 'src/deep/b.txt': 'b\n' })
const second = await at(2, 'Second', { 'src/a.txt': 'a\na\n' })
const third = await at(3, 'Third', { '[odd] *.txt': 'odd\n' })
await push('main')
const topic = await branch('topic/x', { topic: 'topic\n' }, 'main')

const get = async (path: string, login = 'alice') => call(login, 'GET', path)
const shas = (commits: Commit[]) => commits.map(({ sha }) => sha)

t.test('commits are listed from a branch, a tag or a commit, and by path, time and exclusions', async (t) => {
  const list = async (query: object) =>
    shas((await alice.repos.repoGetAllCommits('alice', 'app', query)).data)
  t.strictSame(await list({}), [third, second, first, initial])
  t.strictSame(await list({ sha: 'topic/x', limit: 1 }), [topic])
  t.strictSame(await list({ sha: second }), [second, first, initial])
  t.strictSame(await list({ sha: 'topic/x', not: 'main' }), [topic])
  t.strictSame(await list({ path: 'src' }), [second, first])
  t.strictSame(await list({ path: '/src/deep/' }), [first])
  t.strictSame(await list({ path: '[odd] *.txt' }), [third], 'a path is no pattern')
  const since = (query: string) => get(`commits?${query}`)
  t.strictSame(shas((await since('since=2020-01-02T00:00:00Z&until=2020-01-02T23:00:00Z')).body), [second])
  t.strictSame(shas((await since('until=2020-01-01T12:00:00Z')).body), [first])

  const { headers, body } = await get('commits?page=2&limit=1')
  t.strictSame(shas(body), [second])
  for (const [name, value] of [
    ['x-total-count', '4'],
    ['x-total', '4'],
    ['x-page', '2'],
    ['x-perpage', '1'],
    ['x-pagecount', '4'],
    ['x-hasmore', 'true'],
  ] as const) {
    t.equal(headers.get(name), value, name)
  }
  t.match(headers.get('link') ?? '', /page=3&limit=1>; rel="next".*page=4&limit=1>; rel="last"/)
  t.strictSame((await get('commits?page=99')).body, [])
  t.match((await get('commits?limit=1&stat=false&files=false&verification=false')).body, [
    { stats: null, files: null, commit: { verification: null } },
  ])
  for (const [query, status] of [
    ['path=../../etc/passwd', 422],
    ['path=a%00b', 422],
    ['path=nowhere', 404],
    ['sha=nowhere', 404],
    ['sha=--all', 404],
    ['not=nowhere', 404],
    ['since=yesterday', 422],
  ] as const) {
    t.equal((await get(`commits?${query}`)).status, status, query)
  }
  const { data: empty } = await alice.user.createCurrentUserRepo({ name: 'empty' })
  t.equal(await statusOf(alice.repos.repoGetAllCommits('alice', 'empty')), 409, `${empty.id}`)
})

t.test('a commit is found by its id, a branch or a tag, with its changes as text', async (t) => {
  const { data } = await alice.repos.repoGetSingleCommit('alice', 'app', second)
  t.match(data, {
    sha: second,
    parents: [{ sha: first }],
    stats: { total: 1, additions: 1, deletions: 0 },
    files: [{ filename: 'src/a.txt', status: 'modified' }],
  })
  t.strictSame((await get(`git/commits/${encodeURIComponent('topic/x')}`)).body.sha, topic)
  t.strictSame((await get('commits/topic/x')).body.sha, topic)
  t.strictSame((await get(`commits/${second}`)).body, data)
  for (const path of [`git/commits/${second}.diff`, `commits/${second}.diff`]) {
    const { text, headers } = await get(path)
    t.match(text, /^diff --git a\/src\/a.txt b\/src\/a.txt\n/)
    t.equal(headers.get('content-type'), 'text/plain; charset=utf-8')
    const tag = headers.get('etag') ?? ''
    const again = { headers: { 'if-none-match': tag } }
    t.equal((await server.fetch('alice', `/api/v1/repos/alice/app/${path}`, again)).status, 304)
  }
  t.match((await get(`git/commits/${second}.patch`)).text, /^From .*\n.*\n.*\nSubject: \[PATCH\] Second\n/)
  t.match((await get(`git/commits/${initial}.patch`)).text, /Subject: \[PATCH\] Initial commit\n/)
  t.match((await get(`git/commits/${initial}.diff`)).text, /^diff --git a\/README.md b\/README.md\nnew file/)
  for (const [path, status] of [
    [`git/commits/${'0'.repeat(39)}1`, 404],
    [`git/commits/${'0'.repeat(39)}1.diff`, 404],
    ['git/commits/nowhere', 404],
    ['git/commits/a..b', 422],
    [`git/commits/${encodeURIComponent('a b')}`, 422],
    [`commits/${third}/pull`, 404],
  ] as const) {
    t.equal((await get(path)).status, status, path)
  }

  const index = await app.open('topic/x')
  await app.merge(index)
  const merged = (await app.get(index)).merge_commit_sha ?? ''
  t.equal((await alice.repos.repoGetCommitPullRequest('alice', 'app', merged)).data.number, index)
  t.equal((await get(`commits/${merged}/status`)).body.sha, merged)
  t.strictSame((await get(`commits/${merged}/statuses`)).body, [])
})

t.test('two sides are compared, also those of a fork, only for users who may read both', async (t) => {
  const compare = async (basehead: string) => {
    const { data } = await alice.repos.repoCompareDiff('alice', 'app', basehead)
    return [data.total_commits, shas(data.commits ?? [])]
  }
  t.strictSame(await compare(`${first}...topic/x`), [3, [topic, third, second]])
  t.strictSame(await compare(`${first}..${second}`), [1, [second]])
  t.strictSame(await compare(`${third}...${first}`), [0, []])
  const page = (await get(`compare/${first}...topic/x?limit=1&page=2`)).body
  t.strictSame([page.total_commits, shas(page.commits)], [3, [third]])

  const fork = await app.fork('bob')
  const theirs = await fork.branch('theirs', { theirs: 'theirs\n' })
  t.strictSame((await compare('main...bob:theirs'))[1], [theirs])
  t.strictSame((await compare('main...bob/app:theirs'))[1], [theirs])
  t.strictSame((await compare('main...alice:main'))[0], 0)
  const refs = await get('git/refs')
  t.notOk(refs.text.includes(theirs), 'nothing of the fork came here')
  t.equal((await get(`git/commits/${theirs}`)).status, 404)
  const bob = await server.as('bob')
  await bob.repos.repoEdit('bob', 'app', { private: true })
  for (const path of [
    'main...bob:theirs',
    'main...bob/app:theirs',
    'main...carol:main',
    'main...nowhere',
    'a...main',
  ]) {
    t.equal((await get(`compare/${path}`, 'carol')).status, 404, path)
  }
})

t.test('very large commits are compared in smaller batches, and a page has the rest', async (t) => {
  const count = 20
  const message = 'm'.repeat(1024 * 1024)
  const commits = Array.from({ length: count }, (_, i) => {
    const text = `${i}\n${message}`
    const from = i === 0 ? `from ${first}\n` : ''
    return `commit refs/heads/huge\ncommitter T <t@x> 170000000${i % 10} +0000\ndata ${text.length}\n${text}\n${from}`
  })
  await gitWithInput(work.dir, ['fast-import', '--quiet', '--force'], `${commits.join('\n')}\n`)
  await push('huge')
  const { data } = await alice.repos.repoCompareDiff('alice', 'app', `${first}...huge`)
  t.equal(data.total_commits, count, 'all are counted')
  const listed = shas(data.commits ?? [])
  const all = (await work.git('rev-list', `${first}..huge`)).split('\n')
  t.equal(listed.length, 16, 'so many of 1 MiB fit into 16 MiB')
  t.strictSame(listed, all.slice(0, listed.length), 'the newest ones')
  const rest = (await get(`compare/${first}...huge?limit=10&page=2`)).body
  t.strictSame(shas(rest.commits), all.slice(10))
  await work.git('push', '-q', 'origin', ':huge')
})

t.test('trees are read by page, also recursively', async (t) => {
  const { data } = await alice.repos.getTree('alice', 'app', third)
  const id = await work.git('rev-parse', `${third}^{tree}`)
  const api = `${server.url}/api/v1/repos/alice/app/git`
  const blob = await work.git('rev-parse', `${third}:README.md`)
  t.match(data, { sha: id, url: `${api}/trees/${id}`, truncated: false, page: 1, total_count: 3 })
  t.strictSame(
    data.tree?.find(({ path }) => path === 'README.md'),
    { path: 'README.md', mode: '100644', type: 'blob', size: 6, sha: blob, url: `${api}/blobs/${blob}` },
  )
  t.match(data.tree?.at(-1), { path: 'src', mode: '040000', type: 'tree', size: 0 })
  const all = (await alice.repos.getTree('alice', 'app', id, { recursive: true })).data
  t.strictSame(
    all.tree?.map(({ path, size }) => [path, size]),
    [
      ['README.md', 6],
      ['[odd] *.txt', 4],
      ['src', 0],
      ['src/a.txt', 4],
      ['src/deep', 0],
      ['src/deep/b.txt', 2],
    ],
  )
  const second = (await get(`git/trees/${third}?recursive=1&per_page=4&page=2`)).body
  t.match(second, {
    page: 2,
    total_count: 6,
    truncated: false,
    tree: [{ path: 'src/deep' }, { path: 'src/deep/b.txt' }],
  })
  t.equal((await get(`git/trees/${third}?recursive=1&per_page=4`)).body.truncated, true)
  t.match((await get(`git/trees/${third}?page=9`)).body, { tree: [], truncated: false })
  t.match((await get('git/trees/main')).body, { page: 1 })
  t.equal((await get(`git/trees/${blob}`)).status, 404)
  t.equal((await get('git/trees/nowhere')).status, 404)

  // As git writes it, and as Decap CMS requests it for each folder.
  const below = await work.git('rev-parse', 'main:src/deep')
  for (const path of ['src%2Fdeep', 'src/deep/'.replaceAll('/', '%2F')]) {
    const { body } = await get(`git/trees/main:${path}`)
    t.match(body, { sha: below, url: `${api}/trees/${below}`, tree: [{ path: 'b.txt' }] })
  }
  t.match((await get(`git/trees/${id}:src?recursive=1`)).body.tree, [
    { path: 'a.txt' },
    {},
    { path: 'deep/b.txt' },
  ])
  t.equal((await get(`git/trees/${third}:`)).body.sha, id)
  for (const wrong of [
    'main:README.md',
    'main:nowhere',
    'main:..%2Fsrc',
    'nowhere:src',
    ':src',
    `${blob}:src`,
  ]) {
    t.equal((await get(`git/trees/${wrong}`)).status, 404, wrong)
  }

  const file = (await alice.repos.getBlob('alice', 'app', blob)).data
  t.strictSame(file, {
    content: Buffer.from('# app\n').toString('base64'),
    encoding: 'base64',
    url: `${api}/blobs/${blob}`,
    sha: blob,
    size: 6,
  })
  t.equal((await get(`git/blobs/${id}`)).status, 404)
  t.equal((await get('git/blobs/main')).status, 400)
})

t.test('refs, tag objects and notes are read as git has them', async (t) => {
  const { data: tag } = await alice.repos.repoCreateTag('alice', 'app', { tag_name: 'v1', message: 'One' })
  const names = async (path: string) => (await get(path)).body.map(({ ref }: Reference) => ref)
  t.same(
    new Set(await names('git/refs')),
    new Set(['refs/heads/main', 'refs/heads/topic/x', 'refs/pull/1/head', 'refs/tags/v1']),
  )
  t.strictSame(await names('git/refs/heads/'), ['refs/heads/main', 'refs/heads/topic/x'])
  t.strictSame(await names('git/refs/heads?limit=1&page=2'), ['refs/heads/topic/x'])
  t.strictSame(await names('git/refs/heads/mai'), ['refs/heads/main'], 'not its whole name')
  const api = `${server.url}/api/v1/repos/alice/app/git`
  const { body: only, headers } = await get('git/refs/tags/v1')
  t.strictSame(
    only,
    [
      {
        ref: 'refs/tags/v1',
        url: `${api}/refs/tags/v1`,
        object: { type: 'tag', sha: tag.id, url: `${api}/tags/${tag.id}` },
      },
    ],
    '`GET git/refs/{ref}` is a list also of one',
  )
  t.equal(headers.get('x-total-count'), '1')
  t.equal((await get('git/refs/nothing')).status, 404)
  t.match((await alice.repos.getAnnotatedTag('alice', 'app', tag.id ?? '')).data, {
    tag: 'v1',
    sha: tag.id,
    message: 'One\n',
    tagger: { name: 'alice' },
    object: { type: 'commit', sha: tag.commit?.sha ?? '' },
    verification: { verified: false },
  })
  t.equal((await get(`git/tags/${third}`)).status, 404, 'no tag object')
  t.equal((await get('git/tags/v1')).status, 400)

  t.equal((await get(`git/notes/${third}`)).status, 404)
  await work.gitWith(GIT_ENVIRONMENT, 'notes', 'add', '-m', 'Noted', third)
  await push('refs/notes/commits:refs/notes/commits')
  t.match((await alice.repos.repoGetNote('alice', 'app', third)).data, {
    message: 'Noted\n',
    commit: { sha: await tip('refs/notes/commits') },
  })
  t.equal((await get(`git/notes/${second}`)).status, 404)
})
