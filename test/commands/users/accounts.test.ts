import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import t from 'tap'
import { keepPassword } from '../../../src/auth/secrets.ts'
import { organizations, repositories } from '../../../src/commands/execution/aggregates.ts'
import { newContext } from '../../../src/commands/execution/command-context.ts'
import { decideSetMember } from '../../../src/commands/organizations/organization.decider.ts'
import { decideCreate, decideSetCollaborator } from '../../../src/commands/repositories/repository.decider.ts'
import { organizationStream, repositoryStream, userStream } from '../../../src/events/streams.ts'
import { gitOutput } from '../../../src/git/process/run.ts'
import { listen } from '../../queries/history-client.ts'
import { passwordOf } from '../../start-server.ts'
import { until } from '../../until.ts'
import { eventsIn, startPulls } from '../pull-requests/pull-repository.ts'

const { server, alice, call, repository } = await startPulls(t)

const basic = (login: string, password: string) =>
  `Basic ${Buffer.from(`${login}:${password}`).toString('base64')}`

/** Returns the status of `GET /user` with these credentials. */
async function signIn(authorization: string): Promise<number> {
  return (await server.fetch(null, '/api/v1/user', { headers: { authorization } })).status
}

const withPassword = (login: string, password = passwordOf(login)) => signIn(basic(login, password))

/** Creates a user with `passwordOf(login)`; resolves to the id. */
async function newUser(login: string): Promise<number> {
  await server.as(login)
  return (await server.services.views.accounts.findOne({ loginKey: login.toLowerCase() }))?.id ?? 0
}

const edit = (login: string, option: object, as: string | null = 'admin') =>
  call(as, 'PATCH', `admin/users/${login}`, option)

async function newToken(login: string, scopes: string[] = ['all']): Promise<{ id: number; header: string }> {
  const made = await call(login, 'POST', `users/${login}/tokens`, {
    name: randomBytes(4).toString('hex'),
    scopes,
  })
  return { id: made.body.id, header: `token ${made.body.sha1}` }
}

async function logEnd() {
  return server.services.events.lastPosition()
}

const typesOf = async (id: number) => (await eventsIn(server, userStream(id))).map(({ type }) => type)

t.test('users change their own password: with the old one, and never with a token', async (t) => {
  const id = await newUser('eve')
  const own = (body: object, authorization = basic('eve', passwordOf('eve'))) =>
    server.fetch(null, '/api/v1/user/password', {
      method: 'POST',
      headers: { authorization },
      body: JSON.stringify(body),
    })
  const token = await newToken('eve')
  const good = { old_password: passwordOf('eve'), new_password: 'a new password' }
  const before = await logEnd()
  t.equal((await own(good, token.header)).status, 401)
  t.equal((await own({ ...good, old_password: 'wrong' })).status, 403)
  t.equal((await own({ ...good, new_password: 'short' })).status, 422)
  t.equal((await own({ ...good, new_password: good.old_password })).status, 422)
  t.equal((await call(null, 'POST', 'user/password', good)).status, 401)
  t.equal(await logEnd(), before, 'nothing has changed')
  t.equal(await withPassword('eve'), 200)

  t.equal((await own(good)).status, 204, 'the answer comes, although its sign-in has ended')
  t.equal(await withPassword('eve'), 401, 'the old one is refused at once')
  t.equal(await withPassword('eve', 'a new password'), 200)
  t.equal(await signIn(token.header), 200, 'tokens stay')
  const events = await eventsIn(server, userStream(id))
  t.match(events.at(-1), { type: 'PasswordChanged', metadata: { actor: { login: 'eve' } } })
  t.notMatch(JSON.stringify(events), /a new password|scrypt/)
  for (const [last, next] of [
    ['a new password', 'the third one'],
    ['the third one', 'the fourth one'],
  ] as const) {
    const answer = await own({ old_password: last, new_password: next }, basic('eve', last))
    t.equal(answer.status, 204)
  }
  for (const old of [passwordOf('eve'), 'a new password', 'the third one']) {
    t.equal(await withPassword('eve', old), 401)
  }
  t.equal(await withPassword('eve', 'the fourth one'), 200)
})

