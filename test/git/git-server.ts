/**
 * A minimal server for git repositories: the git routes without users, permissions and log. It serves every `NAME.git`
 * below `root` at `/NAME.git`.
 */
import { mkdir, readdir, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createKeyedMutex } from '../../src/concurrency/keyed-mutex.ts'
import { decodeBody } from '../../src/git/http/request-body.ts'
import { advertiseRefs, isGitService, uploadPack } from '../../src/git/http/smart-http.ts'
import {
  GitRequestTooLarge,
  MalformedGitRequest,
  PushUnrecorded,
  RepositoryMissing,
} from '../../src/git/process/errors.ts'
import { openPushJournal, type PushJournal } from '../../src/git/push/push-journal.ts'
import { type ReceiveOptions, receivePack } from '../../src/git/push/receive-pack.ts'
import type { RefChange } from '../../src/git/refs/refs.ts'

export interface GitServer {
  url: string
  journal: PushJournal
  /** All updates that were passed to `record`. */
  recorded: RefChange[]
  /** Each completed or aborted request: method, path, status and the name of the error. */
  requests: { line: string; protocol: string | undefined; encoding: string | undefined; error?: string }[]
  /** Ends all transfers, like a server that shuts down. */
  shutDown: AbortController
  /** The number of open connections. */
  connections(): number
  close(): Promise<void>
}

/** The mutex of pushes to these servers. */
export const runExclusive = createKeyedMutex()

export interface GitServerHooks
  extends Pick<
    ReceiveOptions,
    'requireSigned' | 'allowedSigners' | 'signingKey' | 'share' | 'maxObjectBytes'
  > {
  check?(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  checkAgain?(commands: readonly RefChange[]): Promise<ReadonlyMap<string, string>>
  record?(updates: readonly RefChange[]): Promise<void>
  /** The lock of each push; by default, a mutex within this process. */
  runExclusive?(work: () => Promise<void>): Promise<void>
  maxBytes?: number
}

function statusOf(error: unknown): number {
  if (error instanceof RepositoryMissing) return 404
  if (error instanceof MalformedGitRequest) return 400
  if (error instanceof GitRequestTooLarge) return 413
  if (error instanceof PushUnrecorded) return 503
  return 500
}

export async function startGitServer(root: string, hooks: GitServerHooks = {}): Promise<GitServer> {
  await mkdir(`${root}/pending`, { recursive: true })
  const journal = await openPushJournal(`${root}/pending`)
  const recorded: RefChange[] = []
  const requests: GitServer['requests'] = []
  const shutDown = new AbortController()

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://localhost')
    const [, key = '', path = ''] = /^\/(\w+)\.git\/(.*)$/.exec(url.pathname) ?? []
    const dir = `${root}/${key}.git`
    const header = request.headers['git-protocol']
    const protocol = typeof header === 'string' ? header : undefined
    const encoding = request.headers['content-encoding']
    const entry: GitServer['requests'][number] = { line: `${request.method} ${path}`, protocol, encoding }
    requests.push(entry)
    const options = { protocol, signal: shutDown.signal }
    try {
      let body: Readable
      let type: string
      const service = url.searchParams.get('service')
      if (path === 'info/refs' && isGitService(service)) {
        body = await advertiseRefs(dir, service, options)
        type = `${service}-advertisement`
      } else if (path === 'git-upload-pack') {
        body = await uploadPack(dir, decodeBody(request, encoding), options)
        type = `${path}-result`
      } else {
        const result = await receivePack(dir, decodeBody(request, encoding), {
          ...options,
          ...(hooks.share && { share: hooks.share }),
          journal,
          runExclusive: hooks.runExclusive ?? ((work) => runExclusive(dir, work)),
          key,
          maxBytes: hooks.maxBytes,
          ...(hooks.maxObjectBytes && { maxObjectBytes: hooks.maxObjectBytes }),
          requireSigned: hooks.requireSigned,
          allowedSigners: hooks.allowedSigners,
          signingKey: hooks.signingKey,
          check: hooks.check ?? (async () => new Map()),
          ...(hooks.checkAgain && { checkAgain: hooks.checkAgain }),
          async record(updates) {
            await hooks.record?.(updates)
            recorded.push(...updates)
          },
        })
        body = Readable.from([result])
        type = `${path}-result`
      }
      response.setHeader('content-type', `application/x-${type}`)
      await pipeline(body, response)
    } catch (error) {
      entry.error = error instanceof Error ? error.name : String(error)
      if (response.headersSent) response.destroy()
      else response.writeHead(statusOf(error)).end(entry.error)
    }
  }

  const server = createServer((request, response) => void answer(request, response))
  server.requestTimeout = 0
  let connections = 0
  server.on('connection', (socket) => {
    connections += 1
    socket.on('close', () => {
      connections -= 1
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    journal,
    recorded,
    requests,
    shutDown,
    connections: () => connections,
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}

/** The ids of the git processes that have `text` (a repository's path) in their arguments. */
export async function gitProcesses(text: string): Promise<number[]> {
  const found: number[] = []
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const words = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')
    if (words.startsWith('git\0') && words.includes(text)) found.push(Number(name))
  }
  return found
}
