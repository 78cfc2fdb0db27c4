/** A server with users and repositories of alice's, for tests of issues. */
import { decode } from '../../../src/events/codec.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { issueStream } from '../../../src/events/streams.ts'
import { startTestServer } from '../../start-server.ts'

type Test = Parameters<typeof startTestServer>[0]

export async function startIssues(test: Test) {
  const server = await startTestServer(test)
  const [alice, bob, carol, dave] = await Promise.all([
    server.as('alice'),
    server.as('bob'),
    server.as('carol'),
    server.as('dave'),
  ])

  /** Returns status and body of a request as that user, since Gitea's client hides parts of errors. */
  async function call(
    login: string | null,
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ) {
    const answer = await server.fetch(login, `/api/v1/${path}`, {
      method,
      headers,
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await answer.text()
    return {
      status: answer.status,
      headers: answer.headers,
      body: text === '' ? undefined : JSON.parse(text),
    }
  }

  /** A repository of alice's (or of an organization), with carol as writer; bob reads it if it is public. */
  async function repository(name: string, options: object = {}, owner = 'alice') {
    const made =
      owner === 'alice'
        ? await alice.user.createCurrentUserRepo({ name, ...options })
        : await alice.orgs.createOrgRepo(owner, { name, ...options })
    await alice.repos.repoAddCollaborator(owner, name, 'carol', { permission: 'write' })
    const repoId = made.data.id ?? 0
    const issues = `repos/${owner}/${name}/issues`
    return {
      repoId,
      issues,
      /** For requests that may be refused. */
      tryOpen: (option: unknown, login: string | null = 'alice', headers = {}) =>
        call(login, 'POST', issues, option, headers),
      /** Opens an issue. Resolves to its number. */
      async open(option: object = {}, login = 'alice'): Promise<number> {
        const { status, body } = await call(login, 'POST', issues, { title: 'Issue', ...option })
        if (status !== 201) throw new Error(`opening: ${status} ${JSON.stringify(body)}`)
        return body.number
      },
      edit: (index: number | string, option: unknown, login: string | null = 'alice') =>
        call(login, 'PATCH', `${issues}/${index}`, option),
      get: async (index: number) => (await alice.repos.issueGetIssue(owner, name, index)).data,
      label: async (label: string, option: object = {}) => {
        const wanted = { name: label, color: '#aabbcc', ...option }
        return (await alice.repos.issueCreateLabel(owner, name, wanted)).data.id ?? 0
      },
      milestone: async (title: string) =>
        (await alice.repos.issueCreateMilestone(owner, name, { title })).data.id ?? 0,
      /** Open and closed counts of a milestone. */
      async counts(milestone: number) {
        const { data } = await alice.repos.issueGetMilestone(owner, name, `${milestone}`)
        return [data.open_issues, data.closed_issues]
      },
      depends: async (index: number, on: number, repo = name) => {
        const meta = { owner, repo, index: on }
        const { status } = await call('alice', 'POST', `${issues}/${index}/dependencies`, meta)
        if (status !== 201) throw new Error(`dependency: ${status}`)
      },
      /** Returns the recorded events of an issue. */
      async events(index: number): Promise<DomainEvent[]> {
        const events: DomainEvent[] = []
        for await (const recorded of server.services.events.readStream(issueStream(repoId, index))) {
          events.push(decode(recorded))
        }
        return events
      },
    }
  }

  return { server, alice, bob, carol, dave, call, repository }
}
