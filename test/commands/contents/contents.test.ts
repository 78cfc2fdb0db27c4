/** Files over the API: reading, and commits of changed files, as Gitea's clients do it. */
import { execFile } from 'node:child_process'
import { createHash, hash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { refLockKey } from '../../../src/commands/git/ref-lock.ts'
import { decode } from '../../../src/events/codec.ts'
import { gitStream } from '../../../src/events/streams.ts'
import { makeKey } from '../../git/ssh-keys.ts'
import { hostedWork } from '../../hosted-work.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'

const server = await startTestServer(t)
const alice = await server.as('alice')
const run = promisify(execFile)

const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64')
/** The parts of answers that these tests look at. */
interface Answer {
  message: string
  commit: { sha: string; message: string }
  content: { url: string }
  files: ({ path: string } | null)[]
}
const json = async (answer: Response): Promise<Answer> => JSON.parse(await answer.text())

async function newRepository(name: string, init = true) {
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: init })
  const repoId = data.id ?? 0
  const base = `/api/v1/repos/alice/${name}`
  const send = (method: string, path: string, body?: object, login = 'alice') =>
    server.fetch(login, `${base}${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  const git = async (...args: string[]) => {
    const { stdout } = await run('git', [`--git-dir=${server.services.gitDir}/${repoId}.git`, ...args])
    return stdout.trim()
  }
  return { name, repoId, base, send, git }
}

/** Returns the recorded refs of the repository. */
async function moves(repoId: number) {
  const found = []
  for await (const recorded of server.services.events.readStream(gitStream(repoId))) {
    const event = decode(recorded)
    if (event.type === 'RefsUpdated') found.push({ ...event.data, actor: recorded.metadata.actor?.login })
  }
  return found
}

t.test('a file is created, read, updated, renamed and deleted; each is a commit on the tip', async (t) => {
  const { repoId, git } = await newRepository('life')
  const first = await git('rev-parse', 'main')
  const created = await alice.repos.repoCreateFile('alice', 'life', 'guide/é a.md', {
    content: base64('one\n'),
    author: { name: 'Ann', email: 'ann@example.org' },
    dates: { author: '2020-02-03T04:05:06+02:00', committer: '0001-01-01T00:00:00Z' },
    signoff: true,
  })
  t.equal(created.status, 201)
  const { content, commit, verification } = created.data
  t.match(content, { name: 'é a.md', path: 'guide/é a.md', type: 'file', size: 4, encoding: 'base64' })
  t.equal(content?.content, base64('one\n'))
  t.equal(content?.last_commit_sha, commit?.sha)
  t.match(commit, {
    message: 'Add guide/é a.md\n\nSigned-off-by: Ann <ann@example.org>',
    author: { name: 'Ann', email: 'ann@example.org', date: '2020-02-03T02:05:06Z' },
    committer: { name: 'Ann', email: 'ann@example.org' },
    parents: [{ sha: first }],
  })
  t.equal(verification?.verified, false)
  t.equal(await git('rev-parse', 'main'), commit?.sha)
  t.equal(await git('fsck', '--strict', '--no-dangling'), '')

  const read = await alice.repos.repoGetContents('alice', 'life', 'guide/é a.md', { ref: commit?.sha ?? '' })
  t.match(read.data, { sha: content?.sha ?? '', content: base64('one\n') })

  const updated = await alice.repos.repoUpdateFile('alice', 'life', 'guide/b.md', {
    content: base64('two\n'),
    sha: content?.sha ?? '',
    from_path: 'guide/é a.md',
    message: 'Move it',
  })
  t.equal(updated.status, 200)
  t.match(updated.data.commit, { message: 'Move it\n', author: { name: 'alice' } })
  const { data: docs } = await alice.repos.repoGetContents('alice', 'life', 'guide')
  t.match(docs, [
    { path: 'guide/b.md', type: 'file', content: null, last_commit_sha: updated.data.commit?.sha },
  ])

  const sha = updated.data.content?.sha ?? ''
  const removed = await alice.repos.repoDeleteFile('alice', 'life', 'guide/b.md', { sha })
  t.match(removed, { status: 200, data: { content: null, commit: { message: 'Delete guide/b.md\n' } } })
  t.equal(
    await statusOf(alice.repos.repoGetContents('alice', 'life', 'guide')),
    404,
    'no empty directory stays',
  )
  const { data: root } = await alice.repos.repoGetContentsList('alice', 'life')
  t.same(
    root.map(({ name, type }) => ({ name, type })),
    [{ name: 'README.md', type: 'file' }],
  )
  t.match(await moves(repoId), [
    { cause: 'auto-init' },
    ...[commit, updated.data.commit, removed.data.commit].map((made) => ({
      cause: 'push',
      actor: 'alice',
      refs: [{ ref: 'refs/heads/main', to: made?.sha }],
      commits: [{ sha: made?.sha }],
    })),
  ])
})

t.test(
  'stale shas, existing files, missing files and invalid paths are refused, and nothing changes',
  async (t) => {
    const { repoId, send, git } = await newRepository('refusals')
    const files = [
      { operation: 'create', path: 'a/b.txt', content: base64('b') },
      { operation: 'create', path: 'c.txt', content: base64('c') },
    ]
    t.equal((await send('POST', '/contents', { files })).status, 201)
    const tip = await git('rev-parse', 'main')
    const content = base64('x')
    const stale = 'f'.repeat(40)
    const c = await git('rev-parse', 'main:c.txt')
    const cases: [number, string, string, object][] = [
      [422, 'POST', '/contents/c.txt', { content }],
      [422, 'PUT', '/contents/c.txt', { content }],
      [422, 'PUT', '/contents/c.txt', { content, sha: stale }],
      [422, 'DELETE', '/contents/c.txt', { sha: stale }],
      [422, 'DELETE', '/contents/c.txt', {}],
      [404, 'PUT', '/contents/nothing.txt', { content, sha: stale }],
      [404, 'DELETE', '/contents/nothing.txt', { sha: stale }],
      [404, 'DELETE', '/contents/a', { sha: stale }],
      [422, 'POST', '/contents/a', { content }],
      [422, 'POST', '/contents/c.txt/d', { content }],
      [422, 'PUT', '/contents/a/b.txt', { content, sha: c, from_path: 'c.txt' }],
      [422, 'POST', '/contents/new.txt', { content: 'not base64!' }],
      [422, 'POST', '/contents/new.txt', { content: 'QQ' }],
      [422, 'POST', '/contents/new.txt', { content, dates: { author: 'yesterday' } }],
      [422, 'POST', '/contents/new.txt', { content, branch: 'a..b' }],
      [422, 'POST', '/contents/new.txt', { content, new_branch: '-x' }],
      [422, 'POST', '/contents/new.txt', { content, message: 'x'.repeat(140_000) }],
      [404, 'POST', '/contents/new.txt', { content, branch: 'absent' }],
      [409, 'POST', '/contents/new.txt', { content, new_branch: 'main/below' }],
      [422, 'POST', '/contents', { files: [] }],
      [422, 'POST', '/contents', { files: [{ operation: 'chmod', path: 'x' }] }],
      [422, 'POST', '/contents', { files: [{ operation: 'create', path: 'x' }] }],
      [422, 'POST', '/contents', { files: [{ operation: 'rename', path: 'c.txt' }] }],
      [422, 'POST', '/contents', { files: [...files.slice(0, 1)] }],
      ...[
        '',
        '/x',
        'x/',
        'a//b',
        '../x',
        'a/../x',
        './x',
        '.git/config',
        'a/.GIT/hooks/x',
        'git~1/x',
        '.git. /x',
        '.g\u200cit/x',
        '.git::$INDEX_ALLOCATION/x',
        'a\\b',
        'nul\0',
        'new\nline',
        '\ud800',
        `${'x'.repeat(256)}`,
        `${'d/'.repeat(64)}x`,
      ].map((path): [number, string, string, object] => [
        422,
        'POST',
        '/contents',
        { files: [{ operation: 'create', path, content }] },
      ]),
    ]
    for (const [status, method, path, body] of cases) {
      const answer = await send(method, path, body)
      t.equal(answer.status, status, `${method} ${path} ${JSON.stringify(body).slice(0, 120)}`)
      t.type((await json(answer)).message, 'string')
    }
    t.equal(await git('rev-parse', 'main'), tip)
    t.equal(await git('for-each-ref', '--format=%(refname)'), 'refs/heads/main')
    t.equal((await moves(repoId)).length, 2, 'nothing more is in the log')
  },
)

t.test('a change of many files is one commit; later changes see the earlier ones', async (t) => {
  const { repoId, send, git } = await newRepository('many')
  const { branch } = await hostedWork(t, server, { login: 'alice', repoId, fullName: 'alice/many' })
  await branch(
    'main',
    { 'run.sh': { executable: 'x' }, link: { link: 'run.sh' }, 'deep/er/x': 'x', y: 'y' },
    'main',
  )
  const answer = await send('POST', '/contents', {
    files: [
      { operation: 'create', path: 'new/a', content: base64('a') },
      { operation: 'update', path: 'new/a', content: base64('aa') },
      { operation: 'rename', path: 'bin/run', from_path: 'run.sh' },
      { operation: 'delete', path: 'deep/er/x' },
      { operation: 'upload', path: 'y', content: base64('yy') },
      { operation: 'upload', path: 'z', content: base64('') },
      { operation: 'delete', path: 'link' },
    ],
  })
  t.equal(answer.status, 201)
  const { files, commit } = await json(answer)
  t.same(
    files.map((file) => file?.path ?? null),
    ['new/a', 'new/a', 'bin/run', null, 'y', 'z', null],
  )
  t.equal(commit.message, 'Add new/a\nUpdate new/a, bin/run, y, z\nDelete deep/er/x, link\n')
  const tree = await git('ls-tree', '-r', '--format=%(objectmode) %(path)', 'main')
  t.same(tree.split('\n'), ['100644 README.md', '100755 bin/run', '100644 new/a', '100644 y', '100644 z'])
  t.equal(await git('cat-file', 'blob', 'main:new/a'), 'aa')
  t.equal(await git('fsck', '--strict', '--no-dangling'), '')
})

t.test('an empty repository gets its first commit; a new branch is made from another', async (t) => {
  const { repoId, send, git } = await newRepository('empty', false)
  t.same(await json(await send('GET', '/contents')), [])
  t.equal((await send('GET', '/contents/a')).status, 404)
  t.equal((await send('DELETE', '/contents/a', { sha: 'a'.repeat(40) })).status, 404)
  t.equal((await send('POST', '/contents/a', { content: base64('a') })).status, 201)
  t.equal(await git('rev-list', '--count', 'main'), '1')
  const other = await send('POST', '/contents/b', { content: base64('b'), new_branch: 'topic/x' })
  t.equal(other.status, 201)
  t.match(await json(other), { content: { url: /ref=topic%2Fx$/ } })
  t.equal(await git('ls-tree', '--name-only', 'topic/x'), 'a\nb')
  t.equal(await git('ls-tree', '--name-only', 'main'), 'a')
  const again = await send('POST', '/contents/c', { content: base64('c'), new_branch: 'topic/x' })
  t.equal(again.status, 422, 'it exists')
  t.match(
    (await moves(repoId)).map(({ refs }) => refs),
    [[{ ref: 'refs/heads/main', from: null }], [{ ref: 'refs/heads/topic/x', from: null }]],
  )
  const { data } = await alice.repos.repoGetBranch('alice', 'empty', 'topic/x')
  t.match(data.commit, { message: 'Add b\n' })
})

t.test('protections and permissions apply to commits as to pushes', async (t) => {
  const { send, git } = await newRepository('guarded')
  const body = { content: base64('x') }
  const statuses = async (path: string, more = {}) =>
    Promise.all(
      ['alice', 'bob', 'carol'].map(
        async (login) => (await send('POST', `${path}-${login}`, { ...body, ...more }, login)).status,
      ),
    )
  await alice.repos.repoAddCollaborator('alice', 'guarded', 'bob', { permission: 'write' })
  t.same(await statuses('/contents/open'), [201, 201, 403])
  await alice.repos.repoCreateBranchProtection('alice', 'guarded', {
    rule_name: 'main',
    enable_push: true,
    enable_push_whitelist: true,
    push_whitelist_usernames: ['bob'],
  })
  t.same(await statuses('/contents/pushers'), [403, 201, 403])
  await alice.repos.repoCreateBranchProtection('alice', 'guarded', { rule_name: 'closed*' })
  const closed = { new_branch: 'closed-1' }
  t.same(await statuses('/contents/closed', closed), [403, 403, 403])
  await alice.repos.repoCreateBranchProtection('alice', 'guarded', {
    rule_name: 'signed',
    enable_push: true,
    require_signed_commits: true,
  })
  t.same(await statuses('/contents/signed', { new_branch: 'signed' }), [403, 403, 403])
  t.equal(await git('for-each-ref', '--format=%(refname)'), 'refs/heads/main')
})

t.test('a pull request follows the branch that a commit of files moves', async (t) => {
  const { send, git } = await newRepository('pulled')
  await send('POST', '/contents/a', { content: base64('a'), new_branch: 'topic' })
  await alice.repos.repoCreatePullRequest('alice', 'pulled', { head: 'topic', base: 'main', title: 'T' })
  await send('POST', '/contents/b', { content: base64('b'), branch: 'topic' })
  const { data } = await alice.repos.repoGetPullRequest('alice', 'pulled', 1)
  t.equal(data.head?.sha, await git('rev-parse', 'topic'))
  t.equal(data.changed_files, 2)
})

t.test('simultaneous commits to one branch all succeed; of those to one file, one succeeds', async (t) => {
  const { send, git } = await newRepository('busy')
  const names = Array.from({ length: 8 }, (_, i) => `f${i}`)
  const made = await Promise.all(names.map((name) => send('POST', `/contents/${name}`, { content: '' })))
  t.same(new Set(made.map(({ status }) => status)), new Set([201]))
  t.equal(await git('rev-list', '--count', 'main'), '9')
  const sha = await git('rev-parse', 'main:f0')
  const answers = await Promise.all(
    names.map((name) => send('PUT', '/contents/f0', { content: base64(name), sha })),
  )
  t.same(answers.map(({ status }) => status).sort(), [200, ...Array(7).fill(422)])
})

t.test('a retried request with an Idempotency-Key commits once', async (t) => {
  const { base, git } = await newRepository('retried')
  const post = (content: string) =>
    server.fetch('alice', `${base}/contents/once`, {
      method: 'POST',
      headers: { 'Idempotency-Key': 'k' },
      body: JSON.stringify({ content: base64(content) }),
    })
  const [first, second, other] = [await post('a'), await post('a'), await post('b')]
  t.same([first.status, second.status, other.status], [201, 201, 422])
  t.equal((await json(first)).commit.sha, (await json(second)).commit.sha)
  t.equal(await git('rev-list', '--count', 'main'), '2')
})

t.test('a large file is stored as it arrives, within the limit for bodies with files', async (t) => {
  const { send, git } = await newRepository('large')
  // In base64 it exceeds the limit of bodies without files.
  const bytes = randomBytes(3_500_000)
  const made = await send('POST', '/contents/big.bin', { content: base64(bytes), message: 'Big' })
  t.equal(made.status, 201)
  t.match(await json(made), { content: { size: bytes.length, content: null } })
  const stored = createHash('sha1').update(`blob ${bytes.length}\0`).update(bytes).digest('hex')
  t.equal(await git('rev-parse', 'main:big.bin'), stored)
  t.equal(await git('fsck', '--strict', '--no-dangling'), '')
  const broken = await send('POST', '/contents/other.bin', { content: `${base64(bytes).slice(0, -4)}!!!!` })
  t.equal(broken.status, 422)
  const many = { files: [1, 2].map((n) => ({ operation: 'create', path: `${n}`, content: base64(bytes) })) }
  t.equal((await send('POST', '/contents', many)).status, 201)
  t.equal(await git('rev-parse', 'main:2'), stored)
  t.equal((await send('POST', '/contents/m', { content: '', message: 'x'.repeat(5_000_000) })).status, 413)
})

t.test('a permission that ends while a commit waits for the lock refuses the commit', async (t) => {
  const { repoId, send, git } = await newRepository('waiting')
  await alice.repos.repoAddCollaborator('alice', 'waiting', 'bob', { permission: 'write' })
  const { promise: held, resolve: leave } = Promise.withResolvers<void>()
  const turn = server.services.runExclusive(refLockKey(repoId), () => held)
  const asked = send('POST', '/contents/late', { content: base64('late') }, 'bob')
  const blob = hash('sha1', 'blob 4\0late', 'hex')
  await until('its file is stored', () =>
    git('cat-file', '-e', blob).then(
      () => true,
      () => false,
    ),
  )
  await alice.repos.repoDeleteCollaborator('alice', 'waiting', 'bob')
  leave()
  await turn
  t.equal((await asked).status, 403)
  t.equal(await git('rev-list', '--count', 'main'), '1')
})

t.test('writers of the base commit to the head branch of a fork that allows it', async (t) => {
  const { name, send } = await newRepository('base')
  await alice.repos.repoAddCollaborator('alice', name, 'bob', { permission: 'write' })
  const carol = await server.as('carol')
  await carol.repos.createFork('alice', name, {})
  const fork = (path: string, body: object, login: string) =>
    server.fetch(login, `/api/v1/repos/carol/base${path}`, { method: 'POST', body: JSON.stringify(body) })
  t.equal((await fork('/contents/a', { content: '', new_branch: 'idea' }, 'carol')).status, 201)
  t.equal(
    (await send('POST', '/pulls', { head: 'carol:idea', base: 'main', title: 'T' }, 'carol')).status,
    201,
  )
  const idea = { content: '', branch: 'idea' }
  t.equal((await fork('/contents/b', idea, 'bob')).status, 403)
  await carol.repos.repoEditPullRequest('alice', name, 1, { allow_maintainer_edit: true })
  t.equal((await fork('/contents/b', idea, 'bob')).status, 201)
  t.equal((await fork('/contents/b', { content: '' }, 'bob')).status, 403, 'not to another branch')
  const { data } = await alice.repos.repoGetPullRequest('alice', name, 1)
  t.equal(data.changed_files, 2)
})

t.test('with a signing key the commits are signed, and branches that require it accept them', async (t) => {
  const { path, signers } = await makeKey(join(t.testdir({}), 'key'))
  const signing = await startTestServer(t, { SIGNING_KEY: path })
  const owner = await signing.as('alice')
  const { data } = await owner.user.createCurrentUserRepo({ name: 'signed', auto_init: true })
  await owner.repos.repoCreateBranchProtection('alice', 'signed', {
    rule_name: 'main',
    enable_push: true,
    require_signed_commits: true,
  })
  const made = await owner.repos.repoCreateFile('alice', 'signed', 'a', { content: '' })
  t.match(made, { status: 201, data: { verification: { verified: true } } })
  const options = [
    `--git-dir=${signing.services.gitDir}/${data.id}.git`,
    '-c',
    `gpg.ssh.allowedSignersFile=${signers}`,
  ]
  await run('git', [...options, 'verify-commit', made.data.commit?.sha ?? ''])
})
