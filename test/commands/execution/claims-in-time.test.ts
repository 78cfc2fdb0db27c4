/** A command that moves a claim to a resource that exists records it within the time limit of claims, or not at all. */
import t from 'tap'
import { createClaimAges } from '../../../src/services/writes/claim-ages.ts'
import { startTestServer } from '../../start-server.ts'

const server = await startTestServer(t)
const { services } = server
const alice = await server.as('alice')

async function call(login: string, method: string, path: string, body?: object) {
  const answer = await server.fetch(login, `/api/v1/${path}`, {
    method,
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
}

/** Runs a command while this much time passes after each of its claims. */
async function slowly<T>(ms: number, command: () => Promise<T>): Promise<T> {
  const { events } = services
  const { append } = events
  let now = 0
  const position = await events.lastPosition()
  services.writeState.claimAges = createClaimAges({ node: 'another', position }, () => now)
  events.append = async (stream, made, expected) => {
    const appended = await append.call(events, stream, made, expected)
    if (made.some(({ type }) => type === 'ClaimTaken')) now += ms
    return appended
  }
  try {
    return await command()
  } finally {
    events.append = append
  }
}

const LATE = 20_001
const tooLate = { status: 409, body: { message: /took too long/ } }

await alice.user.createCurrentUserRepo({ name: 'app', auto_init: true })
await alice.orgs.orgCreate({ username: 'team' })
for (const branch of ['topic', 'next']) {
  await alice.repos.repoCreateBranch('alice', 'app', { new_branch_name: branch })
}

const commands: Record<string, { change: () => ReturnType<typeof call>; isMade: () => Promise<boolean> }> = {
  'the base of a pull request': {
    change: () => call('alice', 'PATCH', 'repos/alice/app/pulls/1', { base: 'next' }),
    isMade: async () => (await call('alice', 'GET', 'repos/alice/app/pulls/1')).body.base.ref === 'next',
  },
  'a pull request that is opened again': {
    change: () => call('alice', 'PATCH', 'repos/alice/app/pulls/2', { state: 'open' }),
    isMade: async () => (await call('alice', 'GET', 'repos/alice/app/pulls/2')).body.state === 'open',
  },
  'a pull request that is opened again as an issue': {
    change: () => call('alice', 'PATCH', 'repos/alice/app/issues/3', { state: 'open' }),
    isMade: async () => (await call('alice', 'GET', 'repos/alice/app/pulls/3')).body.state === 'open',
  },
  'the e-mail address of a user': {
    change: () => call('admin', 'PATCH', 'admin/users/bob', { email: 'new@example.org' }),
    isMade: async () => (await call('admin', 'GET', 'users/bob')).body.email === 'new@example.org',
  },
  'the tag of a release': {
    change: () => call('alice', 'PATCH', `repos/alice/app/releases/${releaseId}`, { tag_name: 'v2' }),
    isMade: async () =>
      (await call('alice', 'GET', `repos/alice/app/releases/${releaseId}`)).body.tag_name === 'v2',
  },
  'the name of a repository': {
    change: () => call('alice', 'PATCH', 'repos/alice/named', { name: 'renamed' }),
    isMade: async () => (await call('alice', 'GET', 'repos/alice/renamed')).body.name === 'renamed',
  },
  'the owner of a repository': {
    change: () => call('alice', 'POST', 'repos/alice/given/transfer', { new_owner: 'team' }),
    isMade: async () => (await call('alice', 'GET', 'repos/team/given')).status === 200,
  },
  'a user who is deleted': {
    change: () => call('admin', 'DELETE', 'admin/users/dave'),
    isMade: async () => (await call('admin', 'GET', 'users/dave')).status === 404,
  },
  'an organization that is deleted': {
    change: () => call('alice', 'DELETE', 'orgs/leaving'),
    isMade: async () => (await call('alice', 'GET', 'orgs/leaving')).status === 404,
  },
}
await call('alice', 'POST', 'repos/alice/app/pulls', { head: 'topic', base: 'main', title: 'Topic' })
for (const base of ['main', 'topic'])
  await call('alice', 'POST', 'repos/alice/app/pulls', { head: 'next', base, title: 'Next' })
for (const index of [2, 3])
  await call('alice', 'PATCH', `repos/alice/app/pulls/${index}`, { state: 'closed' })
const release = await call('alice', 'POST', 'repos/alice/app/releases', { tag_name: 'v1', draft: true })
const releaseId = release.body.id
await alice.user.createCurrentUserRepo({ name: 'named' })
await alice.user.createCurrentUserRepo({ name: 'given' })
await alice.orgs.orgCreate({ username: 'leaving' })

for (const [what, { change, isMade }] of Object.entries(commands)) {
  t.test(`too late after its claim, nothing is changed and the claim is free again: ${what}`, async (t) => {
    t.match(await slowly(LATE, change), tooLate)
    t.equal(await isMade(), false)
    const { status } = await slowly(LATE - 1, change)
    t.ok(status < 300, `in time it is ${status}`)
    t.equal(await isMade(), true)
  })
}
