import t, { type Test } from 'tap'
import { type EventStore, StoreUnavailable } from '../../../src/events/store/event-store.ts'
import { sharedStores } from '../../shared-stores.ts'
import { startTestServer, type TestServer } from '../../start-server.ts'
import { until } from '../../until.ts'

const caller =
  (running: () => TestServer) =>
  async (login: string | null, method: string, path: string, body?: object) => {
    const init = { method, ...(body && { body: JSON.stringify(body) }) }
    const answer = await running().fetch(login, `/api/v1/${path}`, init)
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? undefined : JSON.parse(text) }
  }

const REPOSITORIES = ['one', 'two', 'three', 'four']

async function organization(call: ReturnType<typeof caller>, org: string) {
  await call('alice', 'POST', 'orgs', { username: org })
  for (const name of REPOSITORIES) await call('alice', 'POST', `orgs/${org}/repos`, { name })
}

/** Returns the repositories of an organization that a stranger sees, and whether the stranger sees the organization. */
async function seen(call: ReturnType<typeof caller>, org: string) {
  const { status } = await call('dave', 'GET', `orgs/${org}`)
  const all = await Promise.all(REPOSITORIES.map((name) => call('dave', 'GET', `repos/${org}/${name}`)))
  const listed = (await call('dave', 'GET', `repos/search?q=o&limit=50`)).body.data
  const own = listed.filter(({ full_name }: { full_name: string }) => full_name.startsWith(`${org}/`))
  return { organization: status === 200, repositories: all.filter((one) => one.status === 200).length, own }
}

/** The log fails from the n-th append on. Calls `look` before each append. */
function failAppendsFrom(running: TestServer, n: number, look: () => Promise<void>): void {
  const { services } = running
  const { events } = services
  let appends = 0
  const append: EventStore['append'] = async (...args) => {
    appends += 1
    if (appends >= n) throw new StoreUnavailable('died')
    await look()
    return events.append(...args)
  }
  services.events = { ...events, append }
}

async function hiddenAtNoTime(t: Test, environment: Record<string, string>, deaths: readonly number[]) {
  let running = await startTestServer(t, environment)
  const call = caller(() => running)
  for (const login of ['alice', 'dave']) await running.as(login)
  // The appends: the start, each repository, the organization.
  for (const n of deaths) {
    const org = `org${n}`
    await organization(call, org)
    const look = async () => {
      const { organization, repositories, own } = await seen(call, org)
      t.ok(organization || repositories + own.length === 0, `${n}: ${organization} ${repositories}`)
    }
    failAppendsFrom(running, n, look)
    await call('alice', 'PATCH', `orgs/${org}`, { visibility: 'private' })
    await look()
    await running.stop()
    running = await startTestServer(t, environment)
    await look()
    const state = n === 1 ? 'public' : 'private'
    await until('what was begun is done', async () => {
      await look()
      const { body } = await call('alice', 'GET', `orgs/${org}`)
      return body.visibility === state
    })
    const { repositories, own } = await seen(call, org)
    const shown = n === 1 ? REPOSITORIES.length : 0
    t.same([repositories, own.length > 0], [shown, n === 1], `${n}: nothing is left half done`)
    t.equal((await call('alice', 'PATCH', `orgs/${org}`, { visibility: 'public' })).status, 200)
    t.equal((await seen(call, org)).repositories, REPOSITORIES.length, 'shown again')
  }
}

t.test('no repository of a hidden organization is visible to strangers, even after a crash', (t) =>
  hiddenAtNoTime(t, { DATA_DIR: t.testdir(), LOG_LEVEL: 'fatal' }, [1, 4, 7]),
)

t.test('the same on EventStoreDB and MongoDB', async (t) =>
  hiddenAtNoTime(t, { ...(await sharedStores(t)), LOG_LEVEL: 'fatal' }, [4]),
)
