import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import t from 'tap'
import { startTestServer } from '../../start-server.ts'
import { attachmentRepository, formWith } from './setup.ts'

const server = await startTestServer(t, { ATTACHMENT_ALLOWED_TYPES: '*/*', LOG_LEVEL: 'silent' })
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)
const open = await attachmentRepository(server, 'open')
const comment = await open.say()

async function attach(content: string | Buffer, name: string) {
  const { status, body } = await open.post('alice', comment, formWith(content, name))
  t.equal(status, 201)
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    server.fetch(null, `/attachments/${body.uuid}`, { method, headers })
  return { ...body, get }
}

t.test('browser_download_url gives the file byte for byte, with safe headers', async (t) => {
  const content = randomBytes(100_000)
  const { browser_download_url: url, size } = await attach(content, 'Größe “1”.zip')
  t.ok(url.startsWith(`${server.url}/attachments/`))
  const answer = await fetch(url)
  t.equal(answer.status, 200)
  t.ok(Buffer.from(await answer.arrayBuffer()).equals(content))
  const { headers } = answer
  t.equal(headers.get('content-length'), `${size}`)
  t.equal(headers.get('content-type'), 'application/zip')
  t.equal(headers.get('x-content-type-options'), 'nosniff')
  t.equal(headers.get('content-security-policy'), "default-src 'none'; sandbox")
  t.equal(headers.get('cache-control'), 'private')
  t.match(
    headers.get('content-disposition'),
    /^attachment; filename="[ -~\xa0-\xff]*"; filename\*=UTF-8''Gr%C3%B6%C3%9Fe/,
  )
  t.equal(headers.get('accept-ranges'), 'bytes')
  t.ok(headers.get('etag'))
  t.ok(headers.get('last-modified'))
})

t.test('files that a browser could run are sent as text or bytes; pictures are shown', async (t) => {
  const cases: [content: string | Buffer, name: string, type: string, disposition: RegExp][] = [
    [
      '<html><script>alert(1)</script>',
      'a.html',
      'text/plain; charset=utf-8',
      /^attachment; filename="a.html"$/,
    ],
    ['<svg xmlns="http://www.w3.org/2000/svg"/>', 'a.svg', 'text/plain; charset=utf-8', /^attachment/],
    ['<?xml version="1.0"?><svg/>', 'a.png', 'text/plain; charset=utf-8', /^attachment/],
    ['alert(1)', 'a.js', 'text/plain; charset=utf-8', /^attachment/],
    ['\u0000\u0001<script>', 'a.html', 'application/octet-stream', /^attachment/],
    ['', 'a.html', 'application/octet-stream', /^attachment/],
    [PNG, 'a.html', 'image/png', /^inline; filename="a.html"$/],
    [
      'x\ny',
      'a"; filename=evil.exe',
      'text/plain; charset=utf-8',
      /^attachment; filename="a\\"; filename=evil.exe"$/,
    ],
  ]
  for (const [content, name, type, disposition] of cases) {
    const { get, id } = await attach(content, 'any')
    const path = open.pathOf(comment, `/${id}`)
    await server.fetch('alice', path, { method: 'PATCH', body: JSON.stringify({ name }) })
    const { headers, status } = await get()
    t.equal(status, 200)
    t.equal(headers.get('content-type'), type, name)
    t.match(headers.get('content-disposition'), disposition, name)
    t.equal(headers.get('x-content-type-options'), 'nosniff')
  }
})

t.test('a range request gives a part of the file', async (t) => {
  const { get } = await attach('0123456789', 'a.txt')
  const cases: [range: string, status: number, text: string, contentRange: string | null][] = [
    ['bytes=2-4', 206, '234', 'bytes 2-4/10'],
    ['bytes=8-', 206, '89', 'bytes 8-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=0-100', 206, '0123456789', 'bytes 0-9/10'],
    ['bytes=0-1,4-5', 200, '0123456789', null],
    ['lines=1-2', 200, '0123456789', null],
  ]
  for (const [range, status, text, contentRange] of cases) {
    const answer = await get({ range })
    t.equal(answer.status, status, range)
    t.equal(await answer.text(), text, range)
    t.equal(answer.headers.get('content-range'), contentRange, range)
  }
  const beyond = await get({ range: 'bytes=10-' })
  t.equal(beyond.status, 416)
  t.equal(beyond.headers.get('content-range'), 'bytes */10')
  t.match(beyond.headers.get('content-type'), /^application\/json/)
})

