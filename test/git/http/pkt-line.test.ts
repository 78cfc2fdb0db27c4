import { Readable } from 'node:stream'
import t from 'tap'
import { bandPackets, FLUSH, packet, readPacket } from '../../../src/git/http/pkt-line.ts'
import { readPushRequest, refusalReport } from '../../../src/git/push/push-request.ts'

const A = 'a'.repeat(40)
const B = 'b'.repeat(40)
const ZERO = '0'.repeat(40)

function body(...parts: (string | Buffer)[]): Readable {
  return Readable.from(parts.map((part) => Buffer.from(part)))
}

async function restOf(stream: Readable): Promise<string> {
  const chunks: Buffer[] = await Array.fromAsync(stream)
  return Buffer.concat(chunks).toString()
}

t.test('a packet is read only when it is complete, and unchanged', async (t) => {
  const written = packet('hello\n')
  t.equal(written.toString(), '000ahello\n')
  t.same(readPacket(written), { kind: 'data', payload: Buffer.from('hello\n'), length: 10 })
  for (let size = 0; size < written.length; size++) t.equal(readPacket(written.subarray(0, size)), undefined)
  t.same(readPacket(Buffer.from('0000PACK')), { kind: 'flush', length: 4 })
  t.same(readPacket(Buffer.from('0004')), { kind: 'data', payload: Buffer.alloc(0), length: 4 })
  for (const bad of ['0003', '0001', 'ffff', 'GET ', '-001', '00 4'])
    t.equal(readPacket(Buffer.from(bad)), 'malformed', bad)
})

t.test('band data larger than a packet is split', async (t) => {
  const data = Buffer.alloc(150_000, 'x')
  let rest = bandPackets(1, data)
  let carried = 0
  while (rest.length > 0) {
    const next = readPacket(rest)
    if (next === undefined || next === 'malformed' || next.kind === 'flush')
      throw new Error('not a data packet')
    t.equal(next.payload[0], 1)
    carried += next.payload.length - 1
    rest = rest.subarray(next.length)
  }
  t.equal(carried, data.length)
})

t.test('the commands of a push are read from chunks of any size, and all bytes are given back', async (t) => {
  const head = Buffer.concat([
    packet(`shallow ${A}`),
    packet(`${ZERO} ${A} refs/heads/new\0report-status side-band-64k agent=git/2.39`),
    packet(`${A} ${ZERO} refs/heads/gone\n`),
    packet(`${A} ${B} refs/heads/ü`),
    Buffer.from(FLUSH),
  ])
  const whole = Buffer.concat([head, Buffer.from('PACK and so on')])
  for (const size of [1, 3, 50, whole.length]) {
    const parts: Buffer[] = []
    for (let at = 0; at < whole.length; at += size) parts.push(whole.subarray(at, at + size))
    const stream = body(...parts)
    const push = await readPushRequest(stream)
    t.same(push.commands, [
      { ref: 'refs/heads/new', from: null, to: A },
      { ref: 'refs/heads/gone', from: A, to: null },
      { ref: 'refs/heads/ü', from: A, to: B },
    ])
    t.same([...push.capabilities], ['report-status', 'side-band-64k', 'agent=git/2.39', 'agent'])
    t.same(push.shallow, [A])
    t.equal(push.front.toString() + (await restOf(stream)), whole.toString(), `in parts of ${size}`)
  }
})

t.test('push options are read after the commands of a push', async (t) => {
  const head = [
    packet(`${ZERO} ${A} refs/heads/x\0push-options`),
    FLUSH,
    packet('ci.skip'),
    packet('a=b'),
    FLUSH,
  ]
  const stream = body(...head, 'PACK')
  const push = await readPushRequest(stream)
  t.same(push.options, ['ci.skip', 'a=b'])
  t.equal(push.front.toString() + (await restOf(stream)), `${head.join('')}PACK`)
})

t.test('an empty push has no commands', async (t) => {
  t.same((await readPushRequest(body(FLUSH))).commands, [])
})

