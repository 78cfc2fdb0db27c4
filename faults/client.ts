/** A client of a server, or of the proxy in front of several. Any of them may be dead. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { GIT_ENVIRONMENT, gitIn, gitWithInput } from '../test/git-client.ts'
import { ANSWERED_BY, NO_NODE, NOT_BY } from './proxy.ts'

export const ADMIN = 'admin'
/** Timeout of an answer, in milliseconds. */
const TIMEOUT_MS = 60_000
/** Maximum time in which a check of a write looks for an answering node, in milliseconds. */
const CHECK_TIMEOUT_MS = 60_000
const PAUSE_MS = 100
/** Maximum attempts of a read. */
const MAX_READS = 3
/** Maximum attempts while the proxy has no node: a minute. */
const MAX_UNROUTED = 600
/** Header of answers whose change queries do not show yet; git prints it on request. */
const LAGGING = 'mergelog-projection'

export type Json = { [name: string]: unknown }

export interface Answer {
  status: number
  text: string
  /** The node that answered. */
  node: string | undefined
  /** Whether the server reported that queries do not show the change yet. */
  isLagging: boolean
}

export interface Options {
  body?: object | FormData
  /** The Idempotency-Key. */
  key?: string
  /** A node that must not answer, if there is another one. */
  not?: string | undefined
  accept?: string
  authorization?: string
}

/** A read immediately after a write. */
export interface Look {
  path: string
  authorization?: string
  /** Whether the answer shows the write. */
  isShown: (answer: Answer) => boolean
}

/** The output of git for a push. */
interface Pushed {
  isDone: boolean
  /** Whether the push had a change: an earlier attempt without an answer may have moved the branch. */
  isWrite: boolean
  node: string | undefined
  isLagging: boolean
}

export interface Client {
  /** The name of the repository with its owner, and its path in the API. */
  repository: string
  path: string
  url: string
  authorization: string
  /** Sends a request. Resolves to undefined without an answer: then the result is unknown. */
  request(method: string, path: string, options?: Options): Promise<Answer | undefined>
  /** Returns the JSON of an answer. @throws Error without an answer, or for any status but 2xx */
  ask(method: string, path: string, options?: Options): Promise<Json>
  /** All rows of a list. */
  list(path: string, options?: Options): Promise<Json[]>
  /** The events of the repository. */
  history(): Promise<Json[]>
  /**
   * Checks a write at another node, if there is one, until a node answers. Resolves to the reason when the answer does
   * not show the write; undefined when it does, or without an answer.
   */
  problemAt(look: Look, writer: string | undefined): Promise<string | undefined>
  /** The path of a comment's file: `/attachments/<uuid>`. */
  download(path: string): Promise<string>
  /** Commits a new file on a new branch of the clone. Resolves to the commit's id. */
  commit(branch: string): Promise<string>
  push(branch: string): Promise<Pushed>
  /** Returns the branches that the server offers, each with its commit. */
  branches(): Promise<Map<string, string>>
  /** Returns the commits of `main`, the oldest first, and for a merge the merged head (its second parent). */
  mainHistory(): Promise<{ sha: string; merged: string | undefined }[]>
  /** Returns the same client for another address: a node, without the proxy. */
  at(url: string): Client
}

export const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null

export const jsonOf = (text: string): Json => {
  const value: unknown = JSON.parse(text || '{}')
  return isJson(value) ? value : {}
}

export const basicOf = (password: string) => `Basic ${Buffer.from(`${ADMIN}:${password}`).toString('base64')}`

