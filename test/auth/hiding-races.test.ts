/** Repositories and forks created while their organization or parent is being hidden. */
import t, { type Test } from 'tap'
import { repositories } from '../../src/commands/execution/aggregates.ts'
import { append } from '../../src/commands/execution/append.ts'
import type { Visibility } from '../../src/events/catalog/organizations.ts'
import type { DomainEvent, Recorded } from '../../src/events/domain-events.ts'
import { StoreUnavailable } from '../../src/events/store/event-store.ts'
import { organizationStream, repositoryStream } from '../../src/events/streams.ts'
import { eventsIn } from '../commands/pull-requests/pull-repository.ts'
import { startTestServer } from '../start-server.ts'
import { aContext } from '../stores.ts'
import { until } from '../until.ts'

const server = await startTestServer(t, { LOG_LEVEL: 'fatal' })
const { services } = server

async function call(login: string | null, method: string, path: string, body?: object) {
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  return { status: answer.status, body: JSON.parse((await answer.text()) || 'null') }
}

async function must(login: string, method: string, path: string, body?: object) {
  const answer = await call(login, method, path, body)
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.body?.message}`)
  return answer.body
}

await must('alice', 'POST', '/user/repos', { name: 'template', auto_init: true, template: true })
await must('bob', 'POST', '/user/repos', { name: 'base', auto_init: true })

/** The ways in which an organization gets a repository, by event type. */
const WAYS: {
  how: string
  type: string
  ask: (org: string) => Promise<{ status: number; body: { id: number } }>
}[] = [
  {
    how: 'created',
    type: 'RepositoryCreated',
    ask: (org) => call('alice', 'POST', `/orgs/${org}/repos`, { name: 'made', auto_init: true }),
  },
  {
    how: 'forked',
    type: 'RepositoryCreated',
    ask: (org) => call('alice', 'POST', '/repos/bob/base/forks', { organization: org, name: 'made' }),
  },
  {
    how: 'generated',
    type: 'RepositoryCreated',
    ask: (org) =>
      call('alice', 'POST', '/repos/alice/template/generate', {
        owner: org,
        name: 'made',
        git_content: true,
      }),
  },
  {
    how: 'transferred',
    type: 'RepositoryTransferred',
    async ask(org) {
      await must('alice', 'POST', '/user/repos', { name: `to-${org}`, auto_init: true })
      return call('alice', 'POST', `/repos/alice/to-${org}/transfer`, { new_owner: org })
    },
  },
]

async function organization(username: string): Promise<number> {
  return (await must('alice', 'POST', '/orgs', { username, visibility: 'public' })).id
}

/** Delays the append of an event of this type. `reached`: resolves at the append; `release` continues it. */
function gate(test: Test, type: string) {
  const { append: write } = services.events
  let reach = () => {}
  let release = () => {}
  const reached = new Promise<void>((resolve) => {
    reach = resolve
  })
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  services.events.append = async (stream, events, expected) => {
    if (events.some((event) => event.type === type)) {
      reach()
      await released
    }
    return write(stream, events, expected)
  }
  test.teardown(() => {
    services.events.append = write
  })
  return { reached, release }
}

/** Counts the requests for a lock. `isLost`: no caller waits, as on a node that stood still and lost its lock. */
function turnsOf(test: Test, key: string, isLost = false) {
  const { runExclusive } = services
  const asked = { count: 0 }
  services.runExclusive = (wanted, work) => {
    if (wanted !== key) return runExclusive(wanted, work)
    asked.count += 1
    return isLost ? work() : runExclusive(wanted, work)
  }
  test.teardown(() => {
    services.runExclusive = runExclusive
  })
  return asked
}

/** The audience to which an event shows its repository; undefined for other events. */
function shownBy(event: Recorded<DomainEvent>): Visibility | undefined {
  switch (event.type) {
    case 'RepositoryCreated':
      return event.data.owner.kind === 'user' ? undefined : (event.data.ownerVisibility ?? 'public')
    case 'RepositoryTransferred':
      return event.data.ownerVisibility ?? 'public'
    case 'OwnerVisibilityChanged':
      return event.data.visibility
    default:
      return undefined
  }
}

/** The audiences of a repository, with their ranges in the log. */
async function shownIn(repoId: number) {
  const shown = (await eventsIn(server, repositoryStream(repoId))).flatMap((event) => {
    const to = shownBy(event)
    return to === undefined ? [] : [{ to, from: event.position }]
  })
  return shown.map(({ to, from }, i) => ({ to, from, until: shown[i + 1]?.from ?? Number.MAX_SAFE_INTEGER }))
}

for (const { how, type, ask } of WAYS) {
  t.test(
    `a repository that is ${how} while its organization is being hidden is never public after that`,
    async (t) => {
      const org = `never-${how}`
      const id = await organization(org)
      const { reached, release } = gate(t, type)
      const asked = turnsOf(t, `organization ${id}`)
      const making = ask(org)
      await reached
      const before = asked.count
      let isHidden = false
      const hiding = must('alice', 'PATCH', `/orgs/${org}`, { visibility: 'private' }).then(() => {
        isHidden = true
      })
      await until('it waits, or is done', () => Promise.resolve(isHidden || asked.count > before))
      release()
      const made = await making
      await hiding
      t.ok(made.status < 300)
      const hidden = (await eventsIn(server, organizationStream(id))).find(
        (event) => event.type === 'OrganizationEdited' && event.data.changes.visibility === 'private',
      )
      const at = hidden?.position ?? 0
      t.ok(at > 0)
      const late = (await shownIn(made.body.id)).filter(({ to, until }) => to !== 'private' && until > at)
      t.strictSame(late, [], 'it was hidden before its organization was')
      t.equal((await call(null, 'GET', `/repositories/${made.body.id}`)).status, 404)
    },
  )

  t.test(`a node that loses its lock while a repository is ${how} hides it before it answers`, async (t) => {
    const org = `lost-${how}`
    const id = await organization(org)
    const { reached, release } = gate(t, type)
    turnsOf(t, `organization ${id}`, true)
    const making = ask(org)
    await reached
    await must('alice', 'PATCH', `/orgs/${org}`, { visibility: 'private' })
    release()
    const made = await making
    t.ok(made.status < 300)
    t.equal((await shownIn(made.body.id)).at(-1)?.to, 'private')
  })
}

t.test(
  'a hidden organization that a suspended node has shown is hidden again, also after a crash',
  async (t) => {
    const id = await organization('late')
    const { id: repoId } = await must('alice', 'POST', '/orgs/late/repos', { name: 'made' })
    await must('alice', 'PATCH', '/orgs/late', { visibility: 'private' })
    const shown = { type: 'OwnerVisibilityChanged', data: { repoId, visibility: 'public' } } as const
    await append(services, aContext(), repositoryStream(repoId), 'late', [shown], 'any')
    await until('it is hidden', async () => {
      const state = await repositories.load(services, repoId)
      return state.status === 'active' && state.ownerVisibility === 'private'
    })
    t.ok(id > 0)
  },
)

t.test('a fork that is created while its base becomes private is private, also after a crash', async (t) => {
  for (const dies of [false, true]) {
    const name = `closes-${dies}`
    await must('alice', 'POST', '/user/repos', { name, auto_init: true })
    const { reached, release } = gate(t, 'RepositoryCreated')
    const making = call('carol', 'POST', `/repos/alice/${name}/forks`, { name: `of-${name}` })
    await reached
    await must('alice', 'PATCH', `/repos/alice/${name}`, { private: true })
    const { append: write } = services.events
    let isDead = false
    services.events.append = async (stream, events, expected) => {
      // The request dies after the event of the fork; the process continues.
      if (dies && !isDead && events.some(({ type }) => type === 'RepositoryEdited')) {
        isDead = true
        throw new StoreUnavailable('died')
      }
      return write(stream, events, expected)
    }
    release()
    const { status } = await making
    services.events.append = write
    if (!dies) t.equal(status, 202)
    await until('it is private', async () => {
      const { status, body } = await call('carol', 'GET', `/repos/carol/of-${name}`)
      return status === 200 && body.private
    })
    t.equal((await call(null, 'GET', `/repos/carol/of-${name}`)).status, 404)
  }
})
