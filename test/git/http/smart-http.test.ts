import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { PassThrough, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { finished } from 'node:stream/promises'
import { gzipSync } from 'node:zlib'
import t, { type Test } from 'tap'
import { packet } from '../../../src/git/http/pkt-line.ts'
import { decodeBody } from '../../../src/git/http/request-body.ts'
import { uploadPack } from '../../../src/git/http/smart-http.ts'
import { createRepository } from '../../../src/git/repository/repository.ts'
import { until } from '../../until.ts'
import { commit, initWork, setRefs, tryGit, userGit } from '../client.ts'
import { gitProcesses } from '../git-server.ts'
import { serveRepository } from '../served-repository.ts'

/** A server with one repository, which has three commits on main, a branch, a tag and a pull request's ref. */
async function setUp(t: Test) {
  const served = await serveRepository(t)
  const { dir } = served
  const a = await commit(dir, 'a', { f: '1' }, [])
  const b = await commit(dir, 'b', { f: '2' }, [a])
  const c = await commit(dir, 'c', { f: '3' }, [b])
  const side = await commit(dir, 'side', { f: '4' }, [a])
  const refs = { 'refs/heads/main': c, 'refs/heads/side': side, 'refs/tags/v1': b, 'refs/pull/1/head': side }
  await setRefs(dir, refs)
  return { ...served, refs, a, b, c, side }
}

/** A repository whose pack is large enough to fill every buffer between git and a client. */
async function addLargeFile(dir: string): Promise<string> {
  // Stored without compression, which would take most of the time.
  await userGit(dir, ['config', 'core.compression', '0'])
  const sha = await commit(dir, 'large', { large: randomBytes(12_000_000).toString('latin1') }, [])
  await setRefs(dir, { 'refs/heads/large': sha })
  return sha
}

for (const version of ['0', '1', '2']) {
  t.test(`clone, fetch and ls-remote speak protocol version ${version}`, async (t) => {
    const { url, dir, server, root, work, refs, c } = await setUp(t)
    const speak = ['-c', `protocol.version=${version}`]
    await userGit(root, [...speak, 'clone', '-q', url, work])
    t.equal(
      await userGit(work, ['rev-parse', 'HEAD', 'origin/side', 'v1']),
      [c, refs['refs/heads/side'], refs['refs/tags/v1']].join('\n'),
    )
    t.equal(await userGit(work, ['branch', '--show-current']), 'main')

    const d = await commit(dir, 'd', { f: '5' }, [c])
    await userGit(dir, ['update-ref', 'refs/heads/main', d])
    await userGit(work, [...speak, 'fetch', '-q'])
    t.equal(await userGit(work, ['rev-parse', 'origin/main']), d)

    const listed = await userGit(root, [...speak, 'ls-remote', url])
    for (const [ref, sha] of Object.entries({ ...refs, 'refs/heads/main': d })) {
      t.ok(listed.includes(`${sha}\t${ref}`), `${ref} is listed`)
    }
    const spoken = new Set(server.requests.map(({ protocol }) => protocol))
    t.same([...spoken], [version === '0' ? undefined : `version=${version}`])
  })
}

t.test('a shallow clone, a partial clone and a single commit can be fetched', async (t) => {
  const { url, root, a, c, b } = await setUp(t)
  await userGit(root, ['clone', '-q', '--depth=1', url, 'shallow'])
  t.equal(await userGit(`${root}/shallow`, ['rev-list', 'HEAD']), c)
  await userGit(`${root}/shallow`, ['fetch', '-q', '--deepen=1'])
  t.equal(await userGit(`${root}/shallow`, ['rev-list', 'HEAD']), `${c}\n${b}`)
  await userGit(`${root}/shallow`, ['fetch', '-q', '--unshallow'])
  t.equal(await userGit(`${root}/shallow`, ['rev-list', '--count', 'HEAD']), '3')

  const partial = await userGit(root, ['clone', '--filter=blob:none', '--no-checkout', url, 'partial'])
  t.notMatch(partial, /filtering not recognized/)
  t.match(
    await userGit(`${root}/partial`, ['rev-list', '--objects', '--missing=print', 'HEAD']),
    /\?[0-9a-f]{40}/,
  )

  for (const version of ['0', '2']) {
    const work = `${root}/single-${version}`
    await initWork(work)
    await userGit(work, ['-c', `protocol.version=${version}`, 'fetch', '-q', url, a])
    t.equal(await userGit(work, ['rev-parse', 'FETCH_HEAD']), a)
  }
  await initWork(`${root}/pull`)
  await userGit(`${root}/pull`, ['fetch', '-q', url, 'refs/pull/1/head'])
})

t.test('a compressed request is understood', async (t) => {
  const { url, dir, server, root, c } = await setUp(t)
  // git compresses requests of more than a kilobyte. Many wants make the request long enough.
  const many: Record<string, string> = {}
  for (let i = 0; i < 30; i++) many[`refs/heads/b${i}`] = await commit(dir, `b${i}`, { f: `b${i}` }, [c])
  await setRefs(dir, many)
  await userGit(root, ['clone', '-q', '--mirror', url, 'mirror'])
  t.equal(await userGit(`${root}/mirror`, ['for-each-ref']), await userGit(dir, ['for-each-ref']))
  t.ok(
    server.requests.some(({ encoding }) => encoding === 'gzip'),
    'git compressed the request',
  )
})

t.test('an empty repository can be cloned, a missing one cannot', async (t) => {
  const { server, root } = await setUp(t)
  await createRepository(`${root}/empty.git`, { defaultBranch: 'trunk' })
  await userGit(root, ['clone', '-q', `${server.url}/empty.git`, 'empty'])
  t.equal(await userGit(`${root}/empty`, ['symbolic-ref', 'HEAD']), 'refs/heads/trunk')
  const missing = await tryGit(root, ['clone', '-q', `${server.url}/none.git`, 'none'])
  t.not(missing.code, 0)
  t.match(missing.stderr, /not found/)
  await t.rejects(uploadPack(`${root}/none.git`, Readable.from([])), { name: 'RepositoryMissing' })
})

t.test("a body is decoded by its encoding; a body that can't be decoded is a client error", async (t) => {
  const zipped = () => Readable.from([gzipSync('hello'.repeat(1000))])
  t.equal((await buffer(decodeBody(zipped(), 'gzip'))).toString(), 'hello'.repeat(1000))
  t.equal((await buffer(decodeBody(zipped(), ' X-GZIP'))).length, 5000)
  t.equal((await buffer(decodeBody(Readable.from([Buffer.from('plain')]), undefined))).toString(), 'plain')
  t.equal((await buffer(decodeBody(Readable.from([Buffer.from('plain')]), 'identity'))).toString(), 'plain')
  t.throws(() => decodeBody(zipped(), 'br'), { name: 'UnknownContentEncoding' })
  await t.rejects(buffer(decodeBody(Readable.from([Buffer.from('plain')]), 'gzip')), {
    name: 'MalformedGitRequest',
  })
  await t.rejects(buffer(decodeBody(Readable.from([gzipSync('x').subarray(0, 10)]), 'gzip')), {
    name: 'MalformedGitRequest',
  })
  const broken = new PassThrough()
  const decoded = buffer(decodeBody(broken, 'gzip'))
  broken.destroy()
  await t.rejects(decoded, { name: 'GitClientGone' })
})

t.test('a request that exceeds the limit after decompression is refused', async (t) => {
  const { dir, url, c } = await setUp(t)
  const bomb = gzipSync(Buffer.alloc(35 * 1024 * 1024, `0032want ${c}\n`))
  t.ok(bomb.length < 1_000_000)
  const response = await fetch(`${url}/git-upload-pack`, {
    method: 'POST',
    body: bomb,
    headers: { 'content-encoding': 'gzip' },
  })
  t.equal(response.status, 413)
  await response.text()
  await until('git has ended', async () => (await gitProcesses(dir)).length === 0)
  const spoiled = await fetch(`${url}/git-upload-pack`, {
    method: 'POST',
    body: 'no gzip',
    headers: { 'content-encoding': 'gzip' },
  })
  t.equal(spoiled.status, 400)
})

t.test(
  'a gzip body that decompresses to far more than was sent is ended, and not decompressed further',
  async (t) => {
    const bomb = Readable.from([gzipSync(Buffer.alloc(64 * 1024 * 1024))])
    const decoded = decodeBody(bomb, 'gzip')
    let size = 0
    decoded.on('data', (chunk: Buffer) => {
      size += chunk.length
    })
    await t.rejects(finished(decoded), { name: 'GitRequestTooLarge' })
    t.ok(size <= 32 * 1024 * 1024, `${size} bytes`)
    await until('the whole body is read, so that its client reads the answer', () => bomb.readableEnded)
    const half = Buffer.concat([randomBytes(6 * 1024 * 1024), Buffer.alloc(34 * 1024 * 1024)])
    t.equal((await buffer(decodeBody(Readable.from([gzipSync(half)]), 'gzip'))).length, half.length)
  },
)

t.test('a malformed request or protocol header is an error, not a crash', async (t) => {
  const { url, root } = await setUp(t)
  const nonsense = await fetch(`${url}/git-upload-pack`, { method: 'POST', body: 'GET / HTTP/1.1' })
  t.not(nonsense.status, 404)
  await nonsense.text()
  const listed = await fetch(`${url}/info/refs?service=git-upload-pack`, {
    headers: { 'git-protocol': 'x=$(touch /tmp/x):version=9:version=1' },
  })
  t.match(await listed.text(), /^001e# service=git-upload-pack\n0000000eversion 1\n/)
  t.match(await userGit(root, ['ls-remote', url]), /refs\/heads\/main/)
})

t.test('a fetch with an impossible request is a client error, not a failure of git', async (t) => {
  const { url, c } = await setUp(t)
  const asked = (capabilities: string[], lines: string[]) =>
    fetch(`${url}/git-upload-pack`, {
      method: 'POST',
      headers: { 'git-protocol': 'version=2' },
      body: new Uint8Array(
        Buffer.concat([
          ...['command=fetch\n', ...capabilities].map((line) => packet(line)),
          Buffer.from('0001'),
          ...[`want ${c}\n`, ...lines, 'done\n'].map((line) => packet(line)),
          Buffer.from('0000'),
        ]),
      ),
    })
  const impossible = [
    ['deepen -1\n'],
    ['deepen x\n'],
    ['deepen-since 99999999999999999999\n'],
    ['deepen-not refs/heads/nowhere\n'],
    ['shallow x\n'],
    ['filter x\n'],
    ['filter tree:x\n'],
    ['filter blob:limit=x\n'],
    ['nonsense\n'],
    ['filter blob:limit=99999999999999999999999\n'],
    ['filter combine:%zz+tree:0\n'],
    ['unable to read Permission denied\n'],
  ]
  for (const lines of impossible) {
    const answer = await asked([], lines)
    const text = await answer.text()
    t.ok(answer.status === 400 || /^....ERR /.test(text), `${lines}: ${answer.status} ${text.slice(0, 50)}`)
  }
  const unknown = [
    'command=ls-refs\n',
    'command=fetch\n',
    'object-format=x\n',
    'object-format\n',
    'object-format=sha256\n',
    'nonsense\n',
  ]
  for (const line of unknown) t.equal((await asked([line], [])).status, 400, line)
  const lines = [`want ${c} ofs-delta\n`, 'filter blob:none\n'].map((text) => packet(text))
  const old = await fetch(`${url}/git-upload-pack`, {
    method: 'POST',
    body: new Uint8Array(Buffer.concat([...lines, Buffer.from('0000'), packet('done\n')])),
  })
  t.equal(old.status, 400, 'a filter in version 0')
})

t.test('a shallow fetch without further commits is answered', async (t) => {
  const { url, root } = await setUp(t)
  const problems = {
    '--shallow-exclude=nowhere': /remote error: upload-pack: ambiguous deepen-not: deepen-not nowhere/,
    '--shallow-exclude=main': /remote error: upload-pack: no commits selected for shallow requests/,
  }
  for (const version of ['0', '2']) {
    for (const [wish, said] of Object.entries(problems)) {
      const clone = ['-c', `protocol.version=${version}`, 'clone', '-q', '--single-branch', wish, url, 'none']
      t.match(await tryGit(root, clone), { code: 128, stderr: said }, `${version} ${wish}`)
    }
  }
})

t.test('a client that disconnects during a clone leaves no process', async (t) => {
  const { dir, url, server } = await setUp(t)
  const sha = await addLargeFile(dir)
  const body = `0032want ${sha}\n00000009done\n`
  const { port } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.write(
    `POST /one.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await new Promise((resolve) => socket.once('data', resolve))
  socket.pause()
  t.ok((await gitProcesses(dir)).length > 0, 'git is still running')
  socket.destroy()
  await until('git has ended', async () => (await gitProcesses(dir)).length === 0)
  await until('the request has ended', () => server.requests.at(-1)?.error !== undefined)
})

t.test(
  'git starts with the complete request; a client that disconnects earlier starts no process',
  async (t) => {
    const { dir, url, server } = await setUp(t)
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.write('POST /one.git/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n0032want')
    await until('the request has come', () => server.requests.length > 0)
    t.same(await gitProcesses(dir), [])
    socket.destroy()
    await until(
      'the server knows that the client is gone',
      () => server.requests.at(-1)?.error === 'GitClientGone',
    )
    t.same(await gitProcesses(dir), [])
  },
)

t.test('a server that shuts down ends its transfers', async (t) => {
  const { dir, url, server } = await setUp(t)
  const sha = await addLargeFile(dir)
  const response = await fetch(`${url}/git-upload-pack`, {
    method: 'POST',
    body: `0032want ${sha}\n00000009done\n`,
    headers: { 'git-protocol': 'version=0' },
  })
  t.equal(response.status, 200)
  server.shutDown.abort(new Error('shutting down'))
  await t.rejects(response.arrayBuffer())
  await until('git has ended', async () => (await gitProcesses(dir)).length === 0)
})
