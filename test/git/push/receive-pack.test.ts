import { randomBytes } from 'node:crypto'
import { readdir, rm, utimes, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { packet } from '../../../src/git/http/pkt-line.ts'
import { RepositoryMissing } from '../../../src/git/process/errors.ts'
import { ZERO_ID } from '../../../src/git/refs/names.ts'
import { listRefs, resolveRef } from '../../../src/git/refs/refs.ts'
import { deleteRepository } from '../../../src/git/repository/repository.ts'
import { until } from '../../until.ts'
import { commit, pushBody, tryGit, userGit } from '../client.ts'
import { type GitServerHooks, gitProcesses } from '../git-server.ts'
import { idOf, packed, packOf } from '../packs.ts'
import { serveWorkTree } from '../served-repository.ts'

const MAIN = 'refs/heads/main'

/** A server with an empty repository, and a work tree with two commits and the repository as its origin. */
async function setUp(t: Test, hooks: GitServerHooks = {}) {
  const served = await serveWorkTree(t, hooks)
  const { work } = served
  const a = await commit(work, 'a', { f: '1' }, [])
  const b = await commit(work, 'b', { f: '2' }, [a])
  return { ...served, a, b }
}

async function pending(root: string): Promise<string[]> {
  return await readdir(`${root}/pending`)
}

t.test('branches and tags are pushed, moved, forced and deleted, and each move is recorded', async (t) => {
  const { dir, work, root, server, a, b, push } = await setUp(t)
  const moves = () => server.recorded.splice(0)

  t.match(await push('origin', `${a}:${MAIN}`), { code: 0 })
  t.same(moves(), [{ ref: MAIN, from: null, to: a }])
  t.match(await push('origin', `${b}:${MAIN}`), { code: 0 })
  t.same(moves(), [{ ref: MAIN, from: a, to: b }])

  const other = await commit(work, 'other', { f: 'x' }, [a])
  t.match(await push('origin', `${other}:${MAIN}`), { code: 1, stderr: /rejected/ })
  t.same(moves(), [])
  t.match(await push('--force', 'origin', `${other}:${MAIN}`), { code: 0 })
  t.same(moves(), [{ ref: MAIN, from: b, to: other }])

  await userGit(work, ['tag', '-a', '-m', 'one', 'v1', b])
  const tag = await userGit(work, ['rev-parse', 'v1'])
  t.match(await push('origin', 'v1', `${a}:refs/heads/ü/x`), { code: 0 })
  t.same(
    moves().sort((x, y) => x.ref.localeCompare(y.ref)),
    [
      { ref: 'refs/heads/ü/x', from: null, to: a },
      { ref: 'refs/tags/v1', from: null, to: tag },
    ],
  )
  t.match(await push('origin', '--delete', 'ü/x', 'v1'), { code: 0 })
  t.equal(moves().length, 2)
  t.match(await push('origin', '--delete', 'main'), {
    code: 1,
    stderr: /deletion of the current branch prohibited/,
  })
  t.same(moves(), [])
  t.same(await listRefs(dir), [{ ref: MAIN, sha: other }])
  t.same(await pending(root), [])
  t.equal(await userGit(dir, ['fsck', '--no-dangling']), '')
})

for (const version of ['0', '1', '2']) {
  t.test(`a client that speaks protocol version ${version} can push`, async (t) => {
    const { dir, work, b } = await setUp(t)
    await userGit(work, ['-c', `protocol.version=${version}`, 'push', '-q', 'origin', `${b}:${MAIN}`])
    t.equal(await resolveRef(dir, MAIN), b)
  })
}

t.test('refs are refused one by one: the others are pushed, and the client gets the reason', async (t) => {
  const { dir, root, server, a, b, push } = await setUp(t, {
    check: async (commands) =>
      new Map(
        commands
          .filter(({ ref }) => ref.endsWith('/no'))
          .map(({ ref }) => [ref, 'no is protected: ask Ann'] as const),
      ),
  })
  const mixed = await push('origin', `${b}:refs/heads/no`, `${a}:${MAIN}`, `${a}:refs/notes/commits`)
  t.match(mixed, { code: 1, stderr: /no \(no is protected: ask Ann\)/ })
  t.match(mixed.stderr, /\[new branch\] +\w+ -> main/)
  t.match(mixed.stderr, /-> refs\/notes\/commits/)
  t.strictSame(await listRefs(dir), [
    { ref: MAIN, sha: a },
    { ref: 'refs/notes/commits', sha: a },
  ])
  t.same(
    server.recorded.splice(0).map(({ ref }) => ref),
    [MAIN, 'refs/notes/commits'],
  )
  const badName = await push('origin', `${b}:refs/heads/-x`, `${b}:${MAIN}`)
  t.match(badName, { code: 1, stderr: /the name begins with '-'/ })
  t.equal(await resolveRef(dir, MAIN), b, 'a bad name refuses only its own ref')
  const deleting = await push('origin', `${a}:refs/heads/no`, ':refs/notes/commits')
  t.match(deleting, { code: 1, stderr: /- \[deleted\] +refs\/notes\/commits/ })
  t.strictSame(await listRefs(dir), [{ ref: MAIN, sha: b }])
  const plain = await push('--no-progress', '-q', 'origin', `${a}:refs/heads/no`, `${a}:refs/heads/yes`)
  t.match(plain, { code: 1, stderr: /ask Ann/ })
  t.equal(await resolveRef(dir, 'refs/heads/yes'), a)
  t.same(await pending(root), [])
  t.equal(await userGit(dir, ['fsck', '--no-dangling']), '')
})

t.test('one refused ref refuses a whole atomic push, and the client gets the reason', async (t) => {
  const { dir, root, server, a, b, push } = await setUp(t, {
    check: async (commands) =>
      new Map(
        commands.filter(({ ref }) => ref === MAIN).map(({ ref }) => [ref, 'main is protected: ask Ann']),
      ),
  })
  const refused = await push('--atomic', 'origin', `${a}:${MAIN}`, `${b}:refs/heads/free`)
  t.equal(refused.code, 1)
  t.match(refused.stderr, /main \(main is protected: ask Ann\)/)
  t.match(refused.stderr, /free \(not pushed, because another ref of this push was refused\)/)
  t.same(await listRefs(dir), [])
  t.same(await readdir(`${dir}/objects`), ['info', 'pack'], 'git saw no object')
  t.same(server.recorded, [])
  t.same(await pending(root), [])
  t.match(await push('origin', `${b}:refs/heads/free`), { code: 0 })
})

t.test('names that the API refuses are refused here too', async (t) => {
  const { dir, a, push, url, work } = await setUp(t)
  t.match(await push('origin', `${a}:refs/heads/HEAD`), { code: 1, stderr: /git reserves/ })
  t.match(await push('origin', `${a}:refs/heads/-f`), { code: 1, stderr: /begins with '-'/ })
  const sent = await fetch(`${url}/git-receive-pack`, {
    method: 'POST',
    body: await pushBody(work, 'refs/heads/../../config', a),
  })
  t.match(await sent.text(), /ng refs\/heads\/\.\.\/\.\.\/config the name contains '\.\.'/)
  t.same(await listRefs(dir), [])
})

t.test('a client that pushes can neither see nor move the refs of pull requests', async (t) => {
  const { dir, work, url, a, b, push } = await setUp(t)
  await push('origin', `${a}:${MAIN}`)
  await userGit(dir, ['update-ref', 'refs/pull/1/head', a])
  t.match(await push('--force', 'origin', `${b}:refs/pull/1/head`), { code: 1, stderr: /hidden ref/ })
  t.equal(await resolveRef(dir, 'refs/pull/1/head'), a)
  const shown = await (await fetch(`${url}/info/refs?service=git-receive-pack`)).text()
  t.match(shown, /refs\/heads\/main/)
  t.notMatch(shown, /refs\/pull/)
  t.match(await userGit(work, ['ls-remote', 'origin']), /refs\/pull\/1\/head/)
})

t.test('the client gets its answer only after the push is recorded', async (t) => {
  const { promise: store, resolve: release } = Promise.withResolvers<void>()
  let asked = false
  const { dir, a, root, push } = await setUp(t, {
    async record() {
      asked = true
      await store
    },
  })
  let answered = false
  const pushing = push('origin', `${a}:${MAIN}`).finally(() => {
    answered = true
  })
  await until('the check was asked', () => asked)
  t.equal(await resolveRef(dir, MAIN), a, 'git has moved the ref')
  t.equal((await pending(root)).length, 1, 'the push is in the journal')
  t.equal(answered, false)
  release()
  t.match(await pushing, { code: 0 })
  t.same(await pending(root), [])
})

t.test(
  "pushes to one repository are recorded one at a time, and the records end with git's state",
  async (t) => {
    let recording = 0
    let most = 0
    const log = new Map<string, string | null>()
    const { root, dir, work, server, url, a } = await setUp(t, {
      async record(updates) {
        most = Math.max(most, ++recording)
        await new Promise((resolve) => setImmediate(resolve))
        for (const { ref, to } of updates) log.set(ref, to)
        recording -= 1
      },
    })
    await userGit(work, ['push', '-q', 'origin', `${a}:${MAIN}`])
    const heads = await Promise.all(
      Array.from({ length: 6 }, (_, i) => commit(work, `c${i}`, { f: `${i}` }, [a])),
    )
    const results = await Promise.all(
      heads.map((head, i) =>
        tryGit(work, ['push', '-q', '--force', url, `${head}:${MAIN}`, `${head}:refs/heads/b${i}`]),
      ),
    )
    t.ok(results.some(({ code }) => code === 0))
    t.equal(most, 1)
    t.same(
      [...log].map(([ref, sha]) => ({ ref, sha })).sort((x, y) => (x.ref < y.ref ? -1 : 1)),
      await listRefs(dir),
    )
    t.ok(server.recorded.length >= 7)
    t.same(await pending(root), [])
  },
)

t.test('a push whose objects git could not move is received again, a few times', async (t) => {
  let turns = 0
  let blocked = Number.POSITIVE_INFINITY
  const { dir, root, server, a, push } = await setUp(t, {
    // git is about to move the objects of the push. As with a directory that a repack removes, it fails.
    async checkAgain() {
      turns += 1
      const fan = join(dir, 'objects', a.slice(0, 2))
      await rm(fan, { force: true })
      if (turns <= blocked) await writeFile(fan, '')
      return new Map()
    },
  })
  t.match(await push('origin', `${a}:${MAIN}`), {
    code: 1,
    stderr: /unable to migrate objects to permanent storage/,
  })
  t.equal(turns, 3)
  t.equal(await resolveRef(dir, MAIN), null)

  turns = 0
  blocked = 1
  t.match(await push('origin', `${a}:${MAIN}`), { code: 0 })
  t.equal(turns, 2)
  t.equal(await resolveRef(dir, MAIN), a)
  t.same(server.recorded, [{ ref: MAIN, from: null, to: a }])
  t.same(await pending(root), [])
  t.equal(await userGit(dir, ['fsck', '--strict', '--no-progress']), '')
})

t.test("a push that can't be recorded is an error to the client, and stays in the journal", async (t) => {
  let down = true
  const { dir, root, server, a, b, push } = await setUp(t, {
    async record() {
      if (down) throw new Error('the log is unreachable')
    },
  })
  t.match(await push('origin', `${a}:${MAIN}`), { code: 1, stderr: /503/ })
  t.equal(server.requests.at(-1)?.error, 'PushUnrecorded')
  t.equal(await resolveRef(dir, MAIN), a)
  const [marker, ...others] = await server.journal.unfinished()
  t.same(others, [])
  t.equal(marker?.key, 'one')
  down = false
  if (marker !== undefined) {
    await server.journal.settle(marker, dir)
    await server.journal.finish(marker)
  }
  t.same(await server.journal.unfinished(), [])
  t.same(await pending(root), [])
  t.match(await push('origin', `${b}:${MAIN}`), { code: 0 })
})

t.test("a push that can't be written to the journal never reaches git", async (t) => {
  const { dir, root, server, a, push } = await setUp(t)
  await rm(`${root}/pending`, { recursive: true })
  t.match(await push('origin', `${a}:${MAIN}`), { code: 1 })
  t.equal(server.requests.at(-1)?.error, 'GitUnavailable')
  t.same(await listRefs(dir), [])
  t.same(await gitProcesses(dir), [])
})

t.test('a push is not confirmed when its repository is deleted before the record', async (t) => {
  const { server, a, push } = await setUp(t, {
    record: () => Promise.reject(new RepositoryMissing('the repository is not on disk')),
  })
  t.match(await push('origin', `${a}:${MAIN}`), { code: 1, stderr: /503/ })
  t.equal((await server.journal.unfinished()).length, 1)
})

t.test(
  'a push whose repository is temporarily missing stays in the journal: only the log records deletions',
  async (t) => {
    const { dir, server, a, push } = await setUp(t, {
      async check() {
        await deleteRepository(dir)
        return new Map()
      },
    })
    t.match(await push('origin', `${a}:${MAIN}`), { code: 1, stderr: /404|not found/ })
    const keys = (await server.journal.unfinished()).map(({ key }) => key)
    t.same(keys, ['one'])
  },
)

t.test('a broken, malformed or too large pack moves no ref', async (t) => {
  const { dir, work, root, url, a, push } = await setUp(t, { maxBytes: 1_000_000 })
  const whole = await pushBody(work, MAIN, a)
  const spoiled = Buffer.concat([whole.subarray(0, -5), Buffer.from('xxxxx')])
  for (const body of [spoiled, whole.subarray(0, -30)]) {
    const sent = await fetch(`${url}/git-receive-pack`, { method: 'POST', body })
    t.match(await sent.text(), /unpack (?!ok).*ng refs\/heads\/main/s)
  }
  const unsound = await userGit(
    work,
    ['hash-object', '-t', 'commit', '-w', '--literally', '--stdin'],
    `tree ${await userGit(work, ['rev-parse', `${a}^{tree}`])}\nno author\n\nx\n`,
  )
  t.match(await push('origin', `${unsound}:${MAIN}`), { code: 1, stderr: /missingAuthor/ })
  const blob = await userGit(work, ['hash-object', '-w', '--stdin'], randomBytes(5_000_000))
  const tree = await userGit(work, ['mktree'], `100644 blob ${blob}\tlarge\n`)
  const large = await userGit(work, ['commit-tree', tree], 'large\n')
  t.match(await push('origin', `${large}:${MAIN}`), { code: 1, stderr: /exceeds maximum allowed size/ })
  t.same(await listRefs(dir), [])
  t.same(await pending(root), [])
  t.same(
    (await readdir(`${dir}/objects`)).filter((name) => name.startsWith('tmp')),
    [],
  )
})

t.test('a push with missing objects is refused ref by ref, and is not a failure of git', async (t) => {
  const { dir, root, url, a, work } = await setUp(t)
  const bodyOf = (refs: Record<string, string>, pack: Buffer) => {
    const lines = Object.entries(refs).map(([ref, to], i) =>
      packet(`${'0'.repeat(40)} ${to} ${ref}${i === 0 ? '\0report-status' : ''}`),
    )
    return new Uint8Array(Buffer.concat([...lines, Buffer.from('0000'), pack]))
  }
  const send = async (refs: Record<string, string>, pack: Buffer) => {
    const sent = await fetch(`${url}/git-receive-pack`, { method: 'POST', body: bodyOf(refs, pack) })
    t.equal(sent.status, 200)
    return await sent.text()
  }
  const nowhere = '12'.repeat(20)
  t.match(await send({ [MAIN]: nowhere }, packOf([])), /ng refs\/heads\/main /)
  const two = await send({ [MAIN]: nowhere, 'refs/heads/two': '34'.repeat(20) }, packOf([]))
  t.match(two, /ng refs\/heads\/main .*ng refs\/heads\/two /s)
  const commitOnly = Buffer.from(
    await userGit(work, ['cat-file', 'commit', a]).then((text) =>
      text.replace(/^tree \w+/, `tree ${nowhere}`),
    ),
  )
  const lacking = idOf('commit', commitOnly)
  t.match(await send({ [MAIN]: lacking }, packOf([packed(1, commitOnly)])), /ng refs\/heads\/main /)
  t.same(await listRefs(dir), [])
  t.same(await pending(root), [])
})

t.test('malformed pushes are client errors; an empty push and a compressed push succeed', async (t) => {
  const { dir, url, work, a } = await setUp(t)
  const send = (body: string | Buffer, headers: Record<string, string> = {}) =>
    fetch(`${url}/git-receive-pack`, { method: 'POST', body, headers })
  t.equal((await send('nonsense')).status, 400)
  t.equal((await send('')).status, 400)
  const line = `${ZERO_ID} ${a} ${MAIN}\0`
  const flush = Buffer.from('0000')
  const misread = {
    'options are promised between other white space': [packet(`${line}report-status\npush-options`), flush],
    'a format without its name': [packet(`${line}object-format`), flush],
    'a history that ends nowhere': [packet(`${line}report-status`), packet('shallow x'), flush],
  }
  for (const [what, front] of Object.entries(misread)) {
    t.equal((await send(Buffer.concat([...front, packOf([])]))).status, 400, what)
  }
  const nothing = await send('0000')
  t.same([nothing.status, await nothing.text()], [200, ''])
  const zipped = await send(gzipSync(await pushBody(work, MAIN, a)), { 'content-encoding': 'gzip' })
  t.match(await zipped.text(), /unpack ok.*ok refs\/heads\/main/s)
  t.equal(await resolveRef(dir, MAIN), a)
})

t.test('a push that crashes git is a client error, and leaves no files', async (t) => {
  const { root, dir, url, work, a, push } = await setUp(t)
  t.match(await push('origin', `${a}:${MAIN}`), { code: 0 })
  const tree = await userGit(work, ['rev-parse', `${a}^{tree}`])
  const body = Buffer.concat([
    packet(`shallow ${tree}`),
    packet(`${ZERO_ID} ${a} refs/heads/other\0report-status`),
    Buffer.from('0000'),
    packOf([]),
  ])
  const answer = await fetch(`${url}/git-receive-pack`, { method: 'POST', body: new Uint8Array(body) })
  // Some git ends with SIGSEGV here, and other git refuses the ref.
  t.ok(answer.status === 400 || (await answer.text()).includes('ng refs/heads/other'), `${answer.status}`)
  t.same(await listRefs(dir), [{ ref: MAIN, sha: a }])
  t.same(await pending(root), [])
})

t.test('a client that disconnects during its push leaves no process, no object and no marker', async (t) => {
  const { dir, root, server, work, url, a } = await setUp(t)
  const body = await pushBody(work, MAIN, a)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(`POST /one.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`)
  socket.write(body.subarray(0, -20))
  await until('the request has come', () => server.requests.length > 0)
  t.same(await pending(root), [], 'git starts when the whole push is there')
  socket.destroy()
  await until(
    'the server knows that the client is gone',
    () => server.requests.at(-1)?.error === 'GitClientGone',
  )
  t.same(await gitProcesses(dir), [])
  t.same(await listRefs(dir), [])
  t.same(await pending(root), [])
  t.same(await readdir(`${dir}/objects`), ['info', 'pack'])
  t.same(await readdir(`${dir}/objects/pack`), [])
})

t.test('a push whose client disconnects during the check is not executed', async (t) => {
  let checking = false
  const { promise: clientIsGone, resolve: gone } = Promise.withResolvers<void>()
  const { dir, root, server, work, url, a } = await setUp(t, {
    async check() {
      checking = true
      await clientIsGone
      return new Map()
    },
  })
  for (const encoding of ['gzip', 'identity']) {
    checking = false
    const body = await pushBody(work, MAIN, a)
    // Stored, not compressed, so that all bytes that were sent are decoded immediately.
    const sent = encoding === 'gzip' ? gzipSync(body, { level: 0 }) : body
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write(`POST /one.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Encoding: ${encoding}\r\n`)
    socket.write(`Content-Length: ${sent.length}\r\n\r\n`)
    socket.write(sent.subarray(0, -30))
    await until('the check runs', () => checking)
    const before = server.connections()
    socket.destroy()
    await until('the connection has ended', () => server.connections() < before)
    gone()
    await until('the request has ended', () => server.requests.at(-1)?.error !== undefined)
    t.equal(server.requests.at(-1)?.error, 'GitClientGone', encoding)
  }
  t.same(await listRefs(dir), [])
  await until('git has ended', async () => (await gitProcesses(dir)).length === 0)
  t.same(await pending(root), [])
})

t.test('a push whose client disconnects after sending it is executed', async (t) => {
  const { dir, root, server, work, url, a } = await setUp(t)
  // git waits for this lock, so it is in the middle of the push when the client disconnects. It looks longer in use
  // than the wait before.
  await writeFile(`${dir}/refs/heads/main.lock`, '')
  const later = new Date(Date.now() + 4000)
  await utimes(`${dir}/refs/heads/main.lock`, later, later)
  const body = await pushBody(work, MAIN, a)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(`POST /one.git/git-receive-pack HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n`)
  socket.write(body)
  await until('git runs', async () => (await gitProcesses(dir)).length > 0)
  await until('git has the objects', async () =>
    (await userGit(dir, ['cat-file', '--batch-check'], a)).endsWith(`commit ${await sizeOf(work, a)}`),
  )
  socket.destroy()
  await rm(`${dir}/refs/heads/main.lock`)
  await until('the update is recorded', () => server.recorded.length > 0)
  t.same(server.recorded, [{ ref: MAIN, from: null, to: a }])
  t.equal(await resolveRef(dir, MAIN), a)
  await until('no marker is left', async () => (await pending(root)).length === 0)
})

async function sizeOf(dir: string, sha: string): Promise<string> {
  return await userGit(dir, ['cat-file', '-s', sha])
}
