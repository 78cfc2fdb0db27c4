/** A repository of alice's on a whole server, and what the tests of pull requests do with it. */
import type t from 'tap'
import { decode } from '../../../src/events/codec.ts'
import type { CommitState, DomainEvent, Recorded } from '../../../src/events/domain-events.ts'
import { checksStream, pullStream } from '../../../src/events/streams.ts'
import type { WorkTree } from '../../git-client.ts'
import { workTree } from '../../git-client.ts'
import type { TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

export interface Answer {
  status: number
  text: string
  /** Of an error. */
  message: string
  errors: unknown
}

function problemIn(text: string): Pick<Answer, 'message' | 'errors'> {
  const body: unknown = text.startsWith('{') ? JSON.parse(text) : undefined
  if (typeof body !== 'object' || body === null || !('message' in body)) {
    return { message: '', errors: undefined }
  }
  return { message: String(body.message), errors: 'errors' in body ? body.errors : undefined }
}

/** Pushes branches as whoever's clone it is; each starts at `from`. Resolves to the branch's tip. */
export function brancher({ git, commit }: WorkTree) {
  return async (branch: string, files: Record<string, string>, from = 'main') => {
    await git('checkout', '-q', '-B', branch, from)
    const tip = await commit(`Commit on ${branch}`, files)
    await git('push', '-q', '-f', 'origin', branch)
    return tip
  }
}

export async function pullRepository(
  test: Pick<typeof t, 'teardown'>,
  server: TestServer,
  name: string,
  options: object = {},
) {
  const alice = await server.as('alice')
  const { data } = await alice.user.createCurrentUserRepo({ name, auto_init: true, ...options })
  const repoId = data.id ?? 0
  const work = await workTree(test, server.gitUrl('alice', `alice/${name}`))

  const call = async (
    login: string | null,
    method: string,
    path: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Answer> => {
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const answer = await server.fetch(login, `/api/v1/repos/alice/${name}/${path}`, init)
    const text = await answer.text()
    return { status: answer.status, text, ...problemIn(text) }
  }

  const eventsIn = async (stream: string): Promise<Recorded<DomainEvent>[]> => {
    const events: Recorded<DomainEvent>[] = []
    for await (const recorded of server.services.events.readStream(stream)) events.push(decode(recorded))
    return events
  }
  const eventsOf = (index: number) => eventsIn(pullStream(repoId, index))

  return {
    alice,
    repoId,
    name,
    work,
    /** The bare repository on the server. */
    dir: `${server.services.gitDir}/${repoId}.git`,
    call,
    branch: brancher(work),
    async open(head: string, options: object = {}, login = 'alice') {
      const answer = await call(login, 'POST', 'pulls', {
        head,
        base: 'main',
        title: `From ${head}`,
        ...options,
      })
      if (answer.status !== 201) throw new Error(`${answer.status} ${answer.message}`)
      const { number }: { number: number } = JSON.parse(answer.text)
      return number
    },
    get: async (index: number) => (await alice.repos.repoGetPullRequest('alice', name, index)).data,
    writer: (login: string, permission: 'read' | 'write' | 'admin' = 'write') =>
      server.as(login).then(() => alice.repos.repoAddCollaborator('alice', name, login, { permission })),
    async protect(rule: string, options: object) {
      const { status, message } = await call('alice', 'POST', 'branch_protections', {
        rule_name: rule,
        ...options,
      })
      if (status !== 201) throw new Error(`${status} ${message}`)
    },
    /** Merges, or schedules a merge. */
    merge: (index: number, options: object = {}, login = 'alice', headers: Record<string, string> = {}) =>
      call(login, 'POST', `pulls/${index}/merge`, { Do: 'merge', ...options }, headers),
    /** Posts a status; resolves when the process that merges what is scheduled has done what it does then. */
    async post(sha: string, state: CommitState, context = 'ci') {
      const { status, message } = await call('alice', 'POST', `statuses/${sha}`, { state, context })
      if (status !== 201) throw new Error(`${status} ${message}`)
      const position = (await eventsIn(checksStream(repoId, sha))).at(-1)?.position ?? 0
      await until('the process has seen the status', async () => {
        const checkpoint = await server.services.readStore.checkpoint('process_scheduled_merges')
        return (checkpoint?.position ?? 0) >= position
      })
      await server.services.projector.waitFor(await server.services.events.lastPosition(), 5000)
    },
    eventsOf,
    typesOf: async (index: number) => (await eventsOf(index)).map(({ type }) => type),
  }
}