t.test('a crash between the hash of a new password and its event leaves the old password', async (t) => {
  const id = await newUser('crash')
  await keepPassword(server.services.secrets, id, 'scrypt$2$1$1$c2FsdA==$AAAA', 'never-in-the-log')
  t.equal(await withPassword('crash'), 200)
})

t.test('site admins change users with PATCH /admin/users/{u}, as in Gitea', async (t) => {
  await newUser('frank')
  const answer = await edit('frank', {
    login_name: 'frank',
    source_id: 0,
    full_name: 'Frank F.',
    email: 'frank@example.com',
    location: 'Here',
    website: 'https://example.com',
    description: 'd',
    password: 'changed by admin',
    admin: null,
  })
  t.match(answer, {
    status: 200,
    body: { full_name: 'Frank F.', email: 'frank@example.com', location: 'Here' },
  })
  t.equal(await withPassword('frank'), 401)
  t.equal(await withPassword('frank', 'changed by admin'), 200)

  const before = await logEnd()
  for (const [option, message] of [
    [{ email: 'alice@example.org' }, /^email: .* is used by another user/],
    [{ email: 'x' }, /^email: is not an e-mail address/],
    [{ password: 'short' }, /^password: /],
    [{ website: 'javascript:1' }, /^website: /],
    [{ restricted: true }, /^restricted: is not supported/],
    [{ visibility: 'private' }, /^visibility: is not supported/],
    [{ max_repo_creation: 3 }, /^max_repo_creation: is not supported/],
  ] as const) {
    t.match(await edit('frank', { full_name: 'Other', ...option }), { status: 422, message })
  }
  t.equal((await edit('frank', { full_name: 'Other' }, 'alice')).status, 403)
  t.equal((await edit('frank', { full_name: 'Other' }, null)).status, 401)
  t.equal((await edit('nobody', {})).status, 404)
  t.equal((await edit('frank', { full_name: 'Frank F.' })).status, 200, 'what is the same changes nothing')
  t.match(await call('admin', 'GET', 'users/frank'), { body: { full_name: 'Frank F.' } })
  const claims = (await logEnd()) - before
  t.equal(claims, 0, 'a refused change leaves nothing in the log')

  t.equal(
    (await edit('eve', { email: 'frank@example.org' })).status,
    200,
    'an address that was given up is free',
  )
})

t.test('must_change_password: until then, every request but that one gets 403', async (t) => {
  await newUser('gina')
  const token = await newToken('gina')
  await call('gina', 'POST', 'user/repos', { name: 'own', auto_init: true })
  const stream = await listen(t, server, 'gina', '/repos/gina/own/history')
  await stream.has(1)
  t.equal((await edit('gina', { must_change_password: true })).status, 200)
  await stream.ended
  for (const answer of [
    await call('gina', 'GET', 'user'),
    await call('gina', 'POST', 'user/repos', { name: 'more' }),
    await call(null, 'GET', 'user', undefined, { authorization: token.header }),
  ]) {
    t.match(answer, { status: 403, message: /^you must change your password first/ })
  }
  t.equal((await server.fetch('gina', '/gina/own.git/info/refs?service=git-upload-pack')).status, 403)
  t.equal(await withPassword('gina', 'wrong password'), 401)
  const change = { old_password: passwordOf('gina'), new_password: 'ginas new one' }
  t.equal((await call('gina', 'POST', 'user/password', change)).status, 204)
  t.equal(await withPassword('gina', 'ginas new one'), 200)
  t.equal(await signIn(token.header), 200)

  const heidi = { username: 'heidi', email: 'heidi@example.org', password: 'given by admin' }
  t.equal((await call('admin', 'POST', 'admin/users', { ...heidi, must_change_password: true })).status, 201)
  t.equal(await withPassword('heidi', 'given by admin'), 403)
})

