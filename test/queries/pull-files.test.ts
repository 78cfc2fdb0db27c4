import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { ChangedFile } from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { ChangedFileWire } from '../../src/api/contents/changed-files.ts'
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import { statusOf } from '../start-server.ts'

/** Compiles only if Gitea's client knows the name and type of every field. */
export const knownToClients: ChangedFile = {} satisfies Partial<Static<typeof ChangedFileWire>>

const { server, alice, repository } = await startPulls(t, { LOG_LEVEL: 'silent' })
const filesOf = async (name: string, index: number, query = {}) =>
  (await alice.repos.repoGetPullRequestFiles('alice', name, index, query)).data
const namesOf = async (name: string, index: number, query = {}) =>
  (await filesOf(name, index, query)).map(({ filename }) => filename)

t.test('pulls.files.1: the diff runs from the merge base to the head', async (t) => {
  const { work, commit, push, open } = await repository(t, 'app')
  const long = 'line\n'.repeat(20)
  await commit('Start', { changed: 'a\n', 'gone/away': 'g\n', old: long, mode: 'm\n' })
  await work.git('checkout', '-q', '-b', 'topic')
  await rm(join(work.dir, 'gone/away'))
  await work.git('mv', 'old', 'new')
  const head = await commit('Topic', {
    changed: 'b\nc\n',
    'dir/ü "#?%.txt': 'new\n',
    binary: Buffer.from([0, 1]),
    mode: { executable: 'm\n' },
  })
  await work.git('checkout', '-q', 'main')
  await commit('Main goes on', { main: 'not in the pull request\n', changed: 'z\n' })
  await push('main', 'topic')
  const index = await open('topic')
  const base = `${server.url}/alice/app`
  const urls = (path: string) => ({
    html_url: `${base}/src/commit/${head}/${path}`,
    contents_url: `${server.url}/api/v1/repos/alice/app/contents/${path}?ref=${head}`,
    raw_url: `${base}/raw/commit/${head}/${path}`,
  })
  const lines = (additions: number, deletions: number) => ({
    additions,
    deletions,
    changes: additions + deletions,
  })
  t.strictSame(await filesOf('app', index), [
    { filename: 'binary', status: 'added', ...lines(0, 0), ...urls('binary') },
    { filename: 'changed', status: 'changed', ...lines(2, 1), ...urls('changed') },
    {
      filename: 'dir/ü "#?%.txt',
      status: 'added',
      ...lines(1, 0),
      ...urls('dir/%C3%BC%20%22%23%3F%25.txt'),
    },
    { filename: 'gone/away', status: 'deleted', ...lines(0, 1), ...urls('gone/away') },
    { filename: 'mode', status: 'unchanged', ...lines(0, 0), ...urls('mode') },
    { filename: 'new', previous_filename: 'old', status: 'renamed', ...lines(0, 0), ...urls('new') },
  ])
})

t.test('pulls.files.2: whitespace and skip-to filter the files; unknown values do nothing', async (t) => {
  const { work, commit, push, open, download } = await repository(t, 'select')
  await commit('Start', { all: 'a b\n', change: 'a b\n', eol: 'a\n', real: 'a\n' })
  await work.git('checkout', '-q', '-b', 'topic')
  await commit('Topic', { all: 'ab\n', change: 'a  b\n', eol: 'a \n', real: 'b\n' })
  await push('main', 'topic')
  const index = await open('topic')
  for (const [whitespace, names] of Object.entries({
    'ignore-all': ['real'],
    'ignore-change': ['all', 'real'],
    'ignore-eol': ['all', 'change', 'real'],
    'show-all': ['all', 'change', 'eol', 'real'],
  })) {
    t.strictSame(await namesOf('select', index, { whitespace }), names, whitespace)
    const answer = await download(`${index}/files?whitespace=${whitespace}`)
    t.equal(answer.headers.get('x-total-count'), `${names.length}`)
    await answer.text()
  }
  for (const whitespace of ['', 'constructor', '--stat', '\0']) {
    t.equal((await namesOf('select', index, { whitespace })).length, 4, JSON.stringify(whitespace))
  }
  const skipTo = (file: string) => namesOf('select', index, { 'skip-to': file })
  t.strictSame(await skipTo('eol'), ['eol', 'real'])
  t.strictSame(await skipTo(''), ['all', 'change', 'eol', 'real'])
  for (const file of ['nowhere', 'eo', '--', '\0', '\n', '../all']) t.strictSame(await skipTo(file), [], file)
})