/** A client with a token, and with a clone of the repository in `clone`. */
function clientOf(url: string, token: string, repository: string, clone: string): Client {
  const own = `token ${token}`
  /** The reason why the last request had no answer. */
  let failure = ''

  async function request(
    method: string,
    path: string,
    { body, key, not, accept, authorization = own }: Options = {},
  ): Promise<Answer | undefined> {
    const isForm = body instanceof FormData
    try {
      const answer = await fetch(`${url}/api/v1${path}`, {
        method,
        headers: {
          authorization,
          ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
          ...(key !== undefined && { 'idempotency-key': key }),
          ...(not !== undefined && { [NOT_BY]: not }),
          ...(accept !== undefined && { accept }),
        },
        ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
        signal: AbortSignal.timeout(TIMEOUT_MS),
      })
      return {
        status: answer.status,
        text: await answer.text(),
        node: answer.headers.get(ANSWERED_BY) ?? undefined,
        isLagging: answer.headers.has(LAGGING),
      }
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof Error ? `: ${error.cause.message}` : ''
      failure = `${error}${cause}`
      return undefined
    }
  }

  async function text(method: string, path: string, options?: Options): Promise<string> {
    let answer = await request(method, path, options)
    // A connection may break while the server closes it. Reads are retried, and requests that reached no node: on a
    // busy machine no node may be ready for seconds.
    const maxAttempts = () => {
      if (answer === undefined) return method === 'GET' ? MAX_READS : 0
      return isUnrouted(answer) ? MAX_UNROUTED : 0
    }
    for (let i = 1; i < maxAttempts(); i++) {
      await delay(PAUSE_MS)
      answer = await request(method, path, options)
    }
    if (answer === undefined) throw new Error(`${method} ${url}${path}: no answer: ${failure}`)
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.text
  }

  const remote = new URL(`${url}/${repository}.git`)
  remote.username = ADMIN
  remote.password = token

  return {
    repository,
    path: `/repos/${repository}`,
    url,
    authorization: own,
    request,
    ask: async (method, path, options) => jsonOf(await text(method, path, options)),
    async list(path, options) {
      const rows: Json[] = []
      for (let page = 1; ; page++) {
        const separator = path.includes('?') ? '&' : '?'
        const answer: unknown = JSON.parse(
          await text('GET', `${path}${separator}limit=50&page=${page}`, options),
        )
        const found = Array.isArray(answer) ? answer.filter(isJson) : []
        rows.push(...found)
        if (found.length < 50) return rows
      }
    },
    async history() {
      const options = { accept: 'application/x-ndjson' }
      const lines = (await text('GET', `/repos/${repository}/history`, options)).split('\n')
      return lines.filter((line) => line !== '').map(jsonOf)
    },
    async problemAt({ path, isShown, ...options }, writer) {
      const end = performance.now() + CHECK_TIMEOUT_MS
      while (performance.now() < end) {
        const answer = await request('GET', path, { ...options, not: writer })
        const isAnswered = answer !== undefined && answer.status < 500 && answer.status !== 429
        if (!isAnswered) {
          await delay(PAUSE_MS)
          continue
        }
        if (isShown(answer)) return undefined
        const found = answer.status === 200 ? 'an older state' : `${answer.status}`
        return `node ${writer} has written what node ${answer.node} did not show: GET ${path} gave ${found}`
      }
      return undefined
    },
    async download(path) {
      const headers = { authorization: own }
      const answer = await fetch(`${url}${path}`, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
      return answer.ok ? answer.text() : `status ${answer.status}`
    },
    async commit(branch) {
      const { GIT_COMMITTER_NAME: author, GIT_COMMITTER_EMAIL: email } = GIT_ENVIRONMENT
      const stream = [
        `commit refs/heads/${branch}\nmark :1\n`,
        `committer ${author} <${email}> ${Math.floor(Date.now() / 1000)} +0000\n`,
        `data ${branch.length}\n${branch}\nfrom refs/remotes/origin/main^0\n`,
        `M 100644 inline ${branch}\ndata ${branch.length}\n${branch}\nget-mark :1\n`,
      ]
      return gitWithInput(clone, ['fast-import', '--quiet', '--force'], stream.join(''))
    },
    async push(branch) {
      const args = ['push', '-q', remote.href, `refs/heads/${branch}:refs/heads/${branch}`]
      // Without a limit, a stopped server would block git for ever.
      const options = {
        cwd: clone,
        env: { ...GIT_ENVIRONMENT, GIT_CURL_VERBOSE: '1' },
        timeout: TIMEOUT_MS,
        maxBuffer: 2 ** 26,
      }
      const { stderr, isDone } = await promisify(execFile)('git', args, options).then(
        (result) => ({ stderr: result.stderr, isDone: true }),
        () => ({ stderr: '', isDone: false }),
      )
      // The last request of a push has the pack.
      const answers = stderr.split(/POST .*git-receive-pack/)
      const header = (name: string) => new RegExp(`${name}: (\\S+)`, 'i').exec(answers.at(-1) ?? '')?.[1]
      const isWrite = isDone && answers.length > 1
      return { isDone, isWrite, node: header(ANSWERED_BY), isLagging: header(LAGGING) !== undefined }
    },
    async branches() {
      const lines = (await gitIn(clone, ['ls-remote', '--heads', remote.href])).split('\n')
      return new Map(
        lines.flatMap((line) => {
          const [sha = '', ref] = line.split('\t')
          return ref === undefined ? [] : [[ref.replace('refs/heads/', ''), sha] as const]
        }),
      )
    },
    async mainHistory() {
      await gitIn(clone, ['fetch', '-q', remote.href, '+refs/heads/main:refs/merged/main'])
      const log = ['log', '--first-parent', '--reverse', '--format=%H %P', 'refs/merged/main']
      return (await gitIn(clone, log)).split('\n').map((line) => {
        const [sha = '', , merged] = line.split(' ')
        return { sha, merged }
      })
    },
    at: (other) => clientOf(other, token, repository, clone),
  }
}

/** Whether the proxy answered because no node was available. */
const isUnrouted = ({ status, text }: { status: number; text: string }) =>
  status === 503 && text.includes(NO_NODE)

/** Signs in, creates the repository, its label and the organization of its forks, and clones it into `directory`. */
export async function connect(
  url: string,
  password: string,
  name: string,
  directory: string,
): Promise<Client> {
  const repository = `${ADMIN}/${name}`
  const clone = join(directory, 'clone')
  const token = await clientOf(url, '', repository, clone).ask('POST', `/users/${ADMIN}/tokens`, {
    authorization: basicOf(password),
    body: { name: `faults of ${name}`, scopes: ['all'] },
  })
  const client = clientOf(url, String(token.sha1), repository, clone)
  await client.ask('POST', '/user/repos', { body: { name, auto_init: true } })
  await client.ask('POST', `${client.path}/labels`, { body: { name: LABEL, color: '#00aabb' } })
  await client.ask('POST', '/orgs', { body: { username: organizationOf(client) } })
  const remote = new URL(`${url}/${repository}.git`)
  remote.username = ADMIN
  remote.password = String(token.sha1)
  await gitIn(directory, ['clone', '-q', '--bare', remote.href, clone])
  await gitIn(clone, ['update-ref', 'refs/remotes/origin/main', 'refs/heads/main'])
  return client
}

/** The label of the issues. */
export const LABEL = 'seen'

/** The organization that owns the forks. */
export const organizationOf = ({ repository }: Client) => `forks-of-${repository.split('/')[1]}`