t.test('deactivate: sign-in, tokens and git end; their texts stay', async (t) => {
  const { writer, name } = await repository(t, 'deactivated')
  await newUser('ivan')
  await writer('ivan')
  const token = await newToken('ivan')
  const { body: issue } = await call('ivan', 'POST', `repos/alice/${name}/issues`, { title: 'by ivan' })
  for (const [off, on] of [
    [{ active: false }, { active: true }],
    [{ prohibit_login: true }, { prohibit_login: false }],
  ]) {
    t.equal((await edit('ivan', off ?? {})).status, 200)
    t.match(await call('ivan', 'GET', 'user'), { status: 403, message: /prohibited from signing in/ })
    t.equal(await withPassword('ivan', 'wrong password'), 401)
    t.equal(await signIn(token.header), 403)
    const refs = await server.fetch('ivan', `/alice/${name}.git/info/refs?service=git-receive-pack`)
    t.equal(refs.status, 403)
    t.match((await call('alice', 'GET', `repos/alice/${name}/issues/${issue.number}`)).body, {
      user: { login: 'ivan' },
    })
    t.equal((await edit('ivan', on ?? {})).status, 200)
    t.equal(await withPassword('ivan'), 200)
  }
})

t.test('deactivate: merges that the account has scheduled are not made', async (t) => {
  const { branch, open, merge, get, postStatus, typesOf, writer, knowsChecks } = await repository(
    t,
    'unscheduled',
  )
  await knowsChecks()
  await newUser('leo')
  await writer('leo')
  const head = await branch('topic', { a: 'a' })
  const index = await open('topic')
  t.equal((await merge(index, { merge_when_checks_succeed: true }, 'leo')).status, 201)
  t.equal((await edit('leo', { active: false })).status, 200)
  await postStatus(head, 'success')
  t.match(await get(index), { merged: false, state: 'open' })
  t.ok((await typesOf(index)).includes('ScheduledMergeRefused'))
})

t.test('a compromised token or password can be ended at once, and open streams end with it', async (t) => {
  const { branch, name, tip } = await repository(t, 'streams')
  await branch('big', { big: randomBytes(12 * 1024 * 1024) })
  const want = `want ${await tip('big')}\n`
  const pack = (text: string) => `${(text.length + 4).toString(16).padStart(4, '0')}${text}`

  /**
   * A clone in progress: its first bytes have come, and it waits for its client to read. Resolves to a function that
   * reads the
   * rest and returns whether it was complete.
   */
  async function clone(authorization: string): Promise<() => Promise<boolean>> {
    const { hostname, port } = new URL(server.url)
    const asking = httpRequest({
      host: hostname,
      port,
      path: `/alice/${name}.git/git-upload-pack`,
      method: 'POST',
      headers: { authorization, 'content-type': 'application/x-git-upload-pack-request' },
    })
    asking.on('error', () => {})
    asking.end(`${pack(want)}0000${pack('done\n')}`)
    const [answer]: IncomingMessage[] = await once(asking, 'response')
    if (answer?.statusCode !== 200) throw new Error(`clone: ${answer?.statusCode}`)
    answer.on('error', () => {})
    const closed = new Promise<void>((resolve) => void answer.once('close', resolve))
    answer.pause()
    t.teardown(() => answer.destroy())
    return async () => {
      answer.resume()
      await closed
      return answer.complete
    }
  }

  let n = 0
  const ways: Record<string, (login: string, token: number) => Promise<{ status: number }>> = {
    'the token is deleted': (login, token) => call(login, 'DELETE', `users/${login}/tokens/${token}`),
    'the account is switched off': (login) => edit(login, { active: false }),
    'an admin deletes the account': (login) => call('admin', 'DELETE', `admin/users/${login}`),
    'an admin changes the password': (login) => edit(login, { password: 'another password' }),
  }
  for (const [title, end] of Object.entries(ways)) {
    const login = `streamer${n++}`
    await newUser(login)
    const token = await newToken(login)
    const byPassword = title.includes('password')
    const authorization = byPassword ? basic(login, passwordOf(login)) : token.header
    const headers = { authorization }
    const live = await listen(t, server, null, `/repos/alice/${name}/history`, headers)
    const other = await listen(t, server, 'alice', `/repos/alice/${name}/history`)
    await Promise.all([live.has(1), other.has(1)])
    const cloning = await clone(authorization)
    t.ok((await end(login, token.id)).status < 300, title)
    await live.ended
    t.equal(await cloning(), false, `${title}: the clone ends`)
    t.not(await signIn(authorization), 200)
    const before = other.received.length
    await alice.repos.repoEdit('alice', name, { description: title })
    await other.has(before + 1)
    t.pass('the stream of another account goes on')
    other.close()
  }
})