t.test('api.paging.3: pages of files have four more headers, which browsers may read', async (t) => {
  const { work, commit, push, open, download } = await repository(t, 'pages')
  await work.git('checkout', '-q', '-b', 'topic')
  await commit('Topic', Object.fromEntries(Array.from({ length: 7 }, (_, i) => [`f${i}`, 'x\n'])))
  await push('topic')
  const index = await open('topic')
  const page = async (query: string) => {
    const answer = await download(`${index}/files${query}`)
    const files: { filename: string }[] = JSON.parse(await answer.text())
    const names = ['x-page', 'x-perpage', 'x-pagecount', 'x-hasmore', 'x-total-count']
    const exposed = answer.headers.get('access-control-expose-headers')?.split(', ')
    t.strictSame(exposed, ['X-Total-Count', 'Link', 'X-Page', 'X-PerPage', 'X-PageCount', 'X-HasMore'])
    return {
      files: files.map(({ filename }) => filename),
      headers: names.map((name) => answer.headers.get(name)),
      link: answer.headers.get('link'),
    }
  }
  t.match(await page(''), {
    files: { length: 7 },
    headers: ['1', '30', '1', 'false', '7'],
    link: /rel="first", .*rel="last"/,
  })
  t.match(await page('?limit=3'), { files: ['f0', 'f1', 'f2'], headers: ['1', '3', '3', 'true', '7'] })
  const second = await page('?limit=3&page=2&whitespace=ignore-all')
  t.match(second, { files: ['f3', 'f4', 'f5'], headers: ['2', '3', '3', 'true', '7'] })
  t.match(second.link, /files\?limit=3&page=3&whitespace=ignore-all>; rel="next"/)
  t.match(await page('?limit=3&page=3'), { files: ['f6'], headers: ['3', '3', '3', 'false', '7'] })
  t.match(await page('?limit=3&page=4'), { files: [], headers: ['4', '3', '3', 'false', '7'] })
  t.match(await page('?skip-to=nowhere'), { files: [], headers: ['1', '30', '0', 'false', '0'] })
  t.match(await page('?page=-1&limit=1000'), { headers: ['1', '50', '1', 'false', '7'] })
})

t.test(
  'a merged pull request keeps its files after its branches are deleted; the second answer is cached',
  async (t) => {
    const { work, commit, push, open, dir, download } = await repository(t, 'merged')
    await work.git('checkout', '-q', '-b', 'topic')
    await commit('Topic', { a: 'a\n' })
    await push('topic')
    const index = await open('topic')
    await alice.repos.repoMergePullRequest('alice', 'merged', index, { Do: 'merge' })
    t.equal(await statusOf(alice.repos.repoDeleteBranch('alice', 'merged', 'topic')), 204)
    const before = await filesOf('merged', index)
    t.match(before, [{ filename: 'a', additions: 1 }])
    await rename(dir, `${dir}.away`)
    t.strictSame(await filesOf('merged', index), before, 'no git is needed')
    t.equal(
      (await download(`${index}/files?whitespace=ignore-all`)).status,
      404,
      'an answer that is not cached fails',
    )
  },
)

t.test('404 for a requester who may not read, and for an unknown pull request', async (t) => {
  const { work, commit, push, open, download, objectFile } = await repository(t, 'private', { private: true })
  await work.git('checkout', '-q', '-b', 'topic')
  const head = await commit('Topic', { a: 'a\n' })
  await push('topic')
  const index = await open('topic')
  const path = `/api/v1/repos/alice/private/pulls/${index}/files`
  t.equal((await server.fetch(null, path)).status, 404)
  for (const odd of ['0', '-1', '2', 'x', '1.5', '9223372036854775808']) {
    t.equal((await download(`${odd}/files`)).status, 404, odd)
  }
  await rm(objectFile(head))
  const gone = await download(`${index}/files`)
  t.equal(gone.status, 404, 'its commits are gone')
  t.match(await gone.json(), { message: /no longer exist/ })
})

t.test(
  'pulls.files.3: settings limit lines, files and characters per line; a truncated list says so',
  async (t) => {
    const small = await startPulls(t, {
      MAX_DIFF_FILES: '3',
      MAX_DIFF_LINES: '5',
      MAX_DIFF_LINE_CHARACTERS: '10',
    })
    const { work, commit, push, open, download } = await small.repository(t, 'bounds')
    await work.git('checkout', '-q', '-b', 'topic')
    await commit('Topic', {
      a: `${'x'.repeat(5e6)}\n${'y'.repeat(100)}\n`,
      b: 'l\n'.repeat(100),
      'c-with-a-long-name': 'l\n',
      d: 'd\n',
    })
    await push('topic')
    const answer = await download(`${await open('topic')}/files`)
    t.equal(answer.headers.get('x-total-count'), '3')
    const says = ({ headers }: Response) => [headers.get('mergelog-truncated'), headers.get('x-hasmore')]
    t.strictSame(says(answer), ['true', 'true'])
    t.match(answer.headers.get('access-control-expose-headers'), /X-HasMore, Mergelog-Truncated$/)
    t.strictSame(says(await download('1/files?limit=2&page=2')), ['true', 'true'], 'also on the last page')
    t.strictSame(says(await download('1/files?skip-to=b')), [null, 'false'], 'three files are all')
    const commits = await download('1/commits')
    t.strictSame(says(commits), ['true', 'false'], 'the files of a commit')
    const [{ files, stats }] = JSON.parse(await commits.text())
    t.strictSame([files.length, stats.additions], [3, 104])
    t.strictSame(says(await download('1/commits?files=false')), [null, 'false'])
    t.match(await answer.json(), [
      { filename: 'a', additions: 2 },
      { filename: 'b', additions: 5 },
      { filename: 'c-with-a-long-name', additions: 1 },
    ])
  },
)
