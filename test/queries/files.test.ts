/** Reading files, directories and archives of a repository, at any commit. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { contentsIn, entriesOf, entryFor } from '../../src/api/contents/contents-at.ts'
import { storeObject } from '../../src/git/objects/loose-objects.ts'
import { EMPTY_TREE } from '../../src/git/refs/names.ts'
import { hostedWork } from '../hosted-work.ts'
import { startTestServer, statusOf } from '../start-server.ts'
import { until } from '../until.ts'
import { listen } from './history-client.ts'

const run = promisify(execFile)
const server = await startTestServer(t, { LOG_LEVEL: 'silent' })
const alice = await server.as('alice')
const { data } = await alice.user.createCurrentUserRepo({ name: 'Site', auto_init: true })
const work = await hostedWork(t, server, { login: 'alice', repoId: data.id ?? 0, fullName: 'alice/Site' })
const large = Buffer.from(Array.from({ length: 3_000_000 }, (_, i) => (i * i * 31 + (i >> 7)) & 255))
const old = await work.branch('main', { 'guide/old.md': 'old', 'guide/new.md': 'first' }, 'main')
const sha = await work.branch(
  'main',
  {
    'guide/new.md': 'second',
    'guide/ümlaut #1?.md': 'ü',
    link: { link: 'guide/new.md' },
    'run.sh': { executable: '#!/bin/sh\n' },
    'page.html': '<script>alert(1)</script>',
    '.gitmodules': '[submodule "m"]\n\tpath = mod\n\turl = https://example.org/m.git\n',
    large,
  },
  'main',
)
const dir = `${server.services.gitDir}/${data.id}.git`
await run('git', [`--git-dir=${dir}`, 'update-ref', 'refs/tags/v1', old])
await run('git', [`--git-dir=${dir}`, 'update-ref', 'refs/heads/feature/deep', old])
const base = '/api/v1/repos/alice/Site'
const get = (path: string, init?: RequestInit) => server.fetch('alice', path, init)
const contents = (path: string, ref?: string) =>
  alice.repos.repoGetContents('alice', 'Site', path, ref === undefined ? {} : { ref })

t.test(
  'a file comes with its content and its last commit; a ref is a branch, a tag or a commit',
  async (t) => {
    t.match((await contents('guide/old.md')).data, {
      ...{ name: 'old.md', path: 'guide/old.md', type: 'file', size: 3, encoding: 'base64' },
      content: Buffer.from('old').toString('base64'),
      last_commit_sha: old,
      ...{ target: null, submodule_git_url: null },
      url: `${server.url}${base}/contents/guide/old.md?ref=main`,
      html_url: `${server.url}/alice/Site/src/branch/main/guide/old.md`,
    })
    const { data: odd } = await contents(
      encodeURI('guide/ümlaut #1?.md').replace('#', '%23').replace('?', '%3F'),
    )
    t.equal(odd.name, 'ümlaut #1?.md')
    t.equal(await (await get(new URL(odd.download_url ?? '').pathname)).text(), 'ü', 'the download works')
    t.match(await (await get(new URL(odd.url ?? '').pathname)).json(), { path: 'guide/ümlaut #1?.md' })
    for (const ref of [
      'v1',
      'refs/tags/v1',
      'feature/deep',
      'refs/heads/feature/deep',
      old,
      old.slice(0, 8),
    ]) {
      t.equal(
        (await contents('guide/new.md', ref)).data.content,
        Buffer.from('first').toString('base64'),
        ref,
      )
    }
    for (const ref of ['absent', 'refs/pull/1/head', 'HEAD~1', '-x', 'f'.repeat(40), 'a b']) {
      t.equal(await statusOf(contents('guide/new.md', ref)), 404, ref)
    }
    const { data: big } = await contents('large')
    t.match(
      big,
      { size: large.length, content: null, encoding: null },
      'a large file comes without its content',
    )
  },
)

t.test('links are not followed, and submodules name their origin', async (t) => {
  await work.work.git('update-index', '--add', '--cacheinfo', `160000,${old},mod`)
  const tree = await work.work.git('write-tree')
  const commit = await work.work.git('commit-tree', tree, '-p', sha, '-m', 'module')
  await run('git', [`--git-dir=${dir}`, 'update-ref', 'refs/heads/module', commit])
  t.match((await contents('link')).data, { type: 'symlink', target: 'guide/new.md', content: null })
  t.match((await contents('mod', 'module')).data, {
    ...{ type: 'submodule', sha: old, size: 0, download_url: null, html_url: null },
    submodule_git_url: 'https://example.org/m.git',
  })
  for (const path of [
    'link/x',
    'mod/x',
    'guide/new.md/x',
    'guide/absent',
    '../x',
    '.git/config',
    'guide/./new.md',
  ]) {
    const url = `${base}/contents/${encodeURIComponent(path)}?ref=module`
    t.equal((await get(url)).status, 404, path)
  }
  t.equal((await get(`${base}/raw/mod?ref=module`)).status, 404)
  t.equal(await (await get(`${base}/raw/link`)).text(), 'guide/new.md', 'raw gives the link itself')
})

t.test('a directory lists its entries in the order of git, whole or in pages', async (t) => {
  const list = async (query: string) => {
    const answer = await get(`${base}/contents${query}`)
    const text = await answer.text()
    const rows: { name: string; type: string; content: null; last_commit_sha: string }[] = JSON.parse(text)
    return { rows, total: answer.headers.get('x-total-count') }
  }
  const { rows, total } = await list('')
  t.same(
    rows.map(({ name, type }) => `${type} ${name}`),
    [
      'file .gitmodules',
      'file README.md',
      'dir guide',
      'file large',
      'symlink link',
      'file page.html',
      'file run.sh',
    ],
  )
  t.equal(total, '7')
  t.ok(rows.every(({ content }) => content === null))
  const { rows: docs } = await list('/guide')
  t.same(
    docs.map((row) => row.last_commit_sha),
    [sha, old, sha],
  )
  t.same(
    (await list('?limit=2&page=2')).rows.map(({ name }) => name),
    ['guide', 'large'],
  )
  t.same((await list('?page=9')).rows, [])
  const { rows: before } = await list('/guide?ref=v1')
  t.equal(before.length, 2)
})

t.test(
  'the rows of a directory are produced in slices, and other requests run between two of them',
  async (t) => {
    const { services } = server
    const repository = await services.views.repositories.get(`${data.id}`)
    if (repository === undefined) throw new Error('the repository is missing')
    const done: string[] = []
    const place = {
      repository,
      commit: { kind: 'branch' as const, name: 'main', sha },
      get publicUrl() {
        done.push('row')
        setImmediate(() => done.push('others'))
        for (const began = performance.now(); performance.now() - began < 5; );
        return 'http://example.org'
      },
    }
    const { entry } = await entryFor(services, place, '')
    const entries = await (await entriesOf(services, place, entry)).all()
    const reading = { services, ask: () => Promise.reject(new Error('nothing is asked')) }
    const rows = await contentsIn(reading, place, [], entries, { content: false, lastCommit: false })
    t.equal(rows.length, entries.length)
    t.ok(done.slice(0, done.lastIndexOf('row')).includes('others'), done.join(' '))
  },
)

t.test('a client chooses the fields, and the files', async (t) => {
  const ext = async (path: string) => JSON.parse(await (await get(`${base}/contents-ext/${path}`)).text())
  const plain = await ext('guide/old.md')
  t.match(plain, { file_contents: { path: 'guide/old.md', content: null } })
  t.notOk('last_commit_sha' in plain.file_contents || 'dir_contents' in plain)
  t.match(await ext('guide/old.md?includes=file_content,commit_message'), {
    file_contents: {
      content: Buffer.from('old').toString('base64'),
      last_commit_message: 'Commit on main\n',
    },
  })
  t.equal((await ext('.')).dir_contents.length, 7)
  const root = await get(`${base}/contents-ext`)
  t.same(JSON.parse(await root.text()), await ext('.'), 'without a path it is the root, as in Gitea')
  t.equal((await get(`${base}/contents-ext/guide?includes=everything`)).status, 400)
  const oid = 'a'.repeat(64)
  const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize 12345\n`
  await work.branch('lfs', { 'big.bin': pointer }, 'main')
  t.match(await ext('big.bin?ref=lfs&includes=lfs_metadata'), {
    file_contents: { lfs_oid: oid, lfs_size: 12345 },
  })

  const files = ['guide/old.md', 'absent', 'large', 'run.sh', '../x']
  const many = await get(`${base}/file-contents`, { method: 'POST', body: JSON.stringify({ files }) })
  const rows: ({ size: number; content: string | null } | null)[] = JSON.parse(await many.text())
  t.same(
    rows.map((row) => row && [row.size, row.content !== null]),
    [[3, true], null, [large.length, false], [10, true], null],
  )
  const query = `?limit=2&body=${encodeURIComponent(JSON.stringify({ files }))}`
  t.match(JSON.parse(await (await get(`${base}/file-contents${query}`)).text()), [
    { path: 'guide/old.md' },
    null,
  ])
  for (const [status, body] of [
    [400, '{'],
    [422, '[]'],
    [422, '{"files":[1]}'],
  ] as const) {
    t.equal((await get(`${base}/file-contents?body=${encodeURIComponent(body)}`)).status, status, body)
  }
})

t.test('raw and media send the bytes, with a tag, and never run in a browser', async (t) => {
  for (const path of [
    `${base}/raw/guide/new.md`,
    `${base}/raw/main/guide/new.md`,
    `${base}/media/guide/new.md?ref=main`,
    '/alice/Site/raw/branch/main/guide/new.md',
    `/alice/Site/raw/commit/${sha}/guide/new.md`,
  ]) {
    t.equal(await (await get(path)).text(), 'second', path)
  }
  for (const path of [
    `${base}/raw/feature/deep/guide/new.md`,
    `${base}/raw/${old}/guide/new.md`,
    `${base}/raw/guide/new.md?ref=v1`,
    '/alice/Site/raw/tag/v1/guide/new.md',
    '/alice/Site/raw/branch/feature/deep/guide/new.md',
  ]) {
    t.equal(await (await get(path)).text(), 'first', path)
  }
  for (const path of [
    `${base}/raw/guide`,
    `${base}/raw/absent`,
    '/alice/Site/raw/tag/main/README.md',
    '/alice/Site/raw/x/main/README.md',
  ]) {
    t.equal((await get(path)).status, 404, path)
  }
  const page = await get(`${base}/raw/page.html`)
  t.match(page.headers.get('content-type'), /^text\/plain/)
  t.match(page.headers.get('content-security-policy'), /sandbox/)
  const answer = await get(`${base}/raw/large`)
  t.equal(answer.headers.get('content-length'), `${large.length}`)
  t.same(Buffer.from(await answer.arrayBuffer()), large)
  const tag = answer.headers.get('etag') ?? ''
  t.equal((await get(`${base}/raw/large`, { headers: { 'If-None-Match': tag } })).status, 304)
  const head = await get(`${base}/raw/large`, { method: 'HEAD' })
  t.same([head.status, head.headers.get('content-length')], [200, `${large.length}`])
})

t.test('raw and media answer ranges and conditions, from small and large files', async (t) => {
  const ask = async (path: string, headers: Record<string, string>, method = 'GET') => {
    const answer = await get(`${base}/${path}`, { method, headers })
    const { status } = answer
    const body = Buffer.from(await answer.arrayBuffer())
    return { status, body, range: answer.headers.get('content-range'), headers: answer.headers }
  }
  const part = (size: number, first: number, last: number) => `bytes ${first}-${last}/${size}`
  const size = large.length
  for (const word of ['raw', 'media']) {
    for (const [range, first, last] of [
      ['bytes=0-0', 0, 0],
      ['bytes=1000-70000', 1000, 70_000],
      ['bytes=2999990-', 2_999_990, size - 1],
      ['bytes=-5', size - 5, size - 1],
      ['bytes=2000000-99999999', 2_000_000, size - 1],
    ] as const) {
      const got = await ask(`${word}/large`, { Range: range })
      t.same([got.status, got.range], [206, part(size, first, last)], range)
      t.equal(got.headers.get('content-length'), `${last - first + 1}`)
      t.ok(got.body.equals(large.subarray(first, last + 1)), range)
    }
    t.same((await ask(`${word}/guide/new.md`, { Range: 'bytes=1-3' })).body.toString(), 'eco')
    for (const path of ['large', 'guide/new.md']) {
      const outside = await ask(`${word}/${path}`, { Range: 'bytes=3000000-' })
      t.same([outside.status, outside.range], [416, `bytes */${path === 'large' ? size : 6}`])
    }
    for (const range of ['bytes=5-1', 'bytes=9-'])
      t.equal((await ask(`${word}/guide/new.md`, { Range: range })).status, 416, range)
    for (const range of ['bytes=x', 'lines=1-2', 'bytes=0-1,3-4']) {
      const whole = await ask(`${word}/guide/new.md`, { Range: range })
      t.same(
        [whole.status, whole.body.toString()],
        [200, 'second'],
        `${range}: the whole file is an answer, too`,
      )
    }
  }
  const { headers } = await ask('raw/guide/new.md', {})
  const [etag, changed] = [headers.get('etag') ?? '', headers.get('last-modified') ?? '']
  t.equal(headers.get('accept-ranges'), 'bytes')
  t.match(changed, /^\w{3}, \d\d \w{3} \d{4} .* GMT$/)
  const early = new Date(Date.parse(changed) - 1000).toUTCString()
  const Range = 'bytes=0-1'
  for (const [status, given] of [
    [304, { 'If-Modified-Since': changed }],
    [200, { 'If-Modified-Since': early }],
    [200, { 'If-Modified-Since': 'yesterday' }],
    [304, { 'If-None-Match': `W/${etag}, "x"` }],
    [200, { 'If-None-Match': '"x"', 'If-Modified-Since': changed }],
    [206, { Range, 'If-Range': etag }],
    [206, { Range, 'If-Range': changed }],
    [200, { Range, 'If-Range': '"x"' }],
    [200, { Range, 'If-Range': early }],
    [304, { Range, 'If-None-Match': etag }],
  ] as const) {
    t.equal((await ask('raw/guide/new.md', given)).status, status, JSON.stringify(given))
  }
  const head = await ask('raw/large', { Range }, 'HEAD')
  t.same([head.status, head.headers.get('content-length')], [200, `${size}`], 'a range is for GET')
  // Requests for the end of a large file, or for one byte of it, leave no process running.
  const ends = ['bytes=-1', 'bytes=0-0'].flatMap((range) => [range, range])
  await Promise.all(ends.map((range) => ask('raw/large', { Range: range })))
  await until('no place is taken', () => server.services.gitLimits.reads.slots.counts().running === 0)
})

t.test('archives hold the files of the commit, and a bundle can be cloned', async (t) => {
  const place = await mkdtemp(join(tmpdir(), 'mergelog-archive-'))
  t.teardown(() => rm(place, { recursive: true, force: true }))
  const download = async (path: string, name: string) => {
    const answer = await get(path)
    t.equal(answer.status, 200, path)
    await writeFile(join(place, name), Buffer.from(await answer.arrayBuffer()))
    return answer.headers
  }
  const headers = await download(`${base}/archive/feature/deep.tar.gz`, 'a.tar.gz')
  t.match(headers.get('content-disposition'), /Site-feature-deep\.tar\.gz/)
  t.match(headers.get('link'), `${old}.tar.gz?rev=${old}`)
  const { stdout } = await run('tar', ['-tzf', join(place, 'a.tar.gz')])
  t.same(stdout.trim().split('\n'), [
    'site/',
    'site/README.md',
    'site/guide/',
    'site/guide/new.md',
    'site/guide/old.md',
  ])
  await download('/alice/Site/archive/main.zip', 'a.zip')
  const { stdout: zip } = await run('git', ['hash-object', join(place, 'a.zip')])
  t.match(zip, /^[0-9a-f]{40}/)
  for (const [name, ref] of Object.entries({ branch: 'main', commit: sha })) {
    await download(`${base}/archive/${ref}.bundle`, `${name}.bundle`)
    await run('git', ['clone', '-q', '--bare', join(place, `${name}.bundle`), join(place, name)])
    const { stdout: tip } = await run('git', [`--git-dir=${join(place, name)}`, 'rev-parse', 'bundle'])
    t.equal(tip.trim(), sha)
  }
  const tag = headers.get('etag') ?? ''
  t.equal((await get(`${base}/archive/v1.tar.gz`, { headers: { 'If-None-Match': tag } })).status, 304)
  t.equal((await get(`${base}/archive/main.zip`, { method: 'HEAD' })).status, 200)
  t.equal((await get(`${base}/archive/main.rar`)).status, 400)
  t.equal((await get(`${base}/archive/absent.zip`)).status, 404)
})

t.test(
  'a directory shows the beginning of a long message of a commit, a file alone shows all of it',
  async (t) => {
    const message = 'long '.repeat(40_000)
    const writer = 'Ann <ann@example.org> 1700000000 +0000'
    const { stdout } = await run('git', [`--git-dir=${dir}`, 'rev-parse', 'main^{tree}'])
    const commit = `tree ${stdout.trim()}\nauthor ${writer}\ncommitter ${writer}\n\n${message}`
    const long = await storeObject(dir, 'commit', Buffer.from(commit))
    await run('git', [`--git-dir=${dir}`, 'update-ref', 'refs/tags/long', long])
    const shown = async (path: string) =>
      JSON.parse(await (await get(`${base}/contents-ext/${path}?ref=long&includes=commit_message`)).text())
    t.equal((await shown('guide/new.md')).file_contents.last_commit_message, message)
    const { dir_contents: rows } = await shown('guide')
    t.equal(rows.length, 3)
    for (const row of rows) t.equal(row.last_commit_message, message.slice(0, 8192), row.name)
  },
)

t.test('a commit that does not fit into an archive is refused', async (t) => {
  const writer = 'Ann <ann@example.org> -1 +0000'
  const commit = `tree ${EMPTY_TREE}\nauthor ${writer}\ncommitter ${writer}\n\nbefore 1970\n`
  const early = await storeObject(dir, 'commit', Buffer.from(commit))
  await run('git', [`--git-dir=${dir}`, 'update-ref', 'refs/tags/early', early])
  t.equal((await get(`${base}/archive/early.zip`)).status, 422)
  t.equal((await get(`${base}/archive/early.tar.gz`)).status, 200)
})

t.test('an archive whose client disconnects leaves no process and no slot in use', async (t) => {
  const gone = new AbortController()
  const answer = await get(`${base}/archive/main.bundle`, { signal: gone.signal })
  gone.abort()
  await answer.arrayBuffer().catch(() => undefined)
  const { slots } = server.services.gitLimits.reads.shareOf('test')
  await until('the slot is free', async () => slots.counts().running === 0)
  t.equal(slots.counts().running, 0)
})

t.test('a file or an archive without a free slot leaves no process and no slot in use', async (t) => {
  // With the smallest budget, a running answer takes so much that no other stream fits beside it.
  const small = await startTestServer(t, { MAX_UNREAD_BYTES: '1MiB', GIT_GRACE_MS: '86400000' })
  const owner = await small.as('alice')
  const { data } = await owner.user.createCurrentUserRepo({ name: 'large', auto_init: true })
  const { branch } = await hostedWork(t, small, {
    login: 'alice',
    repoId: data.id ?? 0,
    fullName: 'alice/large',
  })
  await branch('main', { large }, 'main')
  const live = await listen(t, small, 'alice', '/repos/alice/large/history')
  await until('the live history has begun', () => live.text() !== '')
  for (const path of ['raw/large?ref=main', 'media/large?ref=main', 'archive/main.tar.gz']) {
    for (const headers of [{}, { range: 'bytes=1-' }]) {
      const answer = await small.fetch('alice', `/api/v1/repos/alice/large/${path}`, { headers })
      t.equal(answer.status, 429, path)
      const { slots } = small.services.gitLimits.reads.shareOf('test')
      await until(`git has ended: ${path}`, () => slots.counts().running === 0)
    }
  }
})
