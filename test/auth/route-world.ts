/** The users, repositories and fresh targets of the route table. Requests are injected, without sockets. */

import { createOpenRequests } from '../../src/auth/open-requests.ts'
import { objectId } from '../../src/git/objects/loose-objects.ts'
import { createMetrics } from '../../src/observability/metrics.ts'
import { buildApp } from '../../src/server/app.ts'
import { createUpgradeAnswers } from '../../src/upgrade/answers.ts'
import type { Test } from '../git-client.ts'
import { hostedWork } from '../hosted-work.ts'
import { addUser, basic } from '../server-template.ts'
import { startTestServer, type TestServer } from '../start-server.ts'

/** The columns of the table. Null is anonymous. The repositories' admin has created them. */
export const ROLES = {
  anonymous: null,
  stranger: 'dave',
  reader: 'carol',
  writer: 'bob',
  admin: 'alice',
  'site admin': 'admin',
} as const
export type Role = keyof typeof ROLES

export const KINDS = ['public', 'private', 'private organization'] as const
export type Kind = (typeof KINDS)[number]

export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
export type Method = (typeof METHODS)[number]

export interface Route {
  method: Method
  url: string
  /** `GET /api/v1/user`; `GET /:owner for browsers` for a route that only browsers get. */
  name: string
  headers?: Record<string, string>
}

export type World = Awaited<ReturnType<typeof startWorld>>
export type Place = Awaited<ReturnType<World['place']>>

/** Values for a route's path and body, and for other parts of its request. */
export interface Call {
  headers?: Record<string, string>
  query?: Record<string, string>
  /** Instead of the route's own. */
  method?: 'HEAD'
  path?: Record<string, string | number>
  body?: object | string
}

