/** A server with users and repositories of alice's, and helpers for pull requests. */
import type { CreatePullRequestOption, EditRepoOption, PullRequest } from 'gitea-js'
import type { CommitState } from '../../../src/events/catalog/statuses.ts'
import { decode } from '../../../src/events/codec.ts'
import type { DomainEvent, Recorded } from '../../../src/events/domain-events.ts'
import { checksStream, pullStream } from '../../../src/events/streams.ts'
import type { Test } from '../../git-client.ts'
import { hostedWork } from '../../hosted-work.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

export type { Test }

type Pulls = Awaited<ReturnType<typeof startPulls>>
export type PullRepository = Awaited<ReturnType<Pulls['repository']>>
export type Answer = Awaited<ReturnType<ReturnType<typeof caller>>>

/** Sends requests below a path, and returns the whole answer: Gitea's client hides parts of errors. */
function caller(server: TestServer, base: string) {
  return async (
    login: string | null,
    method: string,
    path: string,
    option?: object,
    headers: Record<string, string> = {},
  ) => {
    const init = { method, headers, ...(option && { body: JSON.stringify(option) }) }
    const answer = await server.fetch(login, `/api/v1/${base}${path}`, init)
    const text = await answer.text()
    const isJson = answer.headers.get('content-type')?.startsWith('application/json')
    const body = isJson ? JSON.parse(text) : undefined
    const { message = '', errors = [] } = body ?? {}
    return { status: answer.status, headers: answer.headers, text, body, message, errors }
  }
}

/** Throws the answer unless it has that status. */
function must<A extends Pick<Answer, 'status' | 'text'>>(answer: A, status: number): A {
  if (answer.status !== status) throw new Error(`${answer.status} ${answer.text}`)
  return answer
}

/** Returns the recorded events of a stream. */
export async function eventsIn({ services }: TestServer, stream: string): Promise<Recorded<DomainEvent>[]> {
  return await Array.fromAsync(services.events.readStream(stream), (recorded) => decode(recorded))
}

/** Options of a repository of alice's: settings, and logins of other writers. */
export interface RepositoryOptions extends EditRepoOption {
  writers?: string[]
}

