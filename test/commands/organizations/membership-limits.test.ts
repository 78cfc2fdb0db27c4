import { randomUUID } from 'node:crypto'
import t from 'tap'
import { eventsOf } from '../../../src/commands/execution/append.ts'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import { organizationStream } from '../../../src/events/streams.ts'
import { startTestServer } from '../../start-server.ts'
import { aContext } from '../../stores.ts'

const server = await startTestServer(t)
const alice = await server.as('alice')

const call = async (login: string, method: string, path: string, body?: object) => {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  return { status: answer.status, text: await answer.text() }
}

/** Adds bob to a thousand organizations, or teams, as many requests would. */
async function putBob(inTeams: boolean): Promise<void> {
  const { events, views, projector } = server.services
  const bob = await views.accounts.findOne({ loginKey: 'bob' })
  if (bob === undefined) throw new Error('there is no bob')
  const user = { id: bob.id, login: 'bob' }
  const grant = { permission: 'read', allRepositories: false, canCreateRepositories: false } as const
  const id = inTeams ? 60_000 : 50_000
  const organization = { id, login: `organization${id}` }
  const told = Array.from({ length: 1000 }, (_, i): DomainEvent => {
    if (inTeams) {
      const data = { organization, team: { id: 70_000 + i, name: `team${i}` }, user, grant }
      return { type: 'TeamMemberAdded', data }
    }
    const other = { id: id + i, login: `organization${id + i}` }
    return { type: 'MemberSet', data: { organization: other, user, permission: 'read' } }
  })
  const stream = organizationStream(id)
  await events.append(stream, eventsOf(aContext({ correlationId: randomUUID() }), stream, 'x', told), 'any')
  await projector.waitFor(await events.lastPosition(), 60_000)
}

t.test('an account is in at most a thousand organizations and teams, whoever adds it', async (t) => {
  await alice.orgs.orgCreate({ username: 'acme' })
  const { id } = (await alice.orgs.orgGet('acme')).data
  const team = { name: 'team', units: ['repo.code', 'repo.issues', 'repo.pulls'] }
  const { id: teamId } = (await alice.orgs.orgCreateTeam('acme', team)).data
  await putBob(false)
  const full = { status: 422, text: /bob is in 1000 organizations already/ }
  t.match(await call('alice', 'PUT', '/orgs/acme/members/bob'), full)
  t.match(await call('alice', 'PUT', `/teams/${id}/members/bob`), full, 'nor among the Owners')
  t.match(await call('bob', 'POST', '/orgs', { username: 'another' }), full)
  t.match(await call('dave', 'PUT', '/orgs/acme/members/bob'), { status: 403 }, 'strangers learn nothing')
  t.match(await call('alice', 'PUT', `/teams/${teamId}/members/bob`), { status: 204 })
  await putBob(true)
  await alice.teams.orgRemoveTeamMember(teamId ?? 0, 'bob')
  t.match(await call('alice', 'PUT', `/teams/${teamId}/members/bob`), {
    ...{ status: 422, text: /bob is in 1000 teams already/ },
  })
  t.match(await call('bob', 'GET', '/user/repos'), { status: 200, text: '[]' })
})