t.test('lines of JSON that a client still reads end with its token', async (t) => {
  const { name } = await repository(t, 'lines')
  await newUser('liner')
  const token = await newToken('liner')
  // More than the buffers between client and server can hold.
  const body = '€'.repeat(65_000)
  for (let i = 0; i < 4; i++) {
    const titles = Array.from({ length: 10 }, (_, n) => `${i} ${n}`)
    await Promise.all(
      titles.map((title) => call('alice', 'POST', `repos/alice/${name}/issues`, { title, body })),
    )
  }
  const { hostname, port } = new URL(server.url)
  const path = `/api/v1/repos/alice/${name}/history`
  const headers = { authorization: token.header, accept: 'application/x-ndjson' }
  const asking = httpRequest({ host: hostname, port, path, headers })
  asking.on('error', () => {})
  asking.end()
  const [answer]: IncomingMessage[] = await once(asking, 'response')
  if (answer === undefined) throw new Error('no answer')
  t.equal(answer.statusCode, 200)
  answer.on('error', () => {})
  t.teardown(() => answer.destroy())
  await once(answer, 'readable')
  const closed = new Promise<void>((resolve) => void answer.once('close', resolve))
  t.equal((await call('liner', 'DELETE', `users/liner/tokens/${token.id}`)).status, 204)
  answer.resume()
  await closed
  t.equal(answer.complete, false)
  t.equal(await signIn(token.header), 401)
})

t.test('delete: events stay, and the name becomes a ghost', async (t) => {
  const { writer, name, repoId } = await repository(t, 'haunted')
  const id = await newUser('judy')
  await writer('judy')
  const token = await newToken('judy')
  const { body: issue } = await call('judy', 'POST', `repos/alice/${name}/issues`, { title: 'by judy' })
  const remove = (query = '', as: string | null = 'admin') => call(as, 'DELETE', `admin/users/judy${query}`)

  await call('judy', 'POST', 'user/repos', { name: 'own' })
  t.match(await remove(), { status: 422, message: /still owns repositories/ })
  await call('judy', 'DELETE', 'repos/judy/own')
  await call('judy', 'POST', 'orgs', { username: 'judys' })
  t.match(await remove(), { status: 422, message: /still a member of organizations/ })
  await call('admin', 'PUT', 'orgs/judys/members/admin', { permission: 'admin' })
  await call('judy', 'DELETE', 'orgs/judys/members/judy')
  t.match(await remove('?purge=true'), { status: 422, message: /^purge: is not supported/ })
  t.equal((await remove('', 'alice')).status, 403)
  t.equal((await remove('', null)).status, 401)
  t.match(await call('admin', 'DELETE', 'admin/users/admin'), { status: 422, message: /yourself/ })
  t.equal(await withPassword('judy'), 200, 'a refused deletion changes nothing')
  t.notOk((await typesOf(id)).includes('UserDeleted'))

  t.equal((await remove()).status, 204)
  t.equal((await remove()).status, 404)
  t.equal(await withPassword('judy'), 401)
  t.equal(await signIn(token.header), 401)
  t.equal((await call('admin', 'GET', 'users/judy')).status, 404)
  const shown = await call('alice', 'GET', `repos/alice/${name}/issues/${issue.number}`)
  t.match(shown.body, { title: 'by judy', user: { id: -1, login: 'Ghost' } })
  t.notMatch(shown.text, /judy@example/)
  t.same((await call('alice', 'GET', `repos/alice/${name}/collaborators`)).body, [])
  t.match(await eventsIn(server, `issue-${repoId}.${issue.number}`), [
    { data: { poster: { login: 'judy' } } },
  ])
  const again = { username: 'Judy', email: 'judy@example.org', password: 'password of judy' }
  t.match(await call('admin', 'POST', 'admin/users', again), {
    status: 422,
    message: /^username: .* is taken/,
  })
  t.equal((await call('admin', 'POST', 'admin/users', { ...again, username: 'judith' })).status, 201)
})