t.test('conditional requests give 304, and a broken transfer can be continued', async (t) => {
  const { get: ask } = await attach('0123456789', 'a.txt')
  // Otherwise fetch bypasses its cache for conditional requests.
  const get = (headers = {}) => ask({ ...headers, 'cache-control': 'max-age=0' })
  const first = await get()
  const etag = `${first.headers.get('etag')}`
  const modified = `${first.headers.get('last-modified')}`
  t.equal((await get({ 'if-none-match': etag })).status, 304)
  t.equal((await get({ 'if-none-match': '"another"' })).status, 200)
  t.equal((await get({ 'if-modified-since': modified })).status, 304)
  t.equal((await get({ 'if-match': '"another"' })).status, 412)
  const resumed = await get({ range: 'bytes=5-', 'if-range': etag })
  t.equal(resumed.status, 206)
  t.equal(await resumed.text(), '56789')
  t.equal((await get({ range: 'bytes=5-', 'if-range': '"another"' })).status, 200)
})

t.test('HEAD gives the same headers without the content', async (t) => {
  const { get } = await attach('0123456789', 'a.txt')
  const [full, head] = [await get(), await get({}, 'HEAD')]
  t.equal(head.status, 200)
  for (const name of ['content-length', 'content-type', 'content-disposition', 'etag', 'accept-ranges']) {
    t.equal(head.headers.get(name), full.headers.get(name), name)
  }
  t.equal(await head.text(), '')
  const none = await server.fetch(null, `/attachments/${'0'.repeat(36)}`, { method: 'HEAD' })
  t.equal(none.status, 404)
})

t.test('attachments.8: only users with read access to the repository read a file', async (t) => {
  const hidden = await attachmentRepository(server, 'hidden', { private: true })
  const { body } = await hidden.post('alice', await hidden.say(), formWith('secret', 'a.txt'))
  const status = async (login: string | null) =>
    (await server.fetch(login, `/attachments/${body.uuid}`)).status
  t.equal(await status(null), 404)
  t.equal(await status('bob'), 404)
  t.equal(await status('alice'), 200)
  t.equal(await status('carol'), 200)
  t.equal(await status('admin'), 200)
  const bad = { authorization: `token ${'0'.repeat(40)}` }
  t.equal((await server.fetch(null, `/attachments/${body.uuid}`, { headers: bad })).status, 401)
})

t.test('an invalid or unknown uuid is not found', async (t) => {
  const { uuid } = await attach('x', 'a.txt')
  const odd = ['x', uuid.toUpperCase(), '..%2flog', '%00', `${uuid}%00`, '0'.repeat(36), '']
  for (const name of odd) {
    t.equal((await server.fetch('admin', `/attachments/${name}`)).status, 404, name)
  }
})

t.test('an attachment whose file is lost is not found', async (t) => {
  const { say, post } = await attachmentRepository(server, 'lost')
  const { body } = await post('alice', await say(), formWith('x', 'a.txt'))
  const status = async () => (await server.fetch(null, `/attachments/${body.uuid}`)).status
  t.equal(await status(), 200)
  await rm(join(server.dataDir, 'attachments', body.uuid.slice(0, 2), body.uuid))
  t.equal(await status(), 404)
})

t.test('a client that stops during a download does not affect other clients', async (t) => {
  const { get, uuid } = await attach(Buffer.alloc(10_000_000), 'large.bin')
  for (let i = 0; i < 10; i++) {
    await new Promise<void>((resolve, reject) => {
      const asked = httpRequest(`${server.url}/attachments/${uuid}`, (answer) => {
        answer.once('data', () => asked.destroy())
        answer.once('close', resolve)
        answer.on('error', () => undefined)
      })
      asked.on('error', reject)
      asked.end()
    })
  }
  t.equal((await get({ range: 'bytes=0-0' })).status, 206)
})
