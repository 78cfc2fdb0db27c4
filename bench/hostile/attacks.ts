/** Attacks on a running server. Each function runs until it is stopped. */
import { randomBytes } from 'node:crypto'
import { request as httpRequest } from 'node:http'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { packBomb } from './pack-bomb.ts'
import { authorization, MALLORY, type Stage } from './stage.ts'

export type Attack = (stage: Stage, signal: AbortSignal) => Promise<void>

const EVIL = '/mallory/evil'
const API = `/api/v1/repos${EVIL}`
const DOUBLINGS = 11
const LONG_TEXT = 60 * 1024

/** Addresses of the attackers. Honest clients have other addresses, because limits are per address. */
const addressOf = (n: number) => `127.0.0.${2 + (n % 4)}`

/** Runs many attackers concurrently, each in a loop that ignores failures. */
async function crowd(
  size: number,
  signal: AbortSignal,
  attempt: (n: number) => Promise<unknown>,
): Promise<void> {
  async function one(n: number): Promise<void> {
    while (!signal.aborted) {
      const failed = await attempt(n).then(
        () => false,
        () => true,
      )
      // A pause after a refused connection, so that the attacker's process does not spin.
      if (failed) await delay(20, undefined, { signal }).catch(() => {})
    }
  }
  await Promise.all(Array.from({ length: size }, (_, n) => one(n)))
}

/** Opens a socket, runs `talk`, and resolves when the socket is closed or the signal is aborted. */
function onSocket(
  { url }: Stage,
  signal: AbortSignal,
  n: number,
  talk: (socket: Socket, ended: Promise<void>) => void,
): Promise<void> {
  return new Promise((resolve) => {
    const { hostname, port } = new URL(url)
    const socket = connect({ port: Number(port), host: hostname, localAddress: addressOf(n) })
    const ended = new Promise<void>((end) => socket.once('close', () => end()))
    const stop = () => socket.destroy()
    signal.addEventListener('abort', stop, { once: true })
    socket.on('error', () => {})
    socket.once('close', () => {
      signal.removeEventListener('abort', stop)
      resolve()
    })
    socket.once('connect', () => talk(socket, ended))
  })
}

/** The lines of a request's head. */
const head = (method: string, path: string, headers: Record<string, string | number> = {}) =>
  `${method} ${path} HTTP/1.1\r\nHost: stage\r\n${Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')}\r\n`

const asMallory = { Authorization: authorization(MALLORY) }

interface RequestOptions {
  method?: string
  headers?: Record<string, string>
  body?: string | Buffer
}

/** Resolves to the text of the answer. Aborts the request after `timeoutMs`. */
function request(
  { url }: Stage,
  signal: AbortSignal,
  n: number,
  path: string,
  { method = 'GET', headers = {}, body }: RequestOptions = {},
  timeoutMs = 60_000,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(`${url}${path}`, {
      method,
      headers: {
        ...asMallory,
        ...headers,
        ...(body !== undefined && { 'Content-Length': Buffer.byteLength(body) }),
      },
      localAddress: addressOf(n),
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    })
    sent.on('error', reject)
    sent.on('response', (answer) => {
      let text = ''
      answer.setEncoding('latin1').on('data', (chunk: string) => {
        text += chunk
      })
      answer.on('error', reject)
      answer.on('end', () => resolve(text))
    })
    sent.end(body)
  })
}

const pktLine = (text: string | Buffer) => {
  const payload = Buffer.from(text)
  return Buffer.concat([Buffer.from((payload.length + 4).toString(16).padStart(4, '0')), payload])
}
const FLUSH = Buffer.from('0000')
const DELIMITER = Buffer.from('0001')
const ZERO = '0'.repeat(40)