t.test('delete: a repository created meanwhile prevents the deletion, or is not created', async (t) => {
  const { events, views } = server.services
  const made = (login: string, name: string) => call(login, 'POST', 'user/repos', { name })
  const remove = (login: string) => call('admin', 'DELETE', `admin/users/${login}`)
  const append = events.append
  t.teardown(() => {
    events.append = append
  })
  /** Runs `work` right before the first append of an event of this type; its answer comes with that of `ask`. */
  async function between<A, B>(type: string, work: () => Promise<A>, ask: () => Promise<B>) {
    let working: Promise<A> | undefined
    events.append = async (stream, appended, expected) => {
      if (working === undefined && appended.some((event) => event.type === type)) {
        working = work()
        await working
      }
      return append(stream, appended, expected)
    }
    const asked = await ask()
    events.append = append
    return [await working, asked] as const
  }

  // The deletion has checked for repositories, and is about to record.
  const mia = await newUser('mia')
  const [late, deleted] = await between(
    'UserDeleted',
    () => made('mia', 'late'),
    () => remove('mia'),
  )
  t.match(late, { status: 409, message: /the account mia is being deleted/ })
  t.equal(deleted.status, 204)
  t.equal(await views.repositories.count({ ownerId: mia }), 0, 'a ghost owns nothing')

  // The same with a fork.
  const { name, writer } = await repository(t, 'forked-late')
  const nora = await newUser('nora')
  await writer('nora')
  const [fork, gone] = await between(
    'UserDeleted',
    () => call('nora', 'POST', `repos/alice/${name}/forks`, {}),
    () => remove('nora'),
  )
  t.match([fork, gone], [{ status: 409 }, { status: 204 }])
  t.equal(await views.repositories.count({ ownerId: nora }), 0)
  t.match(await call('alice', 'GET', `repos/alice/${name}`), { body: { forks_count: 0 } })

  // The user is deleted when the repository is recorded: it is removed, also when no client waits.
  const olga = await newUser('olga')
  let stream = ''
  events.append = async (to, appended, expected) => {
    if (stream === '' && appended.some(({ type }) => type === 'RepositoryCreated')) {
      stream = to
      t.equal((await remove('olga')).status, 204)
    }
    return append(to, appended, expected)
  }
  const first = await made('olga', 'first').catch(() => ({ status: 0 }))
  events.append = append
  t.ok([0, 409].includes(first.status), 'her connection may end with her account')
  await until('the repository is taken back', async () =>
    (await eventsIn(server, stream)).some(({ type }) => type === 'RepositoryDeleted'),
  )
  await until('a ghost owns nothing', async () => (await views.repositories.count({ ownerId: olga })) === 0)

  const pia = await newUser('pia')
  t.equal((await made('pia', 'one')).status, 201)
  t.match(await remove('pia'), { status: 422, message: /still owns repositories/ })
  t.equal((await made('pia', 'two')).status, 201, 'a refused deletion leaves the account free')
  t.equal(await views.repositories.count({ ownerId: pia }), 2)

  // A deletion that fails at its end releases the account, too.
  await newUser('rosa')
  events.append = async (stream, appended, expected) => {
    if (appended.some((event) => event.type === 'UserDeleted')) throw new Error('the log is away')
    return append(stream, appended, expected)
  }
  t.equal((await remove('rosa')).status, 500)
  events.append = append
  t.equal((await made('rosa', 'mine')).status, 201)
})

