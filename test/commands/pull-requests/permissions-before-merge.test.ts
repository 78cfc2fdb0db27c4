/** Merges and updates that wait for the lock: permissions of the moment when they get it count. */
import t from 'tap'
import { refLockKey, withRefLock } from '../../../src/commands/git/ref-lock.ts'
import { mergeLockKey } from '../../../src/commands/pull-requests/finish-merge.ts'
import { pullId } from '../../../src/projections/models/pull-requests/pulls.fold.ts'
import { until } from '../../until.ts'
import { startPulls } from './pull-repository.ts'

const { server, alice, repository } = await startPulls(t)
const { pulls } = server.services.views

/** Number of lookups of a pull request: a request looks it up right before it waits for the lock. */
const looked = new Map<string, number>()
const { get } = pulls
pulls.get = async (id) => {
  const found = await get(id)
  looked.set(id, (looked.get(id) ?? 0) + 1)
  return found
}

/** Returns the status of a request that waits for the lock while something happens; 0 for a closed connection. */
async function waiting(
  { repoId, index }: { repoId: number; index: number },
  ask: () => Promise<Response>,
  meanwhile: () => Promise<unknown>,
): Promise<number> {
  const { promise: held, resolve: leave } = Promise.withResolvers<void>()
  const turn = server.services.runExclusive(mergeLockKey(repoId), () => held)
  const id = pullId(repoId, index)
  const before = looked.get(id) ?? 0
  const asked = ask().then(
    ({ status }) => status,
    () => 0,
  )
  await until('the request is let in', async () => (looked.get(id) ?? 0) > before)
  await meanwhile().finally(leave)
  await turn
  return asked
}

/** Changes that end the permission to merge and update, and the expected answer. */
const ENDS: Record<string, { statuses: number[]; end: (name: string, token: number) => Promise<unknown> }> = {
  'a writer becomes a reader': {
    statuses: [403, 405],
    end: (name) => alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'read' }),
  },
  'a writer is not a collaborator any more': {
    statuses: [404],
    end: (name) => alice.repos.repoDeleteCollaborator('alice', name, 'carol'),
  },
  'the token is deleted': {
    statuses: [0, 401],
    end: async (_, token) => {
      const answer = await server.fetch('carol', `/api/v1/users/carol/tokens/${token}`, { method: 'DELETE' })
      if (answer.status !== 204) throw new Error(`${answer.status}`)
    },
  },
}

for (const [title, { statuses, end }] of Object.entries(ENDS)) {
  for (const [action, path] of [
    ['merge', 'merge'],
    ['update', 'update'],
  ] as const) {
    t.test(
      `the permissions of a request that ${path}s end while it waits for the lock: ${title}`,
      async (t) => {
        const name = `${action}-${Object.keys(ENDS).indexOf(title)}`
        const made = await repository(t, name, { writers: ['carol'], private: true })
        await made.branch('topic', { topic: 'x' })
        const index = await made.open('topic')
        await made.branch('main', { main: 'x' }, 'main')
        const { repoId } = made
        const before = [await made.tip('main'), await made.tip('topic')]
        const created = await server.fetch('carol', '/api/v1/users/carol/tokens', {
          method: 'POST',
          body: JSON.stringify({ name, scopes: ['all'] }),
        })
        const token: { id: number; sha1: string } = JSON.parse(await created.text())
        const ask = () =>
          server.fetch(null, `/api/v1/repos/alice/${name}/pulls/${index}/${path}`, {
            method: 'POST',
            headers: { authorization: `token ${token.sha1}` },
            body: JSON.stringify(action === 'merge' ? { Do: 'merge' } : {}),
          })
        const status = await waiting({ repoId, index }, ask, () => end(name, token.id))
        t.ok(statuses.includes(status), `${status}`)
        // Later work gets the lock after it.
        await server.services.runExclusive(mergeLockKey(repoId), async () => undefined)
        t.same([await made.tip('main'), await made.tip('topic')], before, 'no branch has moved')
        t.match(await made.get(index), { merged: false, state: 'open' })
        const types = await made.typesOf(index)
        t.notOk(types.some((type) => ['MergeStarted', 'PullRequestMerged'].includes(type)))
      },
    )
  }
}

/** Changes that forbid a merge while its commit is built. */
const CHANGES: Record<string, { status: number; change: (name: string) => Promise<unknown> }> = {
  'the merger is not a collaborator any more': {
    status: 405,
    change: (name) => alice.repos.repoDeleteCollaborator('alice', name, 'carol'),
  },
  'the base branch needs an approval': {
    status: 405,
    change: (name) =>
      alice.repos.repoCreateBranchProtection('alice', name, { rule_name: 'main', required_approvals: 1 }),
  },
  'the repository becomes private': {
    status: 404,
    change: async (name) => {
      await alice.repos.repoDeleteCollaborator('alice', name, 'carol')
      await alice.repos.repoEdit('alice', name, { private: true })
    },
  },
}

for (const [title, { status, change }] of Object.entries(CHANGES)) {
  t.test(`permissions and rules change while a merge is built, and it is refused: ${title}`, async (t) => {
    const name = `built-${Object.keys(CHANGES).indexOf(title)}`
    const made = await repository(t, name, { writers: ['carol'] })
    await made.branch('topic', { topic: 'x' })
    const index = await made.open('topic', {}, 'bob')
    await made.branch('main', { main: 'x' }, 'main')
    const before = await made.tip('main')
    const { accounts } = server.services.views
    const poster = await accounts.findOne({ loginKey: 'bob' })
    // The poster's name is looked up after the decision, for the commit.
    const getAccount = accounts.get
    let meanwhile: Promise<unknown> | undefined
    accounts.get = async (id) => {
      if (id === `${poster?.id}`) {
        meanwhile ??= change(name)
        await meanwhile
      }
      return getAccount(id)
    }
    t.teardown(() => {
      accounts.get = getAccount
    })
    const answer = await made.call('carol', 'POST', `pulls/${index}/merge`, { Do: 'merge' })
    t.ok(meanwhile !== undefined)
    t.equal(answer.status, status)
    t.equal(await made.tip('main'), before, 'no branch has moved')
    t.notOk((await made.typesOf(index)).includes('MergeStarted'))
  })
}

t.test('a head branch that is protected while its update is built is not moved', async (t) => {
  const made = await repository(t, 'updated', { writers: ['carol'] })
  await made.branch('topic', { topic: 'x' })
  const index = await made.open('topic')
  await made.branch('main', { main: 'x' }, 'main')
  const before = await made.tip('topic')
  const { promise: held, resolve: leave } = Promise.withResolvers<void>()
  let waits = false
  const { runExclusive } = server.services
  const turn = withRefLock(server.services, made.repoId, () => held)
  server.services.runExclusive = (key, work, ...more) => {
    waits ||= key === refLockKey(made.repoId)
    return runExclusive(key, work, ...more)
  }
  t.teardown(() => {
    server.services.runExclusive = runExclusive
  })
  const asked = made.call('carol', 'POST', `pulls/${index}/update`)
  await until('the update is built', async () => waits)
  await made.protect('topic', { enable_push: false }).finally(leave)
  await turn
  t.equal((await asked).status, 403)
  t.equal(await made.tip('topic'), before)
})
