/** A user without write permission loses the assignments in the repository, as assignees must be able to write. */
import t from 'tap'
import { issueStream } from '../../src/events/streams.ts'
import { startTestServer } from '../start-server.ts'
import { until } from '../until.ts'

const server = await startTestServer(t)

async function call(login: string, method: string, path: string, body?: object) {
  const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return text === '' ? null : JSON.parse(text)
}
const assigneesOf = async (path: string, index: number) =>
  ((await call('alice', 'GET', `${path}/issues/${index}`)).assignees ?? []).map(
    ({ login }: { login: string }) => login,
  )

/** An organization with a repository; `who` and alice are assigned to a closed and to an open issue of it. */
async function assigned(org: string, who: string, grant: () => Promise<unknown>) {
  await call('alice', 'POST', '/orgs', { username: org })
  const { id } = await call('alice', 'POST', `/orgs/${org}/repos`, { name: 'app' })
  await grant()
  const path = `/repos/${org}/app`
  for (const closed of [true, false]) {
    await call('alice', 'POST', `${path}/issues`, { title: 'T', closed, assignees: [who, 'alice'] })
  }
  return { path, id }
}

const gone = (path: string) =>
  until('only alice is assigned', async () => {
    const found = await Promise.all([1, 2].map((index) => assigneesOf(path, index)))
    return found.every((logins) => `${logins}` === 'alice')
  })

t.test('a removed collaborator loses the assignments, with an event', async (t) => {
  const { path, id } = await assigned('removed', 'bob', () =>
    call('alice', 'PUT', '/repos/removed/app/collaborators/bob', { permission: 'write' }),
  )
  await call('alice', 'DELETE', `${path}/collaborators/bob`)
  await gone(path)
  const events = await Array.fromAsync(server.services.events.readStream(issueStream(id, 2)))
  t.match(events.at(-1), {
    type: 'AssigneesChanged',
    data: { assignees: [{ login: 'alice' }], added: [], removed: [{ login: 'bob' }] },
    metadata: { actor: null },
  })
  const timeline = await call('alice', 'GET', `${path}/issues/2/timeline`)
  t.match(timeline.at(-1), { type: 'assignees', assignee: { login: 'bob' }, removed_assignee: true })
})

t.test('a collaborator who is reduced to read permission loses them, too', async () => {
  const { path } = await assigned('lowered', 'bob', () =>
    call('alice', 'PUT', '/repos/lowered/app/collaborators/bob', { permission: 'write' }),
  )
  await call('alice', 'PUT', `${path}/collaborators/bob`, { permission: 'read' })
  await gone(path)
})

t.test('a user with write permission from another source keeps them', async (t) => {
  const { path } = await assigned('kept', 'bob', async () => {
    await call('alice', 'PUT', '/repos/kept/app/collaborators/bob', { permission: 'write' })
    await call('alice', 'PUT', '/orgs/kept/members/bob', { permission: 'write' })
  })
  const other = await assigned('other', 'bob', () =>
    call('alice', 'PUT', '/repos/other/app/collaborators/bob', { permission: 'write' }),
  )
  await call('alice', 'DELETE', `${path}/collaborators/bob`)
  await call('alice', 'DELETE', `${other.path}/collaborators/bob`)
  // The process takes the events in their order.
  await gone(other.path)
  t.same(await assigneesOf(path, 2), ['bob', 'alice'])
  await call('alice', 'DELETE', '/orgs/kept/members/bob')
  await gone(path)
})

t.test('a user who leaves a team, or whose team loses write permission, loses them', async () => {
  const team = async (org: string) => {
    const body = { name: 'writers', permission: 'write', units: ['repo.code', 'repo.issues', 'repo.pulls'] }
    const { id } = await call('alice', 'POST', `/orgs/${org}/teams`, body)
    await call('alice', 'PUT', `/teams/${id}/repos/${org}/app`)
    await call('alice', 'PUT', `/teams/${id}/members/bob`)
    return id
  }
  let id = 0
  const left = await assigned('left', 'bob', async () => {
    id = await team('left')
  })
  await call('alice', 'DELETE', `/teams/${id}/members/bob`)
  await gone(left.path)
  const narrowed = await assigned('narrowed', 'bob', async () => {
    id = await team('narrowed')
  })
  await call('alice', 'PATCH', `/teams/${id}`, { name: 'writers', permission: 'read' })
  await gone(narrowed.path)
  const taken = await assigned('taken', 'bob', async () => {
    id = await team('taken')
  })
  await call('alice', 'DELETE', `/teams/${id}/repos/taken/app`)
  await gone(taken.path)
})

t.test('a deleted account loses its assignments', async () => {
  const { path } = await assigned('ended', 'dave', () =>
    call('alice', 'PUT', '/repos/ended/app/collaborators/dave', { permission: 'write' }),
  )
  await call('admin', 'DELETE', '/admin/users/dave')
  await gone(path)
})
