// In a process of its own: the limit of the memory of git is one for a process.
import { createHash } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { connect } from 'node:net'
import { deflateSync } from 'node:zlib'
import t from 'tap'
import { packet } from '../../src/git/http/pkt-line.ts'
import { gitIn, workTree } from '../git-client.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'
import { deltaAdding, idOf, packed, packOf } from './packs.ts'

const server = await startTestServer(t, {
  LOG_LEVEL: 'silent',
  GIT_READ_SLOTS: '2',
  GIT_PUSH_SLOTS: '2',
  GIT_MEMORY_BYTES: '64MiB',
})
// All clients here are hostile. The memory limit applies to the whole process.
const impatient = await startTestServer(t, {
  LOG_LEVEL: 'silent',
  GIT_GRACE_MS: '200',
  GIT_MEMORY_BYTES: '64MiB',
})
const alice = await server.as('alice')

async function repository(name: string) {
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true })
  const work = await workTree(t, server.gitUrl('alice', `alice/${name}`))
  const dir = `${server.services.gitDir}/${data.id}.git`
  return { name, work, dir, url: `${server.url}/alice/${name}.git` }
}

/** Opens a connection and sends a part of a request; resolves to the server's answer. */
function halfOpen(url: string, path: string, body: string): { answer: Promise<string>; close(): void } {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  const answer = new Promise<string>((resolve) => {
    let text = ''
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
    })
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(text))
  })
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-git-upload-pack-request\r\nContent-Length: 5000\r\n\r\n${body}`,
  )
  return { answer, close: () => socket.destroy() }
}

/** A fetch in version 2 of the protocol. Resolves to the beginning of the answer. */
async function fetchIds(url: string, lines: string[], login: string | null = null): Promise<string> {
  const path = `${new URL(url).pathname}/git-upload-pack`
  const body = Buffer.concat([
    packet('command=fetch\n'),
    packet('object-format=sha1'),
    Buffer.from('0001'),
    ...lines.map((line) => packet(`${line}\n`)),
    Buffer.from('0000'),
  ])
  const answer = await server.fetch(login, path, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-upload-pack-request', 'git-protocol': 'version=2' },
    body: new Uint8Array(body),
  })
  return Buffer.from(await answer.arrayBuffer()).toString('latin1')
}

t.test('line 1: sixteen sockets with half a request hold no slot: clones and pushes continue', async (t) => {
  const { work, url, name } = await repository('dripped')
  const half = Array.from({ length: 16 }, () =>
    halfOpen(server.url, `/alice/${name}.git/git-upload-pack`, '0032w'),
  )
  const clone = await workTree(t)
  await clone.git('clone', '-q', url, 'inner')
  await work.commit('On', { 'a.txt': 'a\n' })
  await work.git('push', '-q', 'origin', 'main')
  t.same(server.services.gitLimits.reads.slots.counts(), { running: 0, waiting: 0 })
  for (const { close } of half) close()
})

t.test(
  'line 1: slots are shared per address, and a client with too many waiting requests gets 429 with Retry-After',
  async (t) => {
    const { name } = await repository('shared')
    const { slots } = server.services.gitLimits.reads
    // The share of one address is a quarter, but at least one slot.
    const release = await slots.take('address 127.0.0.1')
    const asked = Array.from({ length: 12 }, () =>
      server.fetch(null, `/alice/${name}.git/info/refs?service=git-upload-pack`),
    )
    // A quarter of the 32 places is for one address.
    await until('the places are taken', async () => slots.counts().waiting === 8)
    const refused = await Promise.any(asked)
    t.equal(refused.status, 429)
    t.equal(refused.headers.get('retry-after'), '1')
    const others = await slots.take('address 192.0.2.1')
    t.equal(
      (await server.fetch('alice', `/alice/${name}.git/info/refs?service=git-receive-pack`)).status,
      200,
      'reads never take what pushes need',
    )
    others()
    release()
    const statuses = (await Promise.all(asked)).map(({ status }) => status).sort()
    t.same(statuses, [...Array.from({ length: 8 }, () => 200), ...Array.from({ length: 4 }, () => 429)])
  },
)

t.test('line 1: concurrently read bodies are shared per address as well', async (t) => {
  const { name } = await repository('bodies')
  const { reads } = server.services.gitLimits
  const places = await Promise.all(Array.from({ length: 64 }, () => reads.placeForBody('address 127.0.0.1')))
  const ask = (login: string | null) =>
    server.fetch(login, `/alice/${name}.git/git-upload-pack`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-git-upload-pack-request', 'git-protocol': 'version=2' },
      body: `${packet('command=ls-refs\n')}${packet('object-format=sha1')}0000`,
    })
  const refused = await ask(null)
  t.same([refused.status, refused.headers.get('retry-after')], [429, '1'])
  t.equal((await ask('alice')).status, 200, 'others have their own')
  for (const leave of places) leave()
  t.equal((await ask(null)).status, 200)
})

t.test('line 5: only cheap filters are allowed', async (t) => {
  const { work, url } = await repository('filtered')
  const head = await work.git('rev-parse', 'HEAD')
  for (const filter of ['blob:none', 'blob:limit=10', 'tree:0']) {
    t.match(await fetchIds(url, [`want ${head}`, `filter ${filter}`, 'done']), /PACK/, filter)
  }
  for (const filter of [`sparse:oid=${head}`, 'object:type=blob', 'combine:blob:none+tree:0']) {
    t.match(await fetchIds(url, [`want ${head}`, `filter ${filter}`, 'done']), /ERR .*not supported/, filter)
  }
})

/** A pack with one blob-free bomb: a tree of 200 MB that takes 200 KB. */
function bomb(): Buffer {
  const size = 200 * 1024 * 1024
  const header: number[] = []
  let rest = Math.floor(size / 16)
  header.push(0x80 | (2 << 4) | (size % 16))
  while (rest >= 128) {
    header.push(0x80 | (rest % 128))
    rest = Math.floor(rest / 128)
  }
  header.push(rest)
  const front = Buffer.from('PACK\0\0\0\x02\0\0\0\x01', 'latin1')
  return Buffer.concat([front, Buffer.from(header), deflateSync(Buffer.alloc(size)), Buffer.alloc(20)])
}

t.test(
  "line 5: a small pack that unfolds beyond git's limit is refused with a reason and leaves no files",
  async (t) => {
    const { dir, work, name } = await repository('bombed')
    const command = packet(`${'0'.repeat(40)} ${'1'.repeat(40)} refs/heads/bomb\0report-status side-band-64k`)
    const answer = await server.fetch('alice', `/alice/${name}.git/git-receive-pack`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-git-receive-pack-request' },
      body: new Uint8Array(Buffer.concat([command, Buffer.from('0000'), bomb()])),
    })
    t.equal(answer.status, 200)
    const text = Buffer.from(await answer.arrayBuffer()).toString('latin1')
    t.match(text, /the push needs more memory than this server gives to a git process/)
    t.match(text, /ng refs\/heads\/bomb/)
    t.same(
      (await readdir(`${dir}/objects`)).filter((entry) => entry.startsWith('tmp')),
      [],
    )
    await work.commit('On', { 'a.txt': 'a\n' })
    await work.git('push', '-q', 'origin', 'main')
  },
)

t.test('line 11: unreachable objects are not served by id', async (t) => {
  const { work, url, dir } = await repository('hidden')
  const first = await work.git('rev-parse', 'HEAD')
  const shown = await work.commit('Shown', { 'a.txt': 'shown\n' })
  const shownBlob = await work.git('rev-parse', `${shown}:a.txt`)
  const later = await work.commit('Later', { 'a.txt': 'later\n' })
  await work.git('push', '-q', 'origin', 'main')
  await work.git('checkout', '-q', '-b', 'secret', first)
  const secret = await work.commit('Secret', { 'b.txt': 'secret\n' })
  const secretBlob = await work.git('rev-parse', `${secret}:b.txt`)
  const secretTree = await work.git('rev-parse', `${secret}^{tree}`)
  await work.git('push', '-q', 'origin', 'secret')
  const ask = (id: string) => fetchIds(url, [`want ${id}`, 'done'])
  t.match(await ask(secret), /PACK/, 'while a branch has it')
  await work.git('push', '-q', 'origin', ':secret')
  t.equal(await gitIn(dir, ['cat-file', '-t', secret]), 'commit', 'git has it still')
  for (const id of [secret, secretBlob, secretTree, '12'.repeat(20)]) {
    t.match(await ask(id), new RegExp(`ERR upload-pack: not our ref ${id}`))
  }
  t.match(await ask(secret.toUpperCase()), /not our ref/)
  const many = Array.from({ length: 3000 }, (_, i) => `want ${`${i + 1}`.padStart(40, '0')}`)
  const firstOfMany = await fetchIds(url, [`want ${shown}`, `want ${shownBlob}`, ...many, 'done'])
  t.match(firstOfMany, new RegExp(`not our ref ${'1'.padStart(40, '0')}`), 'the first of very many')
  t.match(
    await fetchIds(url, [`want ${later}`, `want ${secretBlob} x`, 'done']),
    /not our ref/,
    'nor beside others',
  )
  for (const id of [later, shown, first, shownBlob])
    t.match(await ask(id), /PACK/, 'what refs reach is served')
  const clone = await workTree(t)
  await clone.git('clone', '-q', '--filter=blob:none', url, 'inner')
  t.equal(
    await clone.git('-C', 'inner', 'show', `${shown}:a.txt`),
    'shown',
    'a partial clone gets what it lacks',
  )
  for (const version of ['0', '1', '2']) {
    await t.rejects(
      clone.git('-c', `protocol.version=${version}`, 'fetch', '-q', url, secret),
      /not our ref/,
      `in version ${version}`,
    )
  }
  const info = await server.fetch(null, '/alice/hidden.git/git-upload-pack', {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-upload-pack-request', 'git-protocol': 'version=2' },
    body: `${packet('command=object-info\n')}0001${packet('size\n')}${packet(`oid ${secret}\n`)}0000`,
  })
  t.equal(info.status, 400)
})

t.test('line 11: unreachable objects are not revived by a push of a ref to them', async (t) => {
  const { work, name } = await repository('revived')
  await work.git('checkout', '-q', '-b', 'secret')
  const secret = await work.commit('Secret', { 'b.txt': 'secret\n' })
  await work.git('push', '-q', 'origin', 'secret')
  await work.git('push', '-q', 'origin', ':secret')
  const header = Buffer.from('PACK\0\0\0\x02\0\0\0\0', 'latin1')
  const none = Buffer.concat([header, createHash('sha1').update(header).digest()])
  const push = async (id: string) => {
    const command = packet(`${'0'.repeat(40)} ${id} refs/heads/again\0report-status side-band-64k`)
    const answer = await server.fetch('alice', `/alice/${name}.git/git-receive-pack`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-git-receive-pack-request' },
      body: new Uint8Array(Buffer.concat([command, Buffer.from('0000'), none])),
    })
    return Buffer.from(await answer.arrayBuffer()).toString('latin1')
  }
  t.match(await push(secret), /ng refs\/heads\/again no branch or tag has [0-9a-f]{40}/)
  t.match(await push(await work.git('rev-parse', 'main')), /ok refs\/heads\/again/, 'a branch has it')
  t.notMatch(await work.git('ls-remote', 'origin'), secret)
  await work.git('push', '-q', 'origin', 'secret')
  t.match(await work.git('ls-remote', 'origin'), secret, 'who has it may bring it back')
})

/** The same objects as padding, so that git stores the pack with an index. */
const padding = (count: number) =>
  Array.from({ length: count }, (_, i) => packed(3, Buffer.from(`padding ${i}\n`)))

for (const [kind, more] of [
  ['small', []],
  ['indexed', padding(12)],
] as const) {
  t.test(`line 11: new commits do not revive unreachable objects (${kind} pack)`, async (t) => {
    const { work, name, dir } = await repository(`borrowed-${kind}`)
    const main = await work.git('rev-parse', 'HEAD')
    await work.git('checkout', '-q', '-b', 'secret')
    const words = Array.from({ length: 300 }, (_, i) => `secret ${i}\n`).join('')
    const secret = await work.commit('Secret', { 'b.txt': words })
    const secretBlob = await work.git('rev-parse', `${secret}:b.txt`)
    const secretTree = await work.git('rev-parse', `${secret}^{tree}`)
    await work.git('push', '-q', 'origin', 'secret')
    await work.git('push', '-q', 'origin', ':secret')
    t.equal(await gitIn(dir, ['cat-file', '-t', secret]), 'commit', 'git has it still')
    let n = 0
    const push = async (objects: Buffer[], tip: string) => {
      const ref = `refs/heads/again-${n++}`
      const command = packet(`${'0'.repeat(40)} ${tip} ${ref}\0report-status side-band-64k`)
      const answer = await server.fetch('alice', `/alice/${name}.git/git-receive-pack`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-git-receive-pack-request' },
        body: new Uint8Array(Buffer.concat([command, Buffer.from('0000'), packOf([...objects, ...more])])),
      })
      return Buffer.from(await answer.arrayBuffer()).toString('latin1')
    }
    const person = 'A <a@example.org> 1700000000 +0000'
    const commitOf = (tree: string, parent: string) =>
      Buffer.from(`tree ${tree}\nparent ${parent}\nauthor ${person}\ncommitter ${person}\n\n${n}\n`)
    const treeOf = (blob: string) => Buffer.concat([Buffer.from('100644 b.txt\0'), Buffer.from(blob, 'hex')])
    const mainTree = await work.git('rev-parse', `${main}^{tree}`)
    const before = await server.services.events.lastPosition()

    const child = commitOf(mainTree, secret)
    t.match(await push([packed(1, child)], idOf('commit', child)), /ng \S+ no branch or tag has/, 'a parent')
    const withTree = commitOf(secretTree, main)
    t.match(
      await push([packed(1, withTree)], idOf('commit', withTree)),
      /ng \S+ no branch or tag has/,
      'a tree',
    )
    const tree = treeOf(secretBlob)
    const withBlob = commitOf(idOf('tree', tree), main)
    t.match(
      await push([packed(2, tree), packed(1, withBlob)], idOf('commit', withBlob)),
      new RegExp(`ng \\S+ no branch or tag has ${secretBlob}`),
      'a file',
    )
    const delta = deltaAdding('!', Buffer.byteLength(words))
    const grown = Buffer.from(`${words}!`)
    const treeOfGrown = treeOf(idOf('blob', grown))
    const withDelta = commitOf(idOf('tree', treeOfGrown), main)
    t.match(
      await push(
        [packed(7, delta, secretBlob), packed(2, treeOfGrown), packed(1, withDelta)],
        idOf('commit', withDelta),
      ),
      new RegExp(`ng \\S+ no branch or tag has ${secretBlob}`),
      'what a delta builds on',
    )
    t.match(await work.git('ls-remote', 'origin', 'refs/heads/again*'), '')
    t.equal(await server.services.events.lastPosition(), before, 'nothing is recorded')

    const own = await work.git('cat-file', 'commit', secret)
    t.match(
      await push(
        [
          packed(1, Buffer.from(`${own}\n`)),
          packed(2, treeOf(secretBlob)),
          packed(3, Buffer.from(words)),
          packed(7, delta, secretBlob),
          packed(1, child),
        ],
        idOf('commit', child),
      ),
      /ng \S+ no branch or tag has/,
      'a part of the history is not enough',
    )
    await work.git('checkout', '-q', 'secret')
    await work.commit('On it', { 'b.txt': `${words}more\n` })
    await work.git('push', '-q', 'origin', 'secret')
    t.match(await work.git('ls-remote', 'origin', 'secret'), /refs/, 'who has all of it may bring it back')
  })
}

t.test('line 11: honest pushes of existing objects are accepted', async (t) => {
  const { work, url } = await repository('honest')
  const first = await work.git('rev-parse', 'HEAD')
  const text = (line: string) => `${'the same words\n'.repeat(200)}${line}\n`
  for (const line of ['one', 'two', 'one', 'three']) {
    await work.commit(line, { 'a.txt': text(line), 'b.txt': text(`${line} b`) })
    await work.git('push', '-q', 'origin', 'main')
  }
  await work.git('revert', '--no-edit', 'HEAD')
  await work.git('push', '-q', 'origin', 'main', 'HEAD:refs/heads/same', `${first}:refs/heads/first`)
  await work.git('tag', '-a', '-m', 'v1', 'v1', first)
  await work.git('push', '-q', 'origin', 'v1')
  await work.git('checkout', '-q', '-b', 'side', 'main~2')
  for (let i = 0; i < 8; i++)
    await work.commit(`side ${i}`, { 'c.txt': text(`c ${i}`), 'ä b.txt': text(`${i}`) })
  await work.git('push', '-q', 'origin', 'side')
  await work.git('push', '-q', 'origin', ':side')
  await work.git('push', '-q', 'origin', 'side')
  const shallow = await workTree(t)
  await shallow.git('fetch', '-q', '--depth=1', server.gitUrl('alice', 'alice/honest'), 'main')
  await shallow.git('reset', '-q', '--hard', 'FETCH_HEAD')
  await shallow.commit('from a shallow clone', { 'a.txt': text('shallow') })
  await shallow.git('push', '-q', server.gitUrl('alice', 'alice/honest'), 'HEAD:main')
  const refs = await work.git('ls-remote', url)
  for (const ref of ['main', 'same', 'first', 'side']) t.match(refs, `refs/heads/${ref}`)
  t.match(refs, 'refs/tags/v1')
})

t.test('line 5: a slow body has a total deadline: 408, and the connection ends', async (t) => {
  const there = await impatient.as('alice')
  await there.user.createCurrentUserRepo({ name: 'dripped', auto_init: true })
  const { answer } = halfOpen(impatient.url, '/alice/dripped.git/git-upload-pack', '0032w')
  t.match(await answer, /^HTTP\/1.1 408 .*connection: close/is)
})

t.test(
  'line 5: a fetch has at most 10,000 shallow commits and leaves out at most 100 refs: 400',
  async (t) => {
    const { work, url } = await repository('bounded')
    await work.git('fetch', '-q')
    const head = await work.git('rev-parse', 'origin/main')
    const fetchLines = (count: number, line: (n: number) => string) =>
      fetchIds(url, [`want ${head}`, ...Array.from({ length: count }, (_, n) => line(n)), 'done'], 'alice')
    const shallow = (n: number) => `shallow ${n.toString(16).padStart(40, 'a')}`
    t.match(await fetchLines(10_001, shallow), /a fetch may have at most 10000 lines of shallow/)
    t.match(await fetchLines(500, shallow), /PACK/)
    t.match(
      await fetchLines(101, () => 'deepen-not refs/heads/main'),
      /a fetch may have at most 100 lines of deepen-not/,
    )
  },
)