t.test('delete: leftovers of a crash are removed from a user who is being deleted', async (t) => {
  const { events, views } = server.services
  const { repoId: lent, name } = await repository(t, 'lent')
  t.equal((await call('alice', 'POST', 'orgs', { username: 'acme-late' })).status, 201)
  const acme = await views.accounts.findOne({ loginKey: 'acme-late' })
  const sara = { id: await newUser('sara'), login: 'sara' }
  const organization = { id: acme?.id ?? 0, login: 'acme-late' }
  const made = 900_001
  /** Records what a request records before it checks for a deletion: as if its server crashed right then. */
  async function recordOnly() {
    const context = newContext(null, 'a server that dies')
    await repositories.change(server.services, context, made, 'create', (state) =>
      decideCreate(state, {
        repoId: made,
        owner: { ...sara, kind: 'user' },
        ownerVisibility: 'public',
        settings: { name: 'left', description: '', website: '', private: false, defaultBranch: 'main' },
      }),
    )
    await repositories.change(server.services, context, lent, 'lend', (state) =>
      decideSetCollaborator(state, sara, 'write'),
    )
    await organizations.change(server.services, context, organization.id, 'add', (state) =>
      decideSetMember(state, { id: 0, siteAdmin: true }, sara, 'write'),
    )
  }
  const append = events.append
  t.teardown(() => {
    events.append = append
  })
  let asked: Promise<{ status: number }> | undefined
  events.append = async (stream, appended, expected) => {
    if (asked === undefined && appended.some(({ type }) => type === 'UserDeleted')) {
      asked = call('alice', 'PUT', `orgs/acme-late/members/sara`, {})
      t.match(await asked, { status: 409, body: { message: /the account sara is being deleted/ } })
      await recordOnly()
    }
    return append(stream, appended, expected)
  }
  t.equal((await call('admin', 'DELETE', 'admin/users/sara')).status, 204)
  events.append = append

  async function ownsNothing() {
    const [owned, readable, account] = await Promise.all([
      views.repositories.count({ ownerId: sara.id }),
      views.repositories.find({ id: lent }),
      views.accounts.get(`${sara.id}`),
    ])
    const { deleted, memberships = {} } = account ?? {}
    const isCollaborator = readable.some(({ collaborators }) => `${sara.id}` in collaborators)
    return deleted === true && owned === 0 && !isCollaborator && Object.keys(memberships).length === 0
  }
  await until('a ghost has nothing', ownsNothing)

  // The order in the log may also be the reverse.
  const context = newContext(null, 'a slow server')
  await repositories.change(server.services, context, lent, 'lend late', (state) =>
    decideSetCollaborator(state, sara, 'write'),
  )
  await organizations.change(server.services, context, organization.id, 'add late', (state) =>
    decideSetMember(state, { id: 0, siteAdmin: true }, sara, 'write'),
  )
  await until('a ghost gets nothing', async () => {
    const both = [organizationStream(organization.id), repositoryStream(lent)]
    const found = (await Promise.all(both.map((stream) => eventsIn(server, stream)))).flat()
    const count = (type: string) => found.filter((event) => event.type === type).length
    return count('MemberRemoved') === 3 && count('CollaboratorRemoved') === 2
  })
  await until('the lists say so', ownsNothing)
  t.equal((await call('alice', 'GET', `repos/alice/${name}`)).status, 200)
})

