/** Sign-in by OpenID Connect against a real provider, and the page of tokens, as a browser uses them. */
import t, { type Test } from 'tap'
import { beginSession } from '../../src/auth/sessions/sessions.ts'
import { newContext } from '../../src/commands/execution/command-context.ts'
import { claimName } from '../../src/commands/users/accounts/claims.ts'
import { createToken } from '../../src/commands/users/tokens.ts'
import type { RecordedEvent } from '../../src/events/store/event-store.ts'
import { userStream } from '../../src/events/streams.ts'
import { browser, CLIENT, type OpenIdDouble, startOpenId } from '../doubles/openid.ts'
import { gitIn } from '../git-client.ts'
import { startTestServer, type TestServer } from '../start-server.ts'
import { aContext, writerOf } from '../stores.ts'

const SCOPES = { OIDC_SCOPES: 'openid profile email groups' }
const BEGIN = '/user/oauth2/oidc'
const TOKENS = '/user/settings/applications'

/** A server with a provider of its own. */
async function withProvider(test: Pick<Test, 'teardown'>, settings: Record<string, string> = {}) {
  let url = ''
  const provider = await startOpenId(test, () => url)
  const server = await startTestServer(test, {
    ...CLIENT,
    ...SCOPES,
    OIDC_ISSUER: provider.issuer,
    ...settings,
  })
  url = server.url
  return { provider, server }
}

const { provider, server } = await withProvider(t, {
  OIDC_ORGANIZATIONS: 'developers=acme,leads=acme:admin,readers=Docs:read,no one=nowhere',
})

/** Signs in a user with a new browser. Resolves to it, and to the last answer. */
async function signIn(
  person: OpenIdDouble['person'],
  at: { server: TestServer; provider: OpenIdDouble } = { server, provider },
) {
  at.provider.person = person
  const client = browser()
  const answer = await client.follow(`${at.server.url}${BEGIN}`)
  return { client, ...answer }
}

/** The events that `work` records. */
async function recordedBy(work: () => Promise<unknown>, of = server): Promise<RecordedEvent[]> {
  const { events } = of.services
  const before = await events.lastPosition()
  await work()
  return await Array.fromAsync(events.readAll({ from: before }))
}

const userOf = async (login: string, of = server) => {
  const { accounts } = of.services.views
  return accounts.findOne({ loginKey: login.toLowerCase() })
}

const form = (fields: [string, string][]) => ({ method: 'POST', body: new URLSearchParams(fields) })

const erin = {
  sub: 'e-1',
  preferred_username: 'Erin',
  name: 'Erin E.',
  email: 'erin@work.example',
  email_verified: true,
}