/** Pushes a pack that inflates to gigabytes. */
function pushBomb(stage: Stage, signal: AbortSignal, n: number): Promise<unknown> {
  const { pack, firstId } = packBomb(DOUBLINGS)
  const name = `refs/heads/bomb-${randomBytes(4).toString('hex')}`
  const command = pktLine(`${ZERO} ${firstId} ${name}\0 report-status\n`)
  return request(stage, signal, n, `${EVIL}.git/git-receive-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-receive-pack-request' },
    body: Buffer.concat([command, FLUSH, pack]),
  })
}

/** A fetch with a filter that compares each path of each commit with patterns. */
async function fetchBySparseFilter(stage: Stage, signal: AbortSignal, n: number): Promise<void> {
  const branch = await request(stage, signal, n, `${API}/branches/main`)
  const { commit }: { commit: { id: string } } = JSON.parse(branch)
  const body = Buffer.concat([
    pktLine('command=fetch\n'),
    DELIMITER,
    pktLine('no-progress\n'),
    pktLine(`filter sparse:oid=${commit.id}:a.txt\n`),
    pktLine(`want ${commit.id}\n`),
    pktLine('done\n'),
    FLUSH,
  ])
  await request(stage, signal, n, `${EVIL}.git/git-upload-pack`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-git-upload-pack-request', 'git-protocol': 'version=2' },
    body,
  })
}

const longText = () =>
  Array.from({ length: LONG_TEXT / 8 }, () => randomBytes(4).toString('hex').slice(1)).join(' ')

export const ATTACKS: Readonly<Record<string, Attack>> = {
  'bodies that never arrive': (stage, signal) =>
    crowd(64, signal, (n) =>
      onSocket(stage, signal, n, (socket) => {
        const headers = { 'Content-Type': 'application/x-git-upload-pack-request', 'Content-Length': 5000 }
        socket.write(`${head('POST', `${EVIL}.git/git-upload-pack`, headers)}00000`)
      }),
    ),
  'diffs of disconnected clients': (stage, signal) =>
    crowd(8, signal, (n) =>
      request(
        stage,
        signal,
        n,
        `${API}/pulls/1/files?whitespace=${n % 2 ? 'ignore-all' : 'ignore-change'}`,
        {},
        300,
      ),
    ),
  'unread answers': async (stage, signal) => {
    await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        request(stage, signal, n, `${API}/issues`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ title: `Long ${n}`, body: '\u20ac'.repeat(65_000) }),
        }).catch(() => {}),
      ),
    )
    const path = `${API}/issues?type=issues&limit=50`
    await crowd(32, signal, (n) =>
      onSocket(stage, signal, n, (socket) => {
        socket.write(head('GET', path).repeat(20))
        socket.pause()
      }),
    )
  },
  'comments of long texts': (stage, signal) =>
    crowd(4, signal, (n) =>
      request(stage, signal, n, `${API}/issues/1/comments`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ body: longText() }),
      }),
    ),
  'packs that inflate to gigabytes': (stage, signal) => crowd(4, signal, (n) => pushBomb(stage, signal, n)),
  'filters that burn a core': (stage, signal) =>
    crowd(8, signal, (n) => fetchBySparseFilter(stage, signal, n)),
  'bodies a byte at a time': (stage, signal) =>
    crowd(64, signal, (n) =>
      onSocket(stage, signal, n, (socket, ended) => {
        const headers = { ...asMallory, 'Content-Type': 'application/json', 'Content-Length': 60_000 }
        socket.write(head('POST', `${API}/issues`, headers))
        const drip = setInterval(() => socket.write(' '), 1000)
        ended.then(() => clearInterval(drip))
      }),
    ),
  'deeply nested JSON': (stage, signal) =>
    crowd(4, signal, (n) =>
      request(stage, signal, n, `${API}/issues`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'idempotency-key': `nested-${n}` },
        body: `{"title":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
      }),
    ),
  'guessed passwords': (stage, signal) =>
    crowd(32, signal, (n) =>
      request(stage, signal, n, '/api/v1/user', {
        headers: { Authorization: authorization(`honest-${n % 4}`, 'no') },
      }),
    ),
}