t.test('a push that breaks the protocol is malformed', async (t) => {
  const bad = {
    'no packets': ['GET / HTTP/1.1'],
    'cut off': [packet(`${ZERO} ${A} refs/heads/x\0`)],
    empty: [],
    'no command': [packet('hello'), FLUSH],
    'short id': [packet(`${ZERO} abc refs/heads/x\0`), FLUSH],
    'no ref': [packet(`${ZERO} ${A} \0`), FLUSH],
    'not UTF-8': [
      packet(Buffer.concat([Buffer.from(`${ZERO} ${A} refs/heads/`), Buffer.from([0xff])])),
      FLUSH,
    ],
    'a ref twice': [packet(`${ZERO} ${A} refs/heads/x\0`), packet(`${ZERO} ${B} refs/heads/x`), FLUSH],
    'signed push': [packet('push-cert\0report-status'), FLUSH],
    'another format of objects': [
      packet(`${ZERO} ${A} refs/heads/x\0report-status object-format=sha256`),
      FLUSH,
    ],
    'options missing': [packet(`${ZERO} ${A} refs/heads/x\0push-options`), FLUSH],
  }
  for (const [what, parts] of Object.entries(bad)) {
    await t.rejects(readPushRequest(body(...parts)), { name: 'MalformedGitRequest' }, what)
  }
})

t.test('a push with too many refs is refused before its end', async (t) => {
  const line = (i: number) => packet(`${ZERO} ${A} refs/heads/branch-${i}`)
  const limits = { maxBytes: 10_000, maxCommands: 50 }
  const many = body(Buffer.concat(Array.from({ length: 51 }, (_, i) => line(i))), FLUSH)
  await t.rejects(readPushRequest(many, limits), {
    refusal: { refused: 'tooLarge' },
    message: /50 refs: push them in parts/,
  })
  let given = 0
  const endless = Readable.from(
    (function* () {
      for (;;) yield line(given++)
    })(),
  )
  await t.rejects(readPushRequest(endless, { ...limits, maxCommands: 1e6 }), {
    name: 'GitRequestTooLarge',
    message: /10000 bytes/,
  })
  t.ok(given < 200, `${given} lines were read`)
})

t.test('a request of a disconnected client ends with GitClientGone', async (t) => {
  const stream = new Readable({ read() {} })
  stream.push(packet(`${ZERO} ${A} refs/heads/x\0`))
  const reading = readPushRequest(stream)
  stream.destroy()
  await t.rejects(reading, { name: 'GitClientGone' })
  const failing = new Readable({ read() {} })
  const failure = readPushRequest(failing)
  failing.destroy(new Error('reset'))
  await t.rejects(failure, { message: 'reset' })
})

t.test('a refusal gives each ref and its reason in one line', async (t) => {
  const request = async (capabilities: string) =>
    await readPushRequest(
      body(packet(`${ZERO} ${A} refs/heads/x\0${capabilities}`), packet(`${ZERO} ${A} refs/heads/y`), FLUSH),
    )
  const reasons = new Map([['refs/heads/x', 'protected\nok refs/heads/y\x1b[2J']])
  const plain = (await refusalReport(await request('report-status'), reasons)).toString()
  t.equal(
    plain.replace(/[0-9a-f]{4}(?=unpack|ng|$)/g, '|'),
    [
      '|unpack ok\n',
      '|ng refs/heads/x protected ok refs/heads/y [2J\n',
      '|ng refs/heads/y not pushed, because another ref of this push was refused\n|',
    ].join(''),
  )
  const banded = await refusalReport(await request('report-status-v2 side-band-64k'), reasons)
  const first = readPacket(banded)
  t.match(first, { kind: 'data' })
  if (typeof first === 'object' && first.kind === 'data') t.equal(first.payload.toString(), `\x01${plain}`)
  const fatal = (await refusalReport(await request('side-band-64k'), reasons)).toString()
  t.ok(fatal.includes('\x03refs/heads/x: protected'), fatal)
  t.equal((await refusalReport(await request(''), reasons)).length, 0)
})