t.test(
  'a first sign-in makes an account and a session; a token made on the page works for git and the API',
  async (t) => {
    let page = await signIn(erin)
    t.match(page, { status: 200, url: `${server.url}${TOKENS}` })
    t.match(page.text, /Access tokens of <bdi>Erin</)
    t.match(await userOf('erin'), {
      login: 'Erin',
      fullName: 'Erin E.',
      email: 'erin@work.example',
      siteAdmin: false,
    })
    const { client } = page
    t.same(client.cookies(server.url), ['mergelog-session'])
    t.equal(page.headers.get('cache-control'), 'private, no-store')
    t.match(page.headers.get('content-security-policy'), /form-action 'self'; frame-ancestors 'none'$/)

    const made = await client.open(
      `${server.url}${TOKENS}`,
      form([
        ['name', 'laptop'],
        ['scopes', 'all'],
      ]),
    )
    const [, token = ''] = /<code>([0-9a-f]{40})<\/code>/.exec(made.text) ?? []
    t.equal(made.status, 200)
    const authorization = `token ${token}`
    const api = (path: string, init: RequestInit = {}) =>
      fetch(`${server.url}/api/v1${path}`, {
        ...init,
        headers: { authorization, 'content-type': 'application/json' },
      })
    t.match(await (await api('/user')).json(), { login: 'Erin' })
    t.equal(
      (await api('/user/repos', { method: 'POST', body: '{"name":"own","auto_init":true}' })).status,
      201,
    )
    const withToken = server.url.replace('//', `//Erin:${token}@`)
    t.match(await gitIn(t.testdir(), ['ls-remote', `${withToken}/Erin/own.git`]), /refs\/heads\/main/)

    page = { ...page, ...(await client.open(`${server.url}${TOKENS}`)) }
    t.match(page.text, /<bdi>laptop<\/bdi><\/div><div class="row-meta">…/)
    t.notMatch(page.text, token, 'it is shown only once')
    const [, id = ''] = /name="id" value="(\d+)"/.exec(page.text) ?? []
    t.equal((await client.open(`${server.url}${TOKENS}/delete`, form([['id', id]]))).status, 303)
    t.equal((await api('/user')).status, 401)

    for (const bad of [
      [
        ['name', ''],
        ['scopes', 'all'],
      ],
      [['name', 'x']],
      [
        ['name', 'x'],
        ['scopes', 'rule'],
      ],
    ]) {
      const fields = bad.map(([name = '', value = '']): [string, string] => [name, value])
      const answer = await client.open(`${server.url}${TOKENS}`, form(fields))
      t.ok(answer.status === 400 || answer.status === 422, `${answer.status}`)
    }
    const many = form(Array.from({ length: 1000 }, (_, i) => [i.toString(36), '']))
    t.equal((await client.open(`${server.url}${TOKENS}`, many)).status, 413, 'of more fields than any form')
    t.equal((await browser().open(`${server.url}${TOKENS}`, many)).status, 401, 'not read for nobody')
    const foreign = {
      ...form([
        ['name', 'x'],
        ['scopes', 'all'],
      ]),
      headers: { origin: 'https://evil.example' },
    }
    t.equal((await client.open(`${server.url}${TOKENS}`, foreign)).status, 403, 'of another site')

    t.equal((await client.open(`${server.url}/api/v1/user`)).status, 401, 'a session is for pages only')
    t.equal((await client.open(`${server.url}/user/login`)).text.includes('<bdi>Erin</bdi>'), true)
    const key = client.cookie(server.url, 'mergelog-session') ?? ''
    t.equal(
      (await client.open(`${server.url}/user/logout`, { method: 'POST' })).to,
      `${server.url}/user/login`,
    )
    t.same(client.cookies(server.url), [])
    client.set(server.url, 'mergelog-session', key)
    t.equal(
      (await client.open(`${server.url}${TOKENS}`)).status,
      401,
      'the session is over, not only the cookie',
    )
  },
)

t.test('cookies are HttpOnly and Lax, and over https they are Secure and of this host alone', async (t) => {
  const { services } = server
  const cookie = (url: string) => beginSession({ ...services, publicUrl: () => url }, 1)
  const rest = '=[0-9a-f]{64}; Max-Age=86400; Path='
  t.match(
    await cookie('https://git.example.org'),
    new RegExp(`^__Host-mergelog-session${rest}/; HttpOnly; Secure; SameSite=Lax$`),
  )
  t.match(
    await cookie('https://example.org/git'),
    new RegExp(`^__Secure-mergelog-session${rest}/git; HttpOnly; Secure; SameSite=Lax$`),
  )
  t.match(await cookie(server.url), new RegExp(`^mergelog-session${rest}/; HttpOnly; SameSite=Lax$`))
  const { headers } = await fetch(`${server.url}${BEGIN}`, { redirect: 'manual' })
  t.match(
    headers.get('set-cookie'),
    /^mergelog-sign-in=[\w-]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/,
  )
})