export async function startPulls(test: Test, environment: Record<string, string> = {}) {
  const server = await startTestServer(test, environment)
  const [alice, bob, carol, dave] = await Promise.all([
    server.as('alice'),
    server.as('bob'),
    server.as('carol'),
    server.as('dave'),
  ])

  /** A repository of alice's with a first commit, and her clone of it. */
  async function repository(test: Test, name: string, options: RepositoryOptions = {}) {
    const { writers = [], private: isPrivate = false, ...settings } = options
    const made = await alice.user.createCurrentUserRepo({ name, auto_init: true, private: isPrivate })
    const repoId = made.data.id ?? 0
    const dir = `${server.services.gitDir}/${repoId}.git`
    const call = caller(server, `repos/alice/${name}/`)
    const writer = async (login: string, permission: 'read' | 'write' | 'admin' = 'write') =>
      must(await call('alice', 'PUT', `collaborators/${login}`, { permission }), 204)
    const [own] = await Promise.all([
      hostedWork(test, server, { login: 'alice', repoId, fullName: `alice/${name}` }),
      Object.keys(settings).length > 0 && alice.repos.repoEdit('alice', name, settings),
      ...writers.map((login) => writer(login)),
    ])
    const tryOpen = (head: string, option: object = {}, login: string | null = 'alice') =>
      call(login, 'POST', 'pulls', { head, base: 'main', title: `From ${head}`, ...option })
    const openPull = async (
      head: string,
      option: Partial<CreatePullRequestOption> = {},
      login = 'alice',
    ): Promise<PullRequest> => must(await tryOpen(head, option, login), 201).body
    const eventsOf = (index: number) => eventsIn(server, pullStream(repoId, index))
    /** Posts a status; resolves when the process of scheduled merges has handled it. */
    async function postStatus(sha: string, state: CommitState, context = 'ci') {
      must(await call('alice', 'POST', `statuses/${sha}`, { state, context }), 201)
      const position = (await eventsIn(server, checksStream(repoId, sha))).at(-1)?.position ?? 0
      await until('the process has seen the status', async () => {
        const checkpoint = await server.services.readStore.checkpoint('process_scheduled_merges')
        return (checkpoint?.position ?? 0) >= position
      })
      const last = await server.services.events.lastPosition()
      await until('queries see what it did', () => server.services.projector.waitFor(last, 5000))
    }
    return {
      ...own,
      name,
      repoId,
      /** Path of the bare repository on the server. */
      dir,
      /** Returns the path of a loose object. */
      objectFile: (id: string) => `${dir}/objects/${id.slice(0, 2)}/${id.slice(2)}`,
      /** Sends a request below the repository's path. */
      call,
      writer,
      /** Creates a fork, and its owner's clone. */
      async fork(login: string, forkName = name) {
        const { body } = must(await call(login, 'POST', 'forks', { name: forkName }), 202)
        const hosted = { login, repoId: Number(body.id), fullName: `${login}/${forkName}` }
        return { repoId: hosted.repoId, ...(await hostedWork(test, server, hosted)) }
      },
      protect: async (rule: string, option: object) =>
        must(await call('alice', 'POST', 'branch_protections', { rule_name: rule, ...option }), 201),
      label: async (label: string, option: object = {}) =>
        (await alice.repos.issueCreateLabel('alice', name, { name: label, color: '#aabbcc', ...option })).data
          .id ?? 0,
      milestone: async (title: string) =>
        (await alice.repos.issueCreateMilestone('alice', name, { title })).data.id ?? 0,
      /** Open and closed counts of a milestone. */
      async counts(milestone: number) {
        const { data } = await alice.repos.issueGetMilestone('alice', name, `${milestone}`)
        return [data.open_issues, data.closed_issues]
      },
      /** Opens a pull request; may be refused. */
      tryOpen,
      /** Opens one; resolves to its document. */
      openPull,
      /** Opens one; resolves to its number. */
      open: async (...pull: Parameters<typeof openPull>) => (await openPull(...pull)).number ?? 0,
      get: async (index: number) => (await alice.repos.repoGetPullRequest('alice', name, index)).data,
      /** Returns the answer of a path below the pull requests. */
      download: (path: string, init: RequestInit = {}) =>
        server.fetch('alice', `/api/v1/repos/alice/${name}/pulls/${path}`, init),
      edit: (index: number, option: object, login: string | null = 'alice') =>
        call(login, 'PATCH', `pulls/${index}`, option),
      close: async (index: number) =>
        must(await call('alice', 'PATCH', `pulls/${index}`, { state: 'closed' }), 201),
      reopen: async (index: number) =>
        must(await call('alice', 'PATCH', `pulls/${index}`, { state: 'open' }), 201),
      /** Merges, or schedules a merge. */
      merge: (
        index: number,
        option: object = {},
        login: string | null = 'alice',
        headers: Record<string, string> = {},
      ) => call(login, 'POST', `pulls/${index}/merge`, { Do: 'merge', ...option }, headers),
      postStatus,
      /** Posts a status for the first commit. A scheduled merge then waits for a status of its head. */
      knowsChecks: async () => postStatus((await own.tip('main')) ?? '', 'success'),
      id: (index: number) => ({ repoId, index }),
      /** Returns the recorded events of a pull request. */
      eventsOf,
      typesOf: async (index: number) => (await eventsOf(index)).map(({ type }) => type),
      /** Returns its events since the opening, without those of background processes. */
      changes: async (index: number) =>
        (await eventsOf(index))
          .slice(1)
          .filter(({ type }) => type !== 'MergeabilityChecked')
          .map(({ type, data }) => ({ type, data })),
    }
  }

  return { server, alice, bob, carol, dave, call: caller(server, ''), repository }
}