t.test('the last site admin who can sign in stays one', async (t) => {
  for (const option of [{ active: false }, { prohibit_login: true }, { admin: false }]) {
    t.match(await edit('admin', option), { status: 422, message: /needs a site admin/ })
  }
  await newUser('kate')
  t.equal((await edit('kate', { admin: true })).status, 200)
  t.equal((await call('kate', 'GET', 'admin/users')).status, 200)
  const both = await Promise.all([
    edit('admin', { admin: false }, 'kate'),
    edit('kate', { admin: false }, 'admin'),
  ])
  t.same(both.map(({ status }) => status).sort(), [200, 403], 'not even two at once end both')
  const [left, gone] = both[0]?.status === 200 ? ['kate', 'admin'] : ['admin', 'kate']
  t.equal((await call(gone ?? '', 'GET', 'admin/users')).status, 403)
  t.equal((await edit('admin', { admin: true }, left)).status, 200)
})

t.test('a list of users for admins (GET /admin/users), in pages', async (t) => {
  const first = await call('admin', 'GET', 'admin/users?limit=3')
  t.equal(first.status, 200)
  const logins = first.body.map(({ login }: { login: string }) => login)
  t.same(logins, [...logins].sort())
  t.equal(logins.length, 3)
  t.match(first.body[1], { login: 'alice', email: 'alice@example.org', active: true, is_admin: false })
  const total = Number(first.headers.get('x-total-count'))
  t.match(first.headers.get('link'), /rel="next"/)
  const all = await call('admin', 'GET', 'admin/users?limit=50')
  t.equal(all.body.length, total)
  t.notMatch(all.text, /Ghost|judy"/)
  for (const filter of ['login_name=alice', 'source_id=3', 'sort=newest']) {
    const message = new RegExp(`^${filter.split('=')[0]}: is not supported`)
    t.match(await call('admin', 'GET', `admin/users?${filter}`), { status: 422, message })
  }
  t.equal((await call('alice', 'GET', 'admin/users')).status, 403)
  t.equal((await call(null, 'GET', 'admin/users')).status, 401)
})

t.test('commits that the server makes carry the address that the API shows', async (t) => {
  const host = new URL(server.url).hostname
  const hidden = `alice@noreply.${host}`
  const work = await repository(t, 'addresses')
  const { branch, open, merge, dir } = work
  const show = async (ref: string) => {
    return (await gitOutput(['log', '-1', '--format=%ae %ce%n%B', ref], { dir })).toString()
  }
  t.match(await show('main'), `${hidden} ${hidden}`, 'auto_init')
  await branch('one', { one: '1' })
  await merge(await open('one'))
  t.match(await show('main'), `${hidden} ${hidden}`, 'merge')
  await branch('two', { two: '2' })
  await merge(await open('two'), { Do: 'squash' })
  const squash = await show('main')
  t.match(squash, `${hidden} ${hidden}`, 'squash')
  t.notMatch(squash, /alice@example\.org/, 'the author is not a co-author with another address')
  await branch('three', { three: '3' })
  await merge(await open('three'), { Do: 'rebase' })
  t.match(await show('main'), new RegExp(` ${hidden}\n`), 'rebase: the committer')
  const commits = await call('alice', 'GET', 'repos/alice/addresses/pulls/3/commits')
  t.equal(commits.status, 200)

  const settings = (option: object) => call('alice', 'PATCH', 'user/settings', option)
  t.match(await call('alice', 'GET', 'user/settings'), { body: { hide_email: true } })
  t.match(await settings({ theme: 'dark' }), { status: 422, message: /^theme: is not supported/ })
  t.match(await settings({ hide_email: false }), { status: 200, body: { hide_email: false } })
  t.match((await call('bob', 'GET', 'users/alice')).body, { email: 'alice@example.org' })
  await branch('four', { four: '4' })
  await merge(await open('four'))
  t.match(
    await show('main'),
    'alice@example.org alice@example.org',
    'who shows the address, shows it here too',
  )
  t.equal((await settings({ hide_email: true })).status, 200)
  t.match((await call('bob', 'GET', 'users/alice')).body, { email: hidden })
})