t.test(
  'the user is identified by issuer and subject: names may change, and no account is taken over',
  async (t) => {
    const first = await userOf('erin')
    const again = await recordedBy(async () => {
      const renamed = { ...erin, preferred_username: 'alice', email: 'alice@example.org', name: 'Alice' }
      t.match(await signIn(renamed), { status: 200, text: /Access tokens of <bdi>Erin</ })
    })
    t.same(again, [], 'a later sign-in changes nothing')
    t.same(await userOf('erin'), first)

    const other = await recordedBy(async () => {
      const { status, text } = await signIn({
        sub: 'e-2',
        preferred_username: 'alice',
        email_verified: false,
        email: 'bob@example.org',
      })
      t.equal(status, 200)
      t.match(text, /Access tokens of <bdi>alice-2</, 'a taken login gets a number')
    })
    t.same(
      other.map(({ type }) => type).filter((type) => type.startsWith('User') || type.startsWith('Identity')),
      ['UserCreated', 'IdentityLinked'],
    )
    t.match(
      await userOf('alice-2'),
      { email: 'alice-2@noreply.127.0.0.1' },
      'an unverified address is nobody’s',
    )
    t.match(await userOf('bob'), { email: 'bob@example.org' })

    const refused = await recordedBy(async () => {
      const { status, text, client } = await signIn({
        sub: 'e-3',
        preferred_username: 'zoe',
        email: 'Bob@example.org',
        email_verified: true,
      })
      t.equal(status, 403)
      t.match(text, /Bob@example\.org is the address of an account that is not linked to this sign-in/)
      t.same(client.cookies(server.url), [], 'no session')
    })
    t.same(refused, [], 'the verified address of another account: nothing is changed')
    const nameless = await recordedBy(async () =>
      t.equal((await signIn({ sub: 'e-4', preferred_username: '///' })).status, 422),
    )
    t.same(nameless, [])
    t.match(await signIn({ sub: 'e-5', preferred_username: 'Zoë d’Arc@corp' }), {
      status: 200,
      text: /<bdi>Zoe-d-Arc</,
    })
  },
)

t.test('two first sign-ins of one person at the same time make one account', async (t) => {
  provider.person = { sub: 'twin', preferred_username: 'twin' }
  const callbacks = await Promise.all(
    [browser(), browser()].map(async (client) => {
      const { to = '' } = await client.follow(`${server.url}${BEGIN}`, `${server.url}${BEGIN}/callback`)
      return () => client.open(to)
    }),
  )
  const statuses = (await Promise.all(callbacks.map((open) => open()))).map(({ status }) => status).sort()
  t.ok(statuses[0] === 303 && (statuses[1] === 303 || statuses[1] === 409), `${statuses}`)
  t.equal(await userOf('twin-2'), undefined)
  t.equal((await signIn({ sub: 'twin' })).status, 200)
})

t.test('groups decide the memberships in the organizations of the setting, and in no other', async (t) => {
  const admin = await server.as('admin')
  for (const username of ['acme', 'docs', 'other']) await admin.orgs.orgCreate({ username })
  const person = { sub: 'g-1', preferred_username: 'gus' }
  const memberships = async () => {
    const user = await userOf('gus')
    const { accounts } = server.services.views
    const rows = Object.entries(user?.memberships ?? {})
    return Object.fromEntries(
      await Promise.all(rows.map(async ([id, permission]) => [(await accounts.get(id))?.login, permission])),
    )
  }
  await signIn({ ...person, groups: ['developers', 'readers', 'unknown'] })
  t.same(await memberships(), { acme: 'write', docs: 'read' })
  t.equal((await server.fetch('admin', '/api/v1/orgs/other/members/gus', { method: 'PUT' })).status, 204)
  await signIn({ ...person, groups: ['leads', 'developers'] })
  t.same(
    await memberships(),
    { acme: 'admin', other: 'write' },
    'the highest counts; what the setting does not name stays',
  )
  t.equal((await server.fetch('admin', '/api/v1/orgs/acme/members/admin', { method: 'DELETE' })).status, 204)
  t.equal((await signIn(person)).status, 200)
  t.same(await memberships(), { acme: 'admin', other: 'write' }, 'the last admin of an organization stays')
  t.equal(
    (
      await server.fetch('admin', '/api/v1/orgs/acme/members/admin', {
        method: 'PUT',
        body: '{"permission":"admin"}',
      })
    ).status,
    204,
  )
  await signIn(person)
  t.same(await memberships(), { other: 'write' }, 'without groups there is no membership')
})