/** `isOpen`: whether it answers requests already. */
export async function startWorld(test: Test, started?: TestServer, isOpen = () => true) {
  const server = started ?? (await startTestServer(test))
  const { services } = server
  const { app } = await buildApp({
    services,
    upgrade: createUpgradeAnswers(
      services.readStore,
      services.projector,
      await services.events.lastPosition(),
    ),
    openRequests: createOpenRequests(services),
    state: () => ({ recovered: true, processes: [] }),
    isOpen,
    leaving: new AbortController().signal,
    observed: {
      metrics: createMetrics({ node: 'test', isDense: true }),
      processes: [],
      isRecovered: () => true,
      grpcConnections: () => 0,
    },
  })
  await app.ready()
  test.teardown(() => app.close())
  let count = 0
  /** Returns another number each time, for unique names. */
  const next = () => {
    count += 1
    return count
  }

  /** Sends a request; `path` fills in the route's parameters. */
  async function send(login: string | null, method: Method, route: string, call: Call = {}) {
    const { path = {}, body, query } = call
    const url = route.replaceAll(/:([a-zA-Z_]+)|\*/g, (_, name = '*') => encodeURI(`${path[name] ?? 'x'}`))
    const answer = await app.inject({
      method: call.method ?? method,
      url,
      headers: {
        // Such a request also looks up its repository before it acts.
        ...(method === 'POST' && { 'idempotency-key': `${next()}` }),
        ...call.headers,
        ...(login !== null && { authorization: basic(login) }),
        ...(typeof body === 'object' && { 'content-type': 'application/json' }),
      },
      ...(query !== undefined && { query }),
      ...(body !== undefined && { payload: typeof body === 'object' ? JSON.stringify(body) : body }),
    })
    const [type = ''] = `${answer.headers['content-type'] ?? ''}`.split(';')
    return { status: answer.statusCode, type, text: answer.body }
  }

  /** Sends a request that must succeed; resolves to its JSON. */
  async function must<T>(login: string, method: Method, route: string, body?: object): Promise<T> {
    const { status, text } = await send(login, method, `/api/v1${route}`, body === undefined ? {} : { body })
    if (status >= 300) throw new Error(`${method} ${route}: ${status} ${text}`)
    return text === '' ? JSON.parse('null') : JSON.parse(text)
  }

  /** Creates a repository of that kind, in which carol reads, bob writes and alice administers. */
  async function newRepository(kind: Kind, name: string) {
    const isOwn = kind !== 'private organization'
    const path = isOwn ? '/user/repos' : '/orgs/closed/repos'
    const option = { name, auto_init: true, private: kind === 'private' }
    const { id } = await must<{ id: number }>('alice', 'POST', path, option)
    const owner = isOwn ? 'alice' : 'closed'
    if (isOwn) {
      await must('alice', 'PUT', `/repos/${owner}/${name}/collaborators/bob`, { permission: 'write' })
      await must('alice', 'PUT', `/repos/${owner}/${name}/collaborators/carol`, { permission: 'read' })
    }
    return { id, owner, repo: name }
  }

  /**
   * Creates a repository with one resource of each kind, and functions that add more: each resolves to its name in
   * paths.
   */
  async function place(kind: Kind) {
    const { id: repoId, owner, repo } = await newRepository(kind, kind.replace(' ', '-'))
    const base = `/repos/${owner}/${repo}`
    const { branch, work, push } = await hostedWork(test, server, {
      login: 'alice',
      repoId,
      fullName: `${owner}/${repo}`,
    })
    /** Adds a note to a commit; resolves to the commit. */
    const noted = async (sha: string) => {
      await work.git('notes', 'add', '-m', 'A note', sha)
      await push('refs/notes/commits:refs/notes/commits')
      return sha
    }
    const newBranch = async () => {
      const name = `branch-${next()}`
      await branch(name, { [name]: name })
      return name
    }
    const create = async (path: string, body: object) =>
      must<{ id: number; number: number }>('alice', 'POST', `${base}${path}`, body)
    const issue = async () => (await create('/issues', { title: `Issue ${next()}` })).number
    const pull = async () => {
      const head = await newBranch()
      return (await create('/pulls', { head, base: 'main', title: head })).number
    }
    const first = { issue: await issue(), pull: await pull() }
    const comment = async () => (await create(`/issues/${first.issue}/comments`, { body: 'Hm' })).id
    const upload = (name: string) => ({
      headers: { 'content-type': 'multipart/form-data; boundary=xx' },
      body: `--xx\r\nContent-Disposition: form-data; name="attachment"; filename="${name}"\r\nContent-Type: text/plain\r\n\r\ncontents\r\n--xx--\r\n`,
    })
    const commentId = await comment()
    const attachment = async () => {
      const assets = `/api/v1${base}/issues/comments/${commentId}/assets`
      const answer = await send('alice', 'POST', assets, upload(`f${next()}.txt`))
      const { id, uuid }: { id: number; uuid: string } = JSON.parse(answer.text)
      return { id, uuid }
    }
    const issueFile = async () => {
      const assets = `/api/v1${base}/issues/${first.issue}/assets`
      const answer = await send('alice', 'POST', assets, upload(`f${next()}.txt`))
      const { id }: { id: number } = JSON.parse(answer.text)
      return id
    }
    const release = async () => {
      const [tag, file] = [`v${next()}`, `f${next()}.bin`]
      const { id } = await create('/releases', { tag_name: tag })
      const answer = await send('alice', 'POST', `/api/v1${base}/releases/${id}/assets`, upload(file))
      const { id: asset }: { id: number } = JSON.parse(answer.text)
      return { id, tag, file, asset }
    }
    const label = async () => (await create('/labels', { name: `l${next()}`, color: '#aabbcc' })).id
    const milestone = async () => (await create('/milestones', { title: `m${next()}` })).id
    const tag = async () => {
      const tag_name = `tag-${next()}`
      await create('/tags', { tag_name, message: 'A tag' })
      return tag_name
    }
    const tagProtection = async () =>
      (
        await create('/tag_protections', {
          name_pattern: `only-${next()}`,
          whitelist_usernames: ['bob', 'alice'],
        })
      ).id
    const protection = async () => {
      const rule_name = `rule-${next()}`
      await create('/branch_protections', { rule_name })
      return rule_name
    }
    return {
      kind,
      owner,
      repo,
      base,
      next,
      make: {
        issue,
        pull,
        branch: newBranch,
        tag,
        tagProtection,
        comment,
        attachment,
        issueFile,
        release,
        label,
        milestone,
        protection,
        upload,
      },
      /** Creates another repository of the same kind. */
      another: () => newRepository(kind, `more-${next()}`),
      ...first,
      comment: commentId,
      attachment: await attachment(),
      release: await release(),
      label: await label(),
      milestone: await milestone(),
      protection: await protection(),
      head: await noted(await branch('topic', { topic: 'topic' })),
      blob: objectId('blob', Buffer.from('topic')),
      tagObject: (
        await must<{ id: string }>('alice', 'POST', `${base}/tags`, { tag_name: 't', message: 'A tag' })
      ).id,
      must,
    }
  }

  /** Creates a user without a column. */
  async function newUser() {
    const login = `user${next()}`
    await addUser(services, login)
    return login
  }

  for (const [login, permission] of [
    ['alice', undefined],
    ['bob', 'write'],
    ['carol', 'read'],
  ] as const) {
    if (permission === undefined)
      await must(login, 'POST', '/orgs', { username: 'closed', visibility: 'private' })
    else await must('alice', 'PUT', `/orgs/closed/members/${login}`, { permission })
  }

  return { app, services, send, must, place, newUser, next }
}

/** Returns all routes of an application without HEAD, which follows GET. */
export function routesOf(app: World['app']): Route[] {
  const routes: Route[] = []
  const path: string[] = []
  for (const line of app.printRoutes().split('\n')) {
    const [, indent = '', branch, part = '', methods = '', constraints] =
      /^((?:│ {3}| {4})*)([├└]── | *)(.*?)(?: \(([A-Z, ]+)\)(?: (\{.*\}))?)?$/.exec(line) ?? []
    if (part === '') continue
    // A line without a branch is another handler of the path above.
    if (branch?.trim() !== '') {
      path.splice(indent.length / 4)
      path.push(part)
    }
    const url = path.join('')
    const forBrowsers = constraints !== undefined
    for (const method of METHODS) {
      if (!methods.split(', ').includes(method)) continue
      const name = `${method} ${url}${forBrowsers ? ' for browsers' : ''}`
      routes.push({ method, url, name, ...(forBrowsers && { headers: { accept: 'text/html' } }) })
    }
  }
  return routes
}
