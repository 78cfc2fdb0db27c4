import type { Reaction, WatchInfo as TheirWatchInfo } from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { ReactionWire } from '../../../../src/api/reactions/reactions.ts'
import type { WatchInfo } from '../../../../src/api/repositories/follows.ts'
import { startTestServer, statusOf } from '../../../start-server.ts'
import { until } from '../../../until.ts'

/** Compiles only if Gitea's client knows the name of every field. */
type Known<Wire extends Theirs, Theirs> = Exclude<keyof Wire, keyof Theirs> extends never ? true : never
export const knownToClients: [
  Known<Omit<Static<typeof ReactionWire>, 'user'>, Reaction>,
  Known<Static<typeof WatchInfo>, TheirWatchInfo>,
] = [true, true]

const server = await startTestServer(t)
const [admin, alice, bob, carol] = await Promise.all([
  server.as('admin'),
  server.as('alice'),
  server.as('bob'),
  server.as('carol'),
])

async function repository(name: string, options: object = {}) {
  await alice.user.createCurrentUserRepo({ name, ...options })
  const index = (await alice.repos.issueCreateIssue('alice', name, { title: 'T' })).data.number ?? 0
  const comment = (await alice.repos.issueCreateComment('alice', name, index, { body: 'Hm' })).data.id ?? 0
  return { name, index, comment }
}