t.test('a disabled or deleted account does not sign in, and its sessions end', async (t) => {
  const person = { sub: 'd-1', preferred_username: 'dora', groups: ['developers'] }
  const { client } = await signIn(person)
  const change = (body: object) =>
    server.fetch('admin', '/api/v1/admin/users/dora', { method: 'PATCH', body: JSON.stringify(body) })
  const open = async () => (await client.open(`${server.url}${TOKENS}`)).status
  t.equal(await open(), 200)
  t.equal((await change({ active: false })).status, 200)
  t.equal(await open(), 401)
  const refused = await recordedBy(async () =>
    t.match(await signIn({ ...person, groups: [] }), { status: 403, text: /prohibited from signing in/ }),
  )
  t.same(refused, [], 'nothing is changed, not even memberships')
  t.equal((await change({ active: true })).status, 200)
  t.equal(await open(), 401, 'a session does not come back with the account')

  const second = await signIn(person)
  t.equal((await change({ password: 'another password' })).status, 200)
  t.equal((await second.client.open(`${server.url}${TOKENS}`)).status, 401, 'a new password ends sessions')
  t.equal((await server.fetch('admin', '/api/v1/orgs/acme/members/dora', { method: 'DELETE' })).status, 204)
  t.equal((await server.fetch('admin', '/api/v1/admin/users/dora', { method: 'DELETE' })).status, 204)
  const gone = await recordedBy(async () =>
    t.match(await signIn(person), { status: 403, text: /was deleted/ }),
  )
  t.same(gone, [], 'who was deleted does not begin again')
})

t.test('a hostile callback gives a clear error page and changes nothing', async (t) => {
  const callback = `${server.url}${BEGIN}/callback`
  provider.person = { sub: 'h-1', preferred_username: 'harry' }
  const client = browser()
  const { to = '' } = await client.follow(`${server.url}${BEGIN}`, callback)
  const code = new URL(to).searchParams.get('code') ?? ''
  const state = new URL(to).searchParams.get('state') ?? ''
  const sealed = client.cookie(server.url, 'mergelog-sign-in') ?? ''
  const withFlow = () => {
    const other = browser()
    other.set(server.url, 'mergelog-sign-in', sealed)
    return other
  }
  const elsewhere = browser()
  await elsewhere.open(`${server.url}${BEGIN}`)
  const cases: [string, ReturnType<typeof browser>, string, number][] = [
    ['without a cookie', browser(), to, 400],
    ['with the cookie of another sign-in', elsewhere, to, 400],
    ['without parameters', withFlow(), callback, 400],
    ['with another state', withFlow(), `${callback}?code=${code}&state=x`, 400],
    ['with the state twice', withFlow(), `${to}&state=${state}`, 422],
    ['with a huge code', withFlow(), `${callback}?state=${state}&code=${'x'.repeat(5000)}`, 422],
    ['with an error', withFlow(), `${callback}?state=${state}&error=%3Cscript%3E`, 403],
    ['without a code', withFlow(), `${callback}?state=${state}`, 403],
    ['with a code of nobody', withFlow(), `${callback}?state=${state}&code=none&iss=${provider.issuer}`, 400],
    [
      'of another issuer',
      withFlow(),
      `${callback}?state=${state}&code=${code}&iss=https://evil.example`,
      400,
    ],
  ]
  const asked = provider.asked.length
  const recorded = await recordedBy(async () => {
    for (const [what, by, url, status] of cases) {
      const answer = await by.open(url)
      t.equal(answer.status, status, what)
      t.match(answer.headers.get('content-type'), 'text/html', what)
      t.notMatch(answer.text, /<script>/, what)
      t.notOk(by.cookies(server.url).includes('mergelog-session'), what)
    }
    client.set(server.url, 'mergelog-sign-in', `${sealed.slice(0, -2)}xx`)
    t.equal((await client.open(to)).status, 400, 'with a changed cookie')
  })
  t.same(recorded, [])
  t.same(
    provider.asked.slice(asked).map((path) => path.split('?')[0]),
    ['/token'],
    'the provider is asked only for a code',
  )

  const own = withFlow()
  t.equal((await own.open(to)).status, 303, 'the right one still works')
  t.equal((await own.open(to)).status, 400, 'but only once in its browser')
  t.match(await withFlow().open(to), { status: 400, text: /used already/ }, 'and with a copy of its cookie')

  provider.person = undefined
  t.match(await browser().follow(`${server.url}${BEGIN}`), { status: 403, text: /access_denied/ })
})

