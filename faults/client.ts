/** A client of the server, which may be dead or be another process at the same data by now. */
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { GIT_ENVIRONMENT, gitIn, gitWithInput } from '../test/git-client.ts'

const ADMIN = 'admin'
/** No answer comes later than this, in milliseconds: then the server is gone, or hangs. */
const TIMEOUT_MS = 60_000

export interface Client {
  /** The name of the repository with its owner. */
  repository: string
  /** Where the server is now. It may have another port after a start. */
  url: string
  /**
   * Sends a request. Resolves to the JSON of the answer; undefined when no answer came or it is not 2xx: then nobody
   * knows whether it was done.
   */
  send(method: string, path: string, body?: object, key?: string): Promise<Json | undefined>
  /** The same, where an answer is needed. @throws Error with the answer that is not 2xx */
  ask(method: string, path: string, body?: object, key?: string): Promise<Json>
  /** All rows of a list of the repository. */
  list(path: string): Promise<Json[]>
  /** The events of the repository. */
  history(): Promise<Json[]>
  /** Makes a commit with a file of its own on a new branch of the clone. Resolves to its id. */
  commit(branch: string): Promise<string>
  /** Whether git said that the branch of the clone is on the server. */
  push(branch: string): Promise<boolean>
  /** The branches that the server offers, each with its commit. */
  branches(): Promise<Map<string, string>>
  /** The second parents of the merges on `main`: the heads that were merged. */
  mergedHeads(): Promise<string[]>
}

export type Json = { [name: string]: unknown }

const isJson = (value: unknown): value is Json => typeof value === 'object' && value !== null

/** Signs in, makes the repository, and clones it into `directory`. */
export async function connect(
  url: string,
  password: string,
  name: string,
  directory: string,
): Promise<Client> {
  const basic = `Basic ${Buffer.from(`${ADMIN}:${password}`).toString('base64')}`
  const repository = `${ADMIN}/${name}`
  const clone = join(directory, 'clone')
  let authorization = basic

  async function request(method: string, path: string, body?: object, key?: string): Promise<Response> {
    return fetch(`${client.url}/api/v1${path}`, {
      method,
      headers: {
        authorization,
        'content-type': 'application/json',
        ...(key !== undefined && { 'idempotency-key': key }),
        ...(path.endsWith('/history') && { accept: 'application/x-ndjson' }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    })
  }

  const text = async (method: string, path: string, body?: object, key?: string) => {
    const answer = await request(method, path, body, key)
    const content = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${content}`)
    return content
  }

  const remote = () => {
    const place = new URL(`${client.url}/${repository}.git`)
    place.username = ADMIN
    place.password = authorization.replace('token ', '')
    return place.href
  }

  const client: Client = {
    repository,
    url,
    async send(method, path, body, key) {
      return client.ask(method, path, body, key).catch(() => undefined)
    },
    async ask(method, path, body, key) {
      const answer: unknown = JSON.parse((await text(method, path, body, key)) || '{}')
      if (!isJson(answer)) throw new Error(`${method} ${path}: the answer is no object`)
      return answer
    },
    async list(path) {
      const rows: Json[] = []
      for (let page = 1; ; page++) {
        const separator = path.includes('?') ? '&' : '?'
        const answer: unknown = JSON.parse(
          await text('GET', `/repos/${repository}${path}${separator}limit=50&page=${page}`),
        )
        const found = Array.isArray(answer) ? answer.filter(isJson) : []
        rows.push(...found)
        if (found.length < 50) return rows
      }
    },
    async history() {
      const lines = (await text('GET', `/repos/${repository}/history`)).split('\n')
      return lines.filter((line) => line !== '').map((line): Json => JSON.parse(line))
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
      const pushed = gitIn(clone, ['push', '-q', remote(), `refs/heads/${branch}:refs/heads/${branch}`])
      return pushed.then(
        () => true,
        () => false,
      )
    },
    async branches() {
      const lines = (await gitIn(clone, ['ls-remote', '--heads', remote()])).split('\n')
      return new Map(
        lines.flatMap((line) => {
          const [sha = '', ref] = line.split('\t')
          return ref === undefined ? [] : [[ref.replace('refs/heads/', ''), sha] as const]
        }),
      )
    },
    async mergedHeads() {
      await gitIn(clone, ['fetch', '-q', remote(), '+refs/heads/main:refs/merged/main'])
      const parents = await gitIn(clone, [
        'log',
        '--merges',
        '--first-parent',
        '--format=%P',
        'refs/merged/main',
      ])
      return parents.split('\n').flatMap((line) => line.split(' ')[1] ?? [])
    },
  }

  const token = await client.ask('POST', `/users/${ADMIN}/tokens`, {
    name: `faults ${randomUUID()}`,
    scopes: ['all'],
  })
  authorization = `token ${token.sha1}`
  await client.ask('POST', '/user/repos', { name, auto_init: true })
  await gitIn(directory, ['clone', '-q', '--bare', remote(), clone])
  await gitIn(clone, ['update-ref', 'refs/remotes/origin/main', 'refs/heads/main'])
  return client
}
