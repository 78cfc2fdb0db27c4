import { randomBytes } from 'node:crypto'
import { readdir, rm, writeFile } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { lfsStream } from '../../../src/events/streams.ts'
import { lfsPath } from '../../../src/git/lfs/lfs-files.ts'
import { startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { type Action, LFS_JSON, lfsOf, objectOf } from './lfs-client.ts'

const server = await startTestServer(t, { LFS_MAX_BYTES: '1MiB', LOG_LEVEL: 'silent' })
const alice = await server.as('alice')

async function newRepository(name: string, options: { private?: boolean } = {}) {
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
  const id = data.id ?? 0
  const dir = join(server.dataDir, 'git', `${id}.git`)
  const filesIn = async () =>
    (await readdir(join(dir, 'lfs'), { recursive: true, withFileTypes: true }).catch(() => []))
      .filter((entry) => entry.isFile())
      .map(({ name }) => name)
  return { id, dir, filesIn, ...lfsOf(server, `alice/${name}`) }
}

t.test('an object is uploaded and downloaded at the URLs of a batch, and the log records it', async (t) => {
  const { id, batch, json, filesIn } = await newRepository('assets')
  const content = randomBytes(300_000)
  const object = objectOf(content)
  const wanted = await batch('alice', 'upload', [object])
  t.equal(wanted.status, 200)
  t.ok(wanted.type?.startsWith(LFS_JSON))
  t.equal(wanted.body.transfer, 'basic')
  const [offer] = wanted.body.objects
  t.match(offer, object)
  const upload = offer?.actions?.upload?.href ?? ''
  t.ok(upload.startsWith(`${server.url}/alice/assets.git/info/lfs/`))
  const path = (href = '') => href.slice(server.url.length)
  const sent = await server.fetch('alice', path(upload), { method: 'PUT', body: content })
  t.equal(sent.status, 200)
  t.equal((await json('alice', 'POST', '/verify', object)).status, 200)
  t.equal((await json('alice', 'POST', '/verify', { ...object, size: 1 })).status, 422)
  t.equal((await json('alice', 'POST', '/verify', objectOf('never sent'))).status, 404)

  const again = await batch('alice', 'upload', [object])
  t.same(again.body.objects, [object], 'what is there needs no action')
  const [found] = (await batch(null, 'download', [object])).body.objects
  const got = await server.fetch(null, path(found?.actions?.download?.href))
  t.equal(got.status, 200)
  t.equal(got.headers.get('content-length'), `${object.size}`)
  t.ok(Buffer.from(await got.arrayBuffer()).equals(content))
  t.same(await filesIn(), [object.oid])
  const recorded: unknown[] = []
  for await (const { type, data } of server.services.events.readStream(lfsStream(id)))
    recorded.push({ type, data })
  t.same(recorded, [{ type: 'LfsObjectsAdded', data: { repoId: id, cause: 'upload', objects: [object] } }])
  const history = await server.fetch('alice', '/api/v1/repos/alice/assets/history?type=LfsObjectsAdded')
  t.match(await history.json(), [{ type: 'LfsObjectsAdded', actor: { login: 'alice' } }])
})

t.test('a batch answers for each object: unknown, malformed and too large ones have an error', async (t) => {
  const { batch, json } = await newRepository('batches')
  const unknown = objectOf('nobody has this')
  const odd = { oid: 'abc', size: 3 }
  const large = { ...unknown, size: 1024 * 1024 + 1 }
  const down = await batch('alice', 'download', [unknown, odd])
  t.match(down.body.objects, [{ error: { code: 404 } }, { error: { code: 422 } }])
  const up = await batch('alice', 'upload', [unknown, odd, large])
  t.ok(up.body.objects[0]?.actions?.upload)
  t.match(up.body.objects.slice(1), [{ error: { code: 422 } }, { error: { code: 422, message: /^size/ } }])

  const ask = async (body: object) => (await json('alice', 'POST', '/objects/batch', body)).status
  t.equal(await ask({ operation: 'steal', objects: [] }), 422)
  t.equal(await ask({ operation: 'download' }), 422)
  t.equal(await ask({ operation: 'download', objects: [{ oid: unknown.oid, size: -1 }] }), 422)
  t.equal(await ask({ operation: 'download', objects: Array(1001).fill(unknown) }), 422)
  t.equal(await ask({ operation: 'download', objects: [], transfers: ['ssh'] }), 422)
  t.equal(await ask({ operation: 'download', objects: [], hash_algo: 'sha512' }), 409)
  t.equal(await ask({ operation: 'download', objects: [], transfers: ['ssh', 'basic'] }), 200)
  const text = await server.fetch('alice', '/alice/batches.git/info/lfs/objects/batch', {
    method: 'POST',
    body: 'x',
    headers: { 'content-type': 'text/plain' },
  })
  t.equal(text.status, 415)
})

t.test('bytes with another hash are refused and removed', async (t) => {
  const { batch, put, get, filesIn } = await newRepository('wrong')
  const object = objectOf('right')
  for (const [content, reason] of [
    ['wrong', /SHA-256/],
    ['short', /SHA-256/],
    ['longer than it', /size/],
    ['few', /size/],
  ] as const) {
    const { status, text } = await put('alice', content, object)
    t.equal(status, 422, content)
    t.match(text, reason)
  }
  t.equal((await put('alice', 'x', { oid: 'A'.repeat(64), size: 1 })).status, 422)
  t.equal((await put('alice', 'x'.repeat(1024 * 1024 + 1))).status, 422, 'too large')
  t.same(await filesIn(), [])
  t.match((await batch('alice', 'download', [object])).body.objects, [{ error: { code: 404 } }])
  t.equal((await get('alice', object.oid)).status, 404)
  t.equal((await put('alice', 'right')).status, 200)
  t.equal((await put('alice', '')).status, 200, 'an empty one is an object, too')
  t.equal(await (await get('alice', objectOf('').oid)).text(), '')
})

/** Sends the head of an upload and the first bytes of its body. */
function begin(path: string, object: { size: number }, bytes: string) {
  const { hostname, port } = new URL(server.url)
  const authorization = `Basic ${Buffer.from('alice:password of alice').toString('base64')}`
  const headers = { authorization, 'content-length': object.size, 'content-type': 'application/octet-stream' }
  const request = httpRequest({ hostname, port, method: 'PUT', path, headers })
  request.on('error', () => undefined)
  request.write(bytes)
  return request
}

t.test('an interrupted upload leaves nothing, and can be sent again', async (t) => {
  const { base, put, filesIn } = await newRepository('broken')
  const object = objectOf('a whole object')
  const request = begin(`${base}/objects/${object.oid}/${object.size}`, object, 'a who')
  await until('it arrives', async () => (await filesIn()).length === 1)
  t.notOk((await filesIn()).includes(object.oid), 'until it is checked it has another name')
  request.destroy()
  await until('it is gone', async () => (await filesIn()).length === 0)
  t.equal((await put('alice', 'a whole object')).status, 200)
})

t.test('simultaneous uploads of one object store it once', async (t) => {
  const { put, get, filesIn } = await newRepository('same')
  const content = randomBytes(200_000)
  const answers = await Promise.all(Array.from({ length: 6 }, () => put('alice', content)))
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
  t.same(await filesIn(), [objectOf(content).oid])
  t.ok(Buffer.from(await (await get(null, objectOf(content).oid)).arrayBuffer()).equals(content))
})

t.test('a range request gives a part of an object, and a broken download can be continued', async (t) => {
  const { put, get } = await newRepository('ranges')
  await put('alice', '0123456789')
  const { oid } = objectOf('0123456789')
  const part = await get(null, oid, { range: 'bytes=2-4' })
  t.equal(part.status, 206)
  t.equal(part.headers.get('content-range'), 'bytes 2-4/10')
  t.equal(await part.text(), '234')
  t.equal(await (await get(null, oid, { range: 'bytes=7-' })).text(), '789')
  const beyond = await get(null, oid, { range: 'bytes=10-' })
  t.equal(beyond.status, 416)
  t.equal(beyond.headers.get('content-range'), 'bytes */10')
})

t.test(
  'a user without read access learns nothing about objects, and without write access adds none',
  async (t) => {
    const hidden = await newRepository('hidden', { private: true })
    const open = await newRepository('open')
    await hidden.put('alice', 'secret')
    const object = objectOf('secret')
    for (const login of [null, 'bob'] as const) {
      const status = login === null ? 401 : 404
      t.equal((await hidden.get(login, object.oid)).status, status)
      t.equal((await hidden.batch(login, 'download', [object])).status, status)
      t.equal((await hidden.put(login, 'more')).status, status)
      t.equal((await hidden.json(login, 'POST', '/verify', object)).status, status)
    }
    t.equal((await open.batch(null, 'upload', [object])).status, 401)
    t.equal((await open.batch('bob', 'upload', [object])).status, 403)
    t.equal((await open.put('bob', 'more')).status, 403)
    // The id of an object gives no access to it.
    t.match((await open.batch('alice', 'download', [object])).body.objects, [{ error: { code: 404 } }])
    t.ok((await open.batch('alice', 'upload', [object])).body.objects[0]?.actions?.upload)
    t.equal((await open.get('alice', object.oid)).status, 404)
  },
)

t.test('the actions of a batch work with their own headers: some clients send no others', async (t) => {
  const { batch } = await newRepository('headers', { private: true })
  const content = 'by its headers'
  const object = objectOf(content)
  const follow = (action: Action | undefined, method: string, body?: string, type?: string) =>
    fetch(action?.href ?? '', {
      method,
      headers: { ...action?.header, ...(type && { 'content-type': type }) },
      ...(body && { body }),
    })
  const actions = (await batch('alice', 'upload', [object])).body.objects[0]?.actions
  t.equal((await follow(actions?.upload, 'PUT', content)).status, 200)
  t.equal((await follow(actions?.verify, 'POST', JSON.stringify(object), LFS_JSON)).status, 200)
  const found = (await batch('alice', 'download', [object])).body.objects[0]?.actions
  t.equal(await (await follow(found?.download, 'GET')).text(), content)
  const { put, batch: publicBatch } = await newRepository('no-headers')
  await put('alice', content)
  const open = (await publicBatch(null, 'download', [object])).body.objects[0]?.actions
  t.strictSame(Object.keys(open?.download ?? {}), ['href'], 'an anonymous client has none')
})

t.test('a token needs the scope of each operation', async (t) => {
  const { put, base } = await newRepository('scopes')
  await put('alice', 'there')
  const object = objectOf('there')
  const asked = await server.fetch('alice', '/api/v1/users/alice/tokens', {
    method: 'POST',
    body: JSON.stringify({ name: 'lfs', scopes: ['read:repository'] }),
  })
  const token: { sha1: string } = JSON.parse(await asked.text())
  const as = (operation: string) =>
    server.fetch(null, `${base}/objects/batch`, {
      method: 'POST',
      headers: { authorization: `token ${token.sha1}`, 'content-type': LFS_JSON },
      body: JSON.stringify({ operation, objects: [object] }),
    })
  t.equal((await as('download')).status, 200)
  t.equal((await as('upload')).status, 403)
})

/** Sends an object as bob, and runs something before its last bytes. Resolves to the status. */
async function sentMeanwhile(
  { base, filesIn }: Pick<Awaited<ReturnType<typeof newRepository>>, 'base' | 'filesIn'>,
  { oid, size, content }: ReturnType<typeof objectOf> & { content: string },
  meanwhile: () => Promise<unknown>,
): Promise<number | undefined> {
  const { hostname, port } = new URL(server.url)
  const authorization = `Basic ${Buffer.from('bob:password of bob').toString('base64')}`
  const headers = { authorization, 'content-length': size, 'content-type': 'application/octet-stream' }
  const path = `${base}/objects/${oid}/${size}`
  const request = httpRequest({ hostname, port, method: 'PUT', path, headers })
  const status = new Promise<number | undefined>((resolve) => {
    request.on('response', (answer) => resolve(answer.resume().statusCode))
  })
  request.write(content.slice(0, 5))
  await until('it arrives', async () => (await filesIn()).length === 1)
  await meanwhile()
  request.end(content.slice(5))
  return status
}

t.test('an upload is checked again at its end: a user who lost access meanwhile adds nothing', async (t) => {
  const repository = await newRepository('rights')
  const content = 'sent slowly'
  const object = objectOf(content)
  await alice.repos.repoAddCollaborator('alice', 'rights', 'bob', { permission: 'write' })
  const status = await sentMeanwhile(repository, { ...object, content }, () =>
    alice.repos.repoDeleteCollaborator('alice', 'rights', 'bob'),
  )
  t.equal(status, 403)
  t.match((await repository.batch('alice', 'download', [object])).body.objects, [{ error: { code: 404 } }])
})

t.test('an upload adds nothing to a repository that was archived meanwhile', async (t) => {
  const repository = await newRepository('put-away')
  const content = 'sent slowly'
  const object = objectOf(content)
  await alice.repos.repoAddCollaborator('alice', 'put-away', 'bob', { permission: 'write' })
  const status = await sentMeanwhile(repository, { ...object, content }, () =>
    alice.repos.repoEdit('alice', 'put-away', { archived: true }),
  )
  t.equal(status, 403)
  t.match((await repository.batch('alice', 'download', [object])).body.objects, [{ error: { code: 404 } }])
})

t.test('a file without its event is unused, and the next upload makes it an object', async (t) => {
  const { id, get, put, batch } = await newRepository('killed')
  const { events } = server.services
  const { append } = events
  events.append = async (stream, recorded, expected) => {
    if (stream === lfsStream(id)) throw new StoreUnavailable('killed')
    return append.call(events, stream, recorded, expected)
  }
  t.equal((await put('alice', 'kept')).status, 503)
  events.append = append
  const object = objectOf('kept')
  t.equal((await get('alice', object.oid)).status, 404)
  t.match((await batch('alice', 'download', [object])).body.objects, [{ error: { code: 404 } }])
  t.ok((await batch('alice', 'upload', [object])).body.objects[0]?.actions?.upload)
  t.equal((await put('alice', 'kept')).status, 200)
  t.equal(await (await get('alice', object.oid)).text(), 'kept')
})

t.test('an object whose file was lost is 404, and can be sent again', async (t) => {
  const { dir, get, put, batch, json } = await newRepository('lost')
  await put('alice', 'lost')
  const object = objectOf('lost')
  await rm(join(dir, lfsPath(object.oid)))
  t.equal((await get('alice', object.oid)).status, 404)
  t.equal((await json('alice', 'POST', '/verify', object)).status, 404, 'who has just sent it learns it')
  t.ok((await batch('alice', 'upload', [object])).body.objects[0]?.actions?.upload)
  t.equal((await put('alice', 'lost')).status, 200)
  t.equal((await get('alice', object.oid)).status, 200)
  await writeFile(join(dir, lfsPath(object.oid)), 'los')
  t.ok(
    (await batch('alice', 'upload', [object])).body.objects[0]?.actions?.upload,
    'so is one that is cut off',
  )
})

t.test('the objects of a deleted repository are gone, and their size is counted until then', async (t) => {
  const { id, dir, put } = await newRepository('gone')
  await put('alice', randomBytes(500_000))
  const { diskUsage } = server.services
  await until('it is measured', async () => ((await diskUsage.get(id))?.totalBytes ?? 0) > 500_000)
  await alice.repos.repoDelete('alice', 'gone')
  await t.rejects(readdir(dir), { code: 'ENOENT' })
  await until('it is forgotten', async () => (await diskUsage.get(id)) === undefined)
})