t.test('a user returns to the page that asked for the sign-in, and to no other site', async (t) => {
  const hidden = await server.as('alice')
  await hidden.user.createCurrentUserRepo({ name: 'hidden', private: true })
  const page = '/ui/alice/hidden/pulls/1?revision=0'
  const anonymous = await browser().open(`${server.url}${page}`)
  t.equal(anonymous.status, 401)
  t.match(anonymous.headers.get('www-authenticate'), /^Basic/)
  const [, href = ''] = /<a href="([^"]+)">Sign in/.exec(anonymous.text.replaceAll('&#61;', '=')) ?? []
  t.equal(href, `${BEGIN}?redirect_to=${encodeURIComponent(page)}`)
  provider.person = erin
  const back = await browser().follow(`${server.url}${href}`)
  t.match(back, { status: 404, url: `${server.url}${page}` }, 'Erin may not know of it')
  for (const evil of [
    '//evil.example/ui/',
    'https://evil.example/',
    '/\\evil.example',
    '/ui/\\..',
    '/api/v1/user',
    'x',
  ]) {
    const client = browser()
    const { to } = await client.follow(
      `${server.url}${BEGIN}?redirect_to=${encodeURIComponent(evil)}`,
      `${server.url}${TOKENS}`,
    )
    t.equal(to, `${server.url}${TOKENS}`, evil)
  }
})

t.test('an unverified address of an account links no other user and blocks no one', async (t) => {
  const linking = await withProvider(t, { OIDC_LINK_BY_EMAIL: 'on' })
  await linking.server.as('alice')
  const init = { method: 'POST', body: JSON.stringify({ emails: ['victim@example.org'] }) }
  t.equal((await linking.server.fetch('alice', '/api/v1/user/emails', init)).status, 201)
  const victim = { sub: 'v-1', preferred_username: 'victim', email: 'victim@example.org' }
  const { status, text } = await signIn({ ...victim, email_verified: true }, linking)
  t.equal(status, 200)
  t.match(text, /<bdi>victim</, 'an account of their own')
  const user = await linking.server.fetch('admin', '/api/v1/users/victim')
  t.match(await user.json(), { login: 'victim', email: /^victim@noreply\./ })

  // The claim comes before the address is added, and stays for a moment when it is removed.
  const { events } = linking.server.services
  const alice = (await userOf('alice', linking.server))?.id ?? 0
  const context = newContext(null, 'adding')
  t.equal(await claimName(writerOf(events), context, 'email', 'late@example.org', userStream(alice)), true)
  const late = { sub: 'v-2', preferred_username: 'late', email: 'late@example.org', email_verified: true }
  t.match(
    await signIn(late, linking),
    { status: 200, text: /<bdi>late</ },
    'while the address is being added',
  )
})

