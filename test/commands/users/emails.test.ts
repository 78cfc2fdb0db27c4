/** `POST` and `DELETE /user/emails`: additional addresses of a user. */
import t from 'tap'
import { holderOfName } from '../../../src/commands/users/accounts/claims.ts'
import { claimKeys } from '../../../src/events/streams.ts'
import { startTestServer } from '../../start-server.ts'
import { writerOf } from '../../stores.ts'

const server = await startTestServer(t)
const { events } = server.services
await Promise.all([server.as('alice'), server.as('bob')])

async function call(login: string | null, method: string, path: string, body?: object, headers = {}) {
  const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
  const answer = await server.fetch(login, `/api/v1${path}`, init)
  const text = await answer.text()
  return { status: answer.status, json: text === '' ? undefined : JSON.parse(text) }
}
const add = (login: string | null, ...emails: unknown[]) => call(login, 'POST', '/user/emails', { emails })
const remove = (login: string | null, ...emails: unknown[]) =>
  call(login, 'DELETE', '/user/emails', { emails })
const emailsOf = async (login: string): Promise<string[]> =>
  (await call(login, 'GET', '/user/emails')).json.map(({ email }: { email: string }) => email)

t.test('POST /user/emails adds addresses, all or none, which no other account has', async (t) => {
  const { status, json } = await add('alice', 'Work@example.org', 'home@example.org')
  t.equal(status, 201)
  t.match(json, [
    { email: 'alice@example.org', verified: true, primary: true, username: 'alice' },
    { email: 'Work@example.org', verified: false, primary: false, username: 'alice' },
    { email: 'home@example.org', verified: false, primary: false },
  ])
  const before = await events.lastPosition()
  for (const [emails, message] of [
    [[], /^emails: must not be empty/],
    [['nothing'], /^emails: "nothing" is not an e-mail address/],
    [[7], /^emails/],
    [['new@example.org', 'ALICE@example.org'], /^emails: "ALICE@example.org" is already one/],
    [['work@example.org'], /is already one/],
    [['new@example.org', 'NEW@example.org'], /is already one/],
    [Array.from({ length: 19 }, (_, i) => `a${i}@example.org`), /^emails: a user can have at most 20/],
    [Array.from({ length: 101 }, (_, i) => `a${i}@example.org`), /^emails/],
  ] as const) {
    t.match(await add('alice', ...emails), { status: 422, json: { message } }, emails.join())
  }
  t.equal(await events.lastPosition(), before, 'what is refused changes nothing')
  t.equal((await add(null, 'x@example.org')).status, 401)

  // Claims decide, for primary and other addresses.
  for (const taken of ['WORK@example.org', 'alice@example.org']) {
    t.match(await add('bob', 'free@example.org', taken), {
      status: 422,
      json: { message: `emails: "${taken}" is used by another user` },
    })
  }
  t.same(await emailsOf('bob'), ['bob@example.org'])
  t.equal(
    await holderOfName(writerOf(events), 'email', 'free@example.org'),
    undefined,
    'what was taken is given back',
  )
  const account = { username: 'eve', email: 'home@example.org', password: 'a long password' }
  t.match(await call('admin', 'POST', '/admin/users', account), {
    status: 422,
    json: { message: /^email: .*used by another user/ },
  })
  t.equal((await add('bob', 'free@example.org')).status, 201)
})

t.test('POST /user/emails with an Idempotency-Key can be sent again: it is done only once', async (t) => {
  const send = (...emails: string[]) =>
    call('alice', 'POST', '/user/emails', { emails }, { 'Idempotency-Key': 'emails-1' })
  const first = await send('again@example.org')
  t.equal(first.status, 201)
  const before = await events.lastPosition()
  t.same(await send('again@example.org'), first)
  t.match(await send('another@example.org'), { status: 422, json: { message: /Idempotency-Key/ } })
  t.equal(await events.lastPosition(), before)
  t.equal((await remove('alice', 'again@example.org')).status, 204)
  t.equal((await send('again@example.org')).status, 201)
  t.notOk((await emailsOf('alice')).includes('again@example.org'), 'it was removed since')
})

t.test('POST /user/emails takes no address that the server shows for an account', async (t) => {
  const before = await events.lastPosition()
  for (const reserved of ['somebody@noreply.127.0.0.1', 'Bob@NOREPLY.127.0.0.1']) {
    t.match(await add('alice', reserved), {
      status: 422,
      json: { message: `emails: "${reserved}" is an address that the server gives to accounts` },
    })
  }
  t.equal(await events.lastPosition(), before)
})

t.test('an address signs in with the password of its account; the other addresses are hidden', async (t) => {
  const basic = (name: string, password: string) => ({
    authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`,
  })
  const password = 'a password of her own'
  const gina = { username: 'gina', email: 'gina@example.org', password }
  t.equal((await call('admin', 'POST', '/admin/users', gina)).status, 201)
  const asGina = (name: string) => call(null, 'GET', '/user', undefined, basic(name, password))
  t.equal((await asGina('desk@example.org')).status, 401)
  const body = { emails: ['Desk@example.org'] }
  const added = await call(null, 'POST', '/user/emails', body, basic('gina', password))
  t.equal(added.status, 201)
  t.match(await asGina('desk@EXAMPLE.org'), { status: 200, json: { login: 'gina' } })
  t.notMatch((await call('admin', 'GET', '/users/gina')).json, { email: /desk/i })
  const gone = await call(null, 'DELETE', '/user/emails', body, basic('gina', password))
  t.equal(gone.status, 204)
  t.equal((await asGina('desk@example.org')).status, 401)
})

t.test('DELETE /user/emails removes addresses, all or none, and they are free', async (t) => {
  t.match(await remove('alice', 'work@example.org', 'other@example.org'), {
    status: 404,
    json: { message: 'emails: "other@example.org" is not one of your addresses' },
  })
  t.equal((await remove('alice', 'free@example.org')).status, 404, 'another one’s')
  t.match(await remove('alice', 'work@example.org', 'ALICE@example.org'), {
    status: 422,
    json: { message: 'emails: "ALICE@example.org" is your primary address, which stays' },
  })
  t.same(await emailsOf('alice'), ['alice@example.org', 'Work@example.org', 'home@example.org'])
  t.equal((await remove('alice')).status, 204)
  t.equal((await remove('alice', 'WORK@example.org')).status, 204)
  t.same(await emailsOf('alice'), ['alice@example.org', 'home@example.org'])
  t.equal((await add('bob', 'work@example.org')).status, 201)
  t.equal((await remove(null, 'work@example.org')).status, 401)
})

t.test('the primary address stays apart from the others, and all are free with the account', async (t) => {
  const change = (email: string) => call('admin', 'PATCH', '/admin/users/bob', { email })
  t.match(await change('WORK@example.org'), { status: 422, json: { message: /^email: is an additional/ } })
  const holder = await holderOfName(writerOf(events), 'email', 'work@example.org')
  t.match(holder, /^user-/, 'a refusal gives nothing up')
  t.equal((await change('robert@example.org')).status, 200)
  t.same(await emailsOf('bob'), ['robert@example.org', 'free@example.org', 'work@example.org'])
  t.equal((await call('admin', 'DELETE', '/admin/users/bob')).status, 204)
  for (const email of ['robert', 'free', 'work'].map((name) => `${name}@example.org`)) {
    t.equal(await holderOfName(writerOf(events), 'email', email), undefined, claimKeys.email(email))
  }
  t.equal((await add('alice', 'work@example.org')).status, 201)
})
