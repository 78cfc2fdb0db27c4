/** Long base64 in JSON is decoded as it arrives; the rest of a body is parsed as any other JSON. */
import { createHash, randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import Fastify from 'fastify'
import t from 'tap'
import { registerErrors } from '../../../src/http/answers/errors.ts'
import { base64In, readBase64Bodies } from '../../../src/http/bodies/base64-bodies.ts'
import { until } from '../../until.ts'
import { rawClient, requestText } from '../raw-client.ts'

const hashOf = (bytes: Buffer) => createHash('sha1').update(bytes).digest('hex')

const app = Fastify({ logger: false })
registerErrors(app, () => '')
readBase64Bodies(app, { key: 'content', maxTextBytes: 40_000 })
app.post('/', { bodyLimit: 400_000 }, async (request) => {
  /** The body with the result of each `content` text in its place. */
  const shown = JSON.stringify(request.body, (key, value: unknown) => {
    if (key !== 'content' || typeof value !== 'string') return value
    const parts = base64In(request, value)
    return parts === undefined ? 'wrong' : { hash: hashOf(Buffer.concat(parts)) }
  })
  return JSON.parse(shown)
})
t.teardown(() => app.close())

/** Sends the text in chunks of this many bytes; without a length. */
async function send(text: string, chunk = 1000) {
  const bytes = Buffer.from(text)
  const chunks = Array.from({ length: Math.ceil(bytes.length / chunk) }, (_, i) =>
    bytes.subarray(i * chunk, (i + 1) * chunk),
  )
  const answer = await app.inject({
    method: 'POST',
    url: '/',
    headers: { 'content-type': 'application/json' },
    payload: Readable.from(chunks),
  })
  return { status: answer.statusCode, json: answer.statusCode === 200 ? answer.json() : answer.body }
}

/** Past 16 KiB, from where a text is decoded as it arrives. */
const long = randomBytes(15_001).toString('base64')
const short = randomBytes(100).toString('base64')
const shown = (base64: string) => ({ hash: hashOf(Buffer.from(base64, 'base64')) })

t.test('short and long contents give their bytes, at any chunk boundaries', async (t) => {
  const body = {
    message: `"quoted" \\ {"content":"${'A'.repeat(20_000)}"}`,
    files: [{ content: long }, { content: short, other: ['content', long.slice(0, 8000)] }, { content: '' }],
    content: 5,
  }
  const expected = {
    ...body,
    files: [
      { content: shown(long) },
      { content: shown(short), other: ['content', long.slice(0, 8000)] },
      { content: shown('') },
    ],
  }
  for (const chunk of [1, 7, 1000, 65_536, 1_000_000]) {
    // An indented one is as long again, byte by byte.
    const texts = chunk === 1 ? [JSON.stringify(body)] : [JSON.stringify(body), JSON.stringify(body, null, 2)]
    for (const text of texts) {
      const { status, json } = await send(text, chunk)
      t.equal(status, 200)
      t.same(json, expected, `chunks of ${chunk}`)
    }
  }
})

t.test('escapes and line ends of clients are read; invalid base64 is detected', async (t) => {
  const lines = JSON.stringify({ content: long.replace(/.{76}/g, '$&\r\n') })
  const escaped = lines.replaceAll('/', '\\/')
  for (const chunk of [1, 1000]) t.same((await send(escaped, chunk)).json, { content: shown(long) })
  for (const wrong of [
    `${long.slice(0, -1)}`,
    `${long}=`,
    `${long}AAAA`,
    `!${long}`,
    `${long}\\u0041`,
    'Q',
    '-_-_',
  ]) {
    t.same((await send(`{"content":"${wrong}"}`)).json, { content: 'wrong' }, wrong.slice(-20))
  }
  t.same((await send(`{"content":"${long.replace('==', '')}"}`)).json, {
    content: long.endsWith('==') ? 'wrong' : shown(long),
  })
})

t.test('only base64 may be long; broken JSON is refused', async (t) => {
  t.equal((await send(`{"content":"${'A'.repeat(400_000)}"}`)).status, 413, 'all of the body')
  t.equal((await send(`{"message":"${'A'.repeat(40_000)}"}`)).status, 413, 'the rest of it')
  t.equal((await send(`{"content":"${'A'.repeat(100_000)}`)).status, 400, 'no end')
  t.equal((await send(`{"content":"${'A'.repeat(100_000)}"`)).status, 400)
  t.equal((await send(`${'['.repeat(40)}`)).status, 400, 'nested too deeply')
  t.equal((await send('{"content" "x"}')).status, 400)
})

t.test('content of nothing but escapes, or in very small chunks, becomes few buffers', async (t) => {
  const app = Fastify({ logger: false })
  registerErrors(app, () => '')
  readBase64Bodies(app, { key: 'content', maxTextBytes: 40_000 })
  app.post<{ Body: { content: string } }>('/', { bodyLimit: 400_000 }, async (request) => {
    const parts = base64In(request, request.body.content)
    return { buffers: parts?.length, bytes: parts && Buffer.concat(parts).length }
  })
  t.teardown(() => app.close())
  async function decoded(content: string, chunk: number) {
    const bytes = Buffer.from(`{"content":"${content}"}`)
    const chunks = Array.from({ length: Math.ceil(bytes.length / chunk) }, (_, i) =>
      bytes.subarray(i * chunk, (i + 1) * chunk),
    )
    const headers = { 'content-type': 'application/json' }
    const answer = await app.inject({ method: 'POST', url: '/', headers, payload: Readable.from(chunks) })
    return answer.json()
  }
  for (const chunk of [1, 1000, 65_536]) {
    // Byte by byte takes an iteration of the event loop for each.
    const length = chunk === 1 ? 40_000 : 160_000
    const slashes = await decoded('\\/'.repeat(length), chunk)
    t.equal(slashes.bytes, (length / 4) * 3)
    t.ok(slashes.buffers <= 12, `${slashes.buffers} buffers of ${chunk} bytes`)
    t.same(await decoded('\\n'.repeat(length), chunk), { buffers: 0, bytes: 0 })
    t.same(await decoded('\\\\n'.repeat(length / 2), chunk), {}, 'an escaped backslash is no base64')
    t.same(await decoded(`${'A'.repeat(20_000)}\\`.concat('\\'), chunk), {})
  }
})

t.test('a body with very many texts gives 413', async (t) => {
  t.equal((await send(`{"files":[${'"",'.repeat(12_000)}""]}`)).status, 413)
  t.equal((await send(`{"files":[${'{"content":""},'.repeat(2000)}{}]}`)).status, 200)
})

t.test('a client that disconnects while it sends causes no internal error', async (t) => {
  const errors: unknown[] = []
  let isRead = false
  const app = Fastify({ logger: false })
  app.addHook('preParsing', async (_request, _reply, payload) => {
    isRead = true
    return payload
  })
  app.setErrorHandler((error, _request, reply) => {
    errors.push(error)
    return reply.code(500).send()
  })
  readBase64Bodies(app, { key: 'content', maxTextBytes: 40_000 })
  app.post('/', { bodyLimit: 400_000 }, async () => ({}))
  t.teardown(() => app.close())
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  const headers = { 'Content-Type': 'application/json', 'Content-Length': '1000' }
  const client = rawClient(t, url, requestText('POST', '/', headers, '{"content":"'))
  await until('its body is being read', async () => isRead)
  client.socket.destroy()
  await until('the error is known', async () => errors.length > 0)
  t.match(errors, [{ statusCode: 400 }])
})