t.test(
  'with LOCAL_PASSWORDS=off only admin has a password; a verified address links, but never a site admin',
  async (t) => {
    const off = await withProvider(t, { LOCAL_PASSWORDS: 'off', OIDC_LINK_BY_EMAIL: 'on' })
    const status = async (login: string, path = '/api/v1/user') =>
      (await off.server.fetch(login, path)).status
    t.equal(await status('admin'), 200)
    const alice = await off.server.fetch('alice', '/api/v1/user')
    t.equal(alice.status, 401)
    t.match(await alice.json(), { message: /passwords are switched off here/ })
    t.equal((await off.server.fetch('nobody', '/api/v1/user')).status, 401)
    t.match(
      await (await off.server.as('alice')).user.userGetCurrent(),
      { data: { login: 'alice' } },
      'tokens work',
    )
    const page = await browser().open(`${off.server.url}${TOKENS}`)
    t.match(
      [page.status, page.headers.get('www-authenticate')],
      [401, null],
      'a browser asks for no password',
    )
    t.match(page.text, /<a href="[^"]+">Sign in</)

    const events = await recordedBy(async () => {
      const person = { sub: 'a-1', preferred_username: 'somebody', email: 'ALICE@example.org' }
      t.match(await signIn({ ...person, email_verified: true }, off), { status: 200, text: /<bdi>alice</ })
    }, off.server)
    t.match(
      events.map(({ type }) => type),
      ['ClaimTaken', 'IdentityLinked'],
    )
    t.match(await signIn({ sub: 'a-1', email: 'x' }, off), { status: 200, text: /<bdi>alice</ }, 'for ever')
    const before = await recordedBy(async () => {
      const chief = {
        sub: 'a-2',
        preferred_username: 'chief',
        email: 'admin@localhost',
        email_verified: true,
      }
      t.equal((await signIn(chief, off)).status, 403)
    }, off.server)
    t.same(before, [])
  },
)

t.test(
  'while the provider is down, sign-ins get 503 and everything else works; a start does not need it',
  async (t) => {
    const { provider: away, server: lonely } = await withProvider(t)
    await away.stop()
    const answer = await browser().open(`${lonely.url}${BEGIN}`)
    t.match(answer, { status: 503, text: /does not answer/ })
    t.equal(answer.headers.get('retry-after'), '1')
    t.equal((await fetch(`${lonely.url}/healthz`)).status, 200)
    t.equal((await lonely.fetch('alice', '/api/v1/user')).status, 200)
    await away.listen()
    t.equal(
      (await signIn({ sub: 's', preferred_username: 'sue' }, { server: lonely, provider: away })).status,
      200,
    )

    const client = browser()
    const { to = '' } = await client.follow(`${lonely.url}${BEGIN}`, `${lonely.url}${BEGIN}/callback`)
    await away.stop()
    t.equal((await client.open(to)).status, 503, 'away between the two halves of a sign-in')
    t.same(client.cookies(lonely.url), [])
  },
)

t.test('without a provider, sign-in by a provider is not offered', async (t) => {
  const plain = await startTestServer(t)
  for (const path of [BEGIN, `${BEGIN}/callback`])
    t.equal((await browser().open(`${plain.url}${path}`)).status, 404)
  t.match((await browser().open(`${plain.url}/user/login`)).text, /Sign in with a password/)
  const page = await plain.fetch('alice', TOKENS)
  t.match([page.status, await page.text()], [200, /Access tokens of <bdi>alice</])
  const { token } = await createToken(plain.services, aContext(), { id: 2 }, { name: 'x', scopes: ['all'] })
  const { projector, events } = plain.services
  await projector.waitFor(await events.lastPosition(), 60_000)
  const fields: [string, string][] = [
    ['name', 'y'],
    ['scopes', 'all'],
  ]
  const headers = { authorization: `token ${token}` }
  const answer = await fetch(`${plain.url}${TOKENS}`, { ...form(fields), headers })
  t.equal(answer.status, 403, 'a token does not make tokens')
})