const send = async (login: string | null, method: string, path: string, body?: object) =>
  server.fetch(login, `/api/v1/${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })

const namesIn = (reactions: readonly Reaction[]) =>
  reactions.map(({ user, content }) => `${user?.login} ${content}`)

t.test('readers react to issues and comments, once with each reaction', async (t) => {
  const { name, index, comment } = await repository('reactions')
  t.ok((await alice.settings.getGeneralUiSettings()).data.allowed_reactions?.includes('heart'))
  for (const path of [`issues/${index}`, `issues/comments/${comment}`]) {
    const reactions = `repos/alice/${name}/${path}/reactions`
    const react = async (login: string | null, content: string) =>
      (await send(login, 'POST', reactions, { content })).status
    t.same(
      [await react('bob', 'heart'), await react('bob', 'heart'), await react('carol', 'heart')],
      [201, 200, 201],
    )
    t.same([await react('bob', '+1'), await react('bob', 'wrong'), await react(null, '+1')], [201, 403, 401])
    t.equal((await send('bob', 'POST', reactions, {})).status, 422)
    const list = async (query = ''): Promise<Reaction[]> =>
      JSON.parse(await (await send(null, 'GET', `${reactions}${query}`)).text())
    t.same(namesIn(await list()), ['bob heart', 'carol heart', 'bob +1'])
    t.same(namesIn(await list('?page=2&limit=2')), ['bob +1'])
    t.equal((await send('bob', 'DELETE', reactions, { content: 'heart' })).status, 200)
    t.equal((await send('bob', 'DELETE', reactions, { content: 'heart' })).status, 200)
    t.same(namesIn(await list()), ['carol heart', 'bob +1'])
    const again = await Promise.all(['eyes', 'eyes', 'laugh', 'eyes'].map((content) => react('bob', content)))
    t.same(again.sort(), [200, 200, 201, 201], 'at the same time')
  }
  const history = await send('alice', 'GET', `repos/alice/${name}/history?type=ReactionRemoved`)
  t.equal(history.headers.get('x-total-count'), '2', 'the history has them')
})

t.test('stars and watching: checked, listed with totals, and counted', async (t) => {
  const { name } = await repository('stars')
  await repository('stars-too')
  t.equal(await statusOf(bob.user.userCurrentCheckStarring('alice', name)), 404)
  t.equal(await statusOf(bob.repos.userCurrentCheckSubscription('alice', name)), 404)
  for (const repo of [name, name, 'stars-too']) await bob.user.userCurrentPutStar('alice', repo)
  await carol.user.userCurrentPutStar('alice', name)
  t.match((await bob.repos.userCurrentPutSubscription('alice', name)).data, { subscribed: true })
  t.equal(await statusOf(bob.user.userCurrentCheckStarring('alice', name)), 204)
  t.match((await bob.repos.userCurrentCheckSubscription('alice', name)).data, { subscribed: true })
  const counts = async () => {
    const { stars_count, watchers_count } = (await alice.repos.repoGet('alice', name)).data
    return [stars_count, watchers_count]
  }
  t.same(await counts(), [2, 1])
  const page = await bob.user.userCurrentListStarred({ limit: 1 })
  t.same([page.data.map((repo) => repo.name), page.headers.get('x-total-count')], [['stars-too'], '2'])
  const names = (people: { data: { login?: string }[] }) => people.data.map(({ login }) => login)
  t.same(names(await alice.repos.repoListStargazers('alice', name)), ['bob', 'carol'])
  t.same(names(await alice.repos.repoListSubscribers('alice', name)), ['bob'])
  t.equal((await carol.users.userListStarred('bob')).data.length, 2)
  t.equal((await carol.users.userListSubscriptions('bob')).data.length, 1)
  await bob.user.userCurrentDeleteStar('alice', name)
  await bob.user.userCurrentDeleteStar('alice', name)
  await bob.repos.userCurrentDeleteSubscription('alice', name)
  t.same(await counts(), [1, 0])
})

t.test('a user who loses access loses stars and watches, is not counted, and sees nothing', async (t) => {
  const { name } = await repository('leaving')
  await alice.repos.repoAddCollaborator('alice', name, 'carol', { permission: 'read' })
  for (const client of [bob, carol]) {
    await client.user.userCurrentPutStar('alice', name)
    await client.repos.userCurrentPutSubscription('alice', name)
  }
  await alice.repos.repoEdit('alice', name, { private: true })
  const starred = async () => (await bob.user.userCurrentListStarred()).data.map((repo) => repo.name)
  t.notOk((await starred()).includes(name), 'at once')
  t.equal(await statusOf(bob.user.userCurrentCheckStarring('alice', name)), 404)
  const counts = async () => {
    const { stars_count, watchers_count } = (await alice.repos.repoGet('alice', name)).data
    return `${stars_count} ${watchers_count}`
  }
  await until('the stars of others are gone', async () => (await counts()) === '1 1')
  t.same(
    (await alice.repos.repoListStargazers('alice', name)).data.map(({ login }) => login),
    ['carol'],
  )
  await alice.repos.repoDeleteCollaborator('alice', name, 'carol')
  await until('a collaborator who left is gone', async () => (await counts()) === '0 0')
  await alice.repos.repoEdit('alice', name, { private: false })
  t.notOk((await starred()).includes(name), 'nor do they come back')
})

t.test('the stars and reactions of a deleted user end; those of a deleted repository, too', async (t) => {
  const { name, index } = await repository('outlived')
  const erin = await server.as('erin')
  await erin.user.userCurrentPutStar('alice', name)
  await erin.repos.issuePostIssueReaction('alice', name, index, { content: 'heart' })
  await bob.repos.issuePostIssueReaction('alice', name, index, { content: 'heart' })
  await admin.admin.adminDeleteUser('erin')
  await until(
    'no star and one reaction is left',
    async () =>
      (await alice.repos.repoGet('alice', name)).data.stars_count === 0 &&
      (await alice.repos.issueGetIssueReactions('alice', name, index)).data.length === 1,
  )
  await bob.user.userCurrentPutStar('alice', name)
  const { id } = (await alice.repos.repoGet('alice', name)).data
  await alice.repos.repoDelete('alice', name)
  const { follows } = server.services.views
  await until('no document is left', async () => (await follows.count({ repoId: id ?? 0 })) === 0)
  t.equal((await bob.user.userCurrentListStarred()).data.filter((repo) => repo.id === id).length, 0)
})
