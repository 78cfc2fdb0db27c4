/** Concurrent requests about the same thing: the second starts when the first is about to record. */
import t from 'tap'
import { passwordOf, startTestServer } from '../../start-server.ts'

const server = await startTestServer(t)
const { services } = server

async function call(login: string, method: string, path: string, body?: object, headers: object = {}) {
  const answer = await server.fetch(login, `/api/v1/${path}`, {
    method,
    headers: { ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
}

/**
 * Sends `second` when `first` is about to record an event of this type. `first` continues when `second` has its answer,
 * or
 * waits for its lock. Resolves to both answers.
 */
async function during<A, B>(type: string, first: () => Promise<A>, second: () => Promise<B>) {
  const { events, runExclusive } = services
  const { append } = events
  const taken = new Set<string>()
  let asked: Promise<B> | undefined
  const { promise: isWaiting, resolve: waits } = Promise.withResolvers<void>()
  services.runExclusive = (key, work) => {
    if (taken.has(key)) waits()
    return runExclusive(key, async () => {
      taken.add(key)
      try {
        return await work()
      } finally {
        taken.delete(key)
      }
    })
  }
  events.append = async (stream, appended, expected) => {
    if (asked === undefined && appended.some((event) => event.type === type)) {
      asked = second()
      await Promise.race([asked, isWaiting])
    }
    return append(stream, appended, expected)
  }
  try {
    const answer = await first()
    return { first: answer, second: await asked }
  } finally {
    Object.assign(services, { runExclusive })
    events.append = append
  }
}

const edit = (login: string, option: object, as = 'admin') =>
  call(as, 'PATCH', `admin/users/${login}`, option)

t.test('an e-mail address is that of one user, also when two change it at the same time', async (t) => {
  await server.as('erin')
  const [old, other] = [(await call('admin', 'GET', 'users/erin')).body.email, 'erin@other.example.org']
  const both = await during(
    'PasswordChanged',
    () => edit('erin', { email: old, password: passwordOf('erin') }),
    () => edit('erin', { email: other }),
  )
  t.match(both, { first: { status: 200 }, second: { status: 200 } })
  const hers = (await call('admin', 'GET', 'users/erin')).body.email
  const given = hers === old ? other : old
  const made = (username: string, email: string) =>
    call('admin', 'POST', 'admin/users', { username, email, password: passwordOf(username) })
  t.match(await made('second', hers), { status: 422, body: { message: /is used by another user/ } })
  t.equal((await made('third', given)).status, 201, 'what she gave up is free at once')
})

t.test('an old password does not win against an admin who resets it at the same time', async (t) => {
  await server.as('gil')
  const change = () =>
    call('gil', 'POST', 'user/password', {
      old_password: passwordOf('gil'),
      new_password: 'found out by others',
    })
  const both = await during('PasswordChanged', change, () => edit('gil', { password: 'given by the admin' }))
  t.match(both, { first: { status: 204 }, second: { status: 200 } }, 'the later one counts')
  const signIn = (password: string) =>
    server.fetch(null, '/api/v1/user', {
      headers: { authorization: `Basic ${Buffer.from(`gil:${password}`).toString('base64')}` },
    })
  t.equal((await signIn('given by the admin')).status, 200)

  await edit('gil', { password: passwordOf('gil') })
  const late = await during('PasswordChanged', () => edit('gil', { password: 'given by the admin' }), change)
  t.match(late, { first: { status: 200 }, second: { status: 403 } })
  t.equal((await signIn('given by the admin')).status, 200)
})

t.test('a tag has one release, also when two requests change it at the same time', async (t) => {
  const path = 'repos/alice/tagged/releases'
  await call('alice', 'POST', 'user/repos', { name: 'tagged', auto_init: true })
  const { body: release } = await call('alice', 'POST', path, { tag_name: 'a', draft: true })
  const change = (option: object) => call('alice', 'PATCH', `${path}/${release.id}`, option)
  const both = await during(
    'ReleaseEdited',
    () => change({ tag_name: 'a', name: 'First' }),
    () => change({ tag_name: 'b' }),
  )
  t.match(both, { first: { status: 200 }, second: { status: 200 } })
  const { tag_name: tag } = (await call('alice', 'GET', `${path}/${release.id}`)).body
  t.equal((await call('alice', 'POST', path, { tag_name: tag, draft: true })).status, 409)
  const free = tag === 'a' ? 'b' : 'a'
  t.equal(
    (await call('alice', 'POST', path, { tag_name: free, draft: true })).status,
    201,
    'the other is free',
  )

  const { body: gone } = await call('alice', 'POST', path, { tag_name: 'c', draft: true })
  await during(
    'ReleaseDeleted',
    () => call('alice', 'DELETE', `${path}/${gone.id}`),
    () => call('alice', 'PATCH', `${path}/${gone.id}`, { tag_name: 'd' }),
  )
  for (const tag_name of ['c', 'd'])
    t.equal(
      (await call('alice', 'POST', path, { tag_name, draft: true })).status,
      201,
      'both are free at once',
    )
})

t.test('a former site admin does not demote another one, even if both requests began before', async (t) => {
  for (const [first, second] of [
    ['eve', 'dan'],
    ['eva', 'don'],
  ] as const) {
    for (const login of [first, second]) {
      await server.as(login)
      t.equal((await edit(login, { admin: true })).status, 200)
    }
    const both = await during(
      'UserEdited',
      () => edit(second, { admin: false }, first),
      () =>
        first === 'eve'
          ? edit(first, { admin: false }, second)
          : call(second, 'DELETE', `admin/users/${first}`),
    )
    t.match(both, { first: { status: 200 }, second: { status: 403 } })
    t.equal((await call(first, 'GET', 'admin/users')).status, 200)
  }
})

t.test(
  'a repository that is deleted while it gets another name leaves both names free at once',
  async (t) => {
    await call('alice', 'POST', 'user/repos', { name: 'old' })
    const both = await during(
      'RepositoryDeleted',
      () => call('alice', 'DELETE', 'repos/alice/old'),
      () => call('alice', 'PATCH', 'repos/alice/old', { name: 'new' }),
    )
    t.match(both, { first: { status: 204 }, second: { status: 200 } })
    for (const name of ['old', 'new'])
      t.equal((await call('alice', 'POST', 'user/repos', { name })).status, 201, name)
  },
)

t.test(
  'a former owner does not change a transferred repository, even if the request began before',
  async (t) => {
    for (const [type, change] of [
      ['RepositoryDeleted', (path: string) => call('alice', 'DELETE', path)],
      ['CollaboratorSet', (path: string) => call('alice', 'PUT', `${path}/collaborators/carol`)],
      [
        'BranchProtectionSet',
        (path: string) => call('alice', 'POST', `${path}/branch_protections`, { rule_name: 'main' }),
      ],
    ] as const) {
      const name = type.toLowerCase()
      await call('alice', 'POST', 'user/repos', { name })
      const both = await during(
        type,
        () => change(`repos/alice/${name}`),
        () => call('admin', 'POST', `repos/alice/${name}/transfer`, { new_owner: 'bob' }),
      )
      t.match(both, { first: { status: 409 }, second: { status: 202 } }, type)
      t.equal((await call('bob', 'GET', `repos/bob/${name}`)).status, 200)
    }
  },
)

t.test(
  'a branch becomes the default one, or is deleted, when both are requested at the same time',
  async (t) => {
    const path = 'repos/alice/branched'
    await call('alice', 'POST', 'user/repos', { name: 'branched', auto_init: true })
    await call('alice', 'POST', `${path}/branches`, { new_branch_name: 'next' })
    const both = await during(
      'RepositoryEdited',
      () => call('alice', 'PATCH', path, { default_branch: 'next' }),
      () => call('alice', 'DELETE', `${path}/branches/next`),
    )
    t.match(both, { first: { status: 200 }, second: { status: 403 } })
    t.equal((await call('alice', 'GET', `${path}/branches/next`)).status, 200)
  },
)

t.test('the same transfer twice at the same time, with one Idempotency-Key, is done once', async (t) => {
  await call('alice', 'POST', 'user/repos', { name: 'given' })
  const give = () =>
    call('admin', 'POST', 'repos/alice/given/transfer', { new_owner: 'bob' }, { 'idempotency-key': 'once' })
  const both = await during('RepositoryTransferred', give, give)
  const answer = { status: 202, body: { full_name: 'bob/given' } }
  t.match(both, { first: answer, second: answer })
})

const userNamed = (username: string) => ({
  username,
  email: `${username}@example.org`,
  password: passwordOf(username),
})

t.test(
  'two requests with one Idempotency-Key and other bodies: one counts, the other is refused',
  async (t) => {
    const path = 'repos/alice/keyed'
    await call('alice', 'POST', 'user/repos', { name: 'keyed', auto_init: true })
    await call('alice', 'POST', `${path}/issues`, { title: 'Old' })
    const { sha } = (await call('alice', 'GET', `${path}/commits?limit=1`)).body[0]
    const posts: [type: string, url: string, body: (text: string) => object, textIn: string][] = [
      ['IssueOpened', `${path}/issues`, (title) => ({ title }), 'title'],
      // Its event waits for that of another comment.
      ['NumberTaken', `${path}/issues/1/comments`, (body) => ({ body }), 'body'],
      ['LabelCreated', `${path}/labels`, (name) => ({ name, color: '00ff00' }), 'name'],
      ['MilestoneCreated', `${path}/milestones`, (title) => ({ title }), 'title'],
      [
        'CommitStatusPosted',
        `${path}/statuses/${sha}`,
        (context) => ({ context, state: 'success' }),
        'context',
      ],
      ['UserCreated', 'admin/users', (login) => userNamed(login), 'login'],
      ['RepositoryCreated', 'user/repos', (name) => ({ name }), 'name'],
      ['NumberTaken', `${path}/issues`, (title) => ({ title }), 'title'],
    ]
    for (const [type, url, body, textIn] of posts) {
      const post = (text: string) => {
        const as = url === 'admin/users' ? 'admin' : 'alice'
        return call(as, 'POST', url, body(text), { 'idempotency-key': `once ${type} ${url}` })
      }
      const { first, second } = await during(
        type,
        () => post('first'),
        () => post('second'),
      )
      const statuses = [first.status, second?.status].sort()
      t.same(statuses, [201, 422], `${type}: ${JSON.stringify([first.body.message, second?.body.message])}`)
      const made = first.status === 201 ? first : second
      t.equal(made?.body[textIn], first.status === 201 ? 'first' : 'second')
    }
  },
)

t.test('sixteen admins who each change another collaborator at the same time all succeed', async (t) => {
  await call('alice', 'POST', 'user/repos', { name: 'shared' })
  const admins = await Promise.all(
    Array.from({ length: 16 }, async (_, i) => {
      await Promise.all([server.as(`owner${i}`), server.as(`guest${i}`)])
      const path = `repos/alice/shared/collaborators/owner${i}`
      t.equal((await call('alice', 'PUT', path, { permission: 'admin' })).status, 204)
      return i
    }),
  )
  const change = (method: string, body?: object) =>
    Promise.all(
      admins.map(async (i) => {
        const path = `repos/alice/shared/collaborators/guest${i}`
        return (await call(`owner${i}`, method, path, body)).status
      }),
    )
  t.same(new Set(await change('PUT', { permission: 'read' })), new Set([204]))
  t.same(new Set(await change('DELETE')), new Set([204]))
})
