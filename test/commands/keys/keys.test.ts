import { execFileSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DeployKey, PublicKey } from 'gitea-js'
import t from 'tap'
import type { Static } from 'typebox'
import type { DeployKeyWire, PublicKeyWire } from '../../../src/api/keys/keys.ts'
import { sshKeyOf } from '../../../src/commands/keys/ssh-key.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'

/** Compiles only if Gitea's client knows the name of every field, but one that is newer. */
type Known<Wire, Theirs> = Exclude<keyof Wire, keyof Theirs | 'last_used_at'> extends never ? true : never
export const knownToClients: [
  Known<Static<typeof PublicKeyWire>, PublicKey>,
  Known<Static<typeof DeployKeyWire>, DeployKey>,
] = [true, true]

const field = (bytes: Buffer | string) => {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(Buffer.byteLength(bytes))
  return Buffer.concat([length, Buffer.from(bytes)])
}
const line = (type: string, ...fields: (Buffer | string)[]) =>
  `${type} ${Buffer.concat([type, ...fields].map(field)).toString('base64')}`
const bytes = (text = '') => Buffer.from(text, 'base64url')

function ed25519(): string {
  return line('ssh-ed25519', bytes(generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }).x))
}
function ecdsa(namedCurve: string, name: string): string {
  const { x, y } = generateKeyPairSync('ec', { namedCurve }).publicKey.export({ format: 'jwk' })
  return line(`ecdsa-sha2-${name}`, name, Buffer.concat([Buffer.from([4]), bytes(x), bytes(y)]))
}
function rsa(modulusLength: number): string {
  const { n, e } = generateKeyPairSync('rsa', { modulusLength }).publicKey.export({ format: 'jwk' })
  return line('ssh-rsa', bytes(e), Buffer.concat([Buffer.from([0]), bytes(n)]))
}

t.test('SSH keys are parsed: each common type', async (t) => {
  const keys = [ed25519(), ecdsa('P-256', 'nistp256'), ecdsa('P-384', 'nistp384'), ecdsa('P-521', 'nistp521')]
  for (const key of [...keys, rsa(3072)]) {
    t.match(sshKeyOf(` ${key}  me@host \n`), {
      key: `${key} me@host`,
      fingerprint: /^SHA256:[A-Za-z0-9+/]{43}$/,
    })
  }
  const good = ed25519()
  const wrong = [
    '',
    'ssh-ed25519',
    'hello world',
    'ssh-dss AAAA',
    `${good}\n${good}`,
    good.slice(0, -8),
    good.replace('ssh-ed25519', 'ssh-rsa'),
    `${good.slice(0, 30)}!${good.slice(31)}`,
    line('ssh-ed25519', Buffer.alloc(31)),
    line('ecdsa-sha2-nistp256', 'nistp256', Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 1)])),
    `ssh-rsa ${Buffer.alloc(60, 255).toString('base64')}`,
    '-----BEGIN OPENSSH PRIVATE KEY-----',
    rsa(2048),
  ]
  for (const key of wrong) t.match(sshKeyOf(key), { refused: 'unprocessable', message: /^key: / }, key)
})

t.test('fingerprints are those of ssh-keygen', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'mergelog-key-'))
  t.teardown(() => rm(dir, { recursive: true }))
  const path = join(dir, 'key')
  try {
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'me@host', '-f', path])
  } catch {
    t.comment('there is no ssh-keygen here')
    t.pass()
    return
  }
  const [, fingerprint] = execFileSync('ssh-keygen', ['-lf', `${path}.pub`], { encoding: 'utf8' }).split(' ')
  t.match(sshKeyOf(await readFile(`${path}.pub`, 'utf8')), { fingerprint })
})

const server = await startTestServer(t)
const [admin, alice, bob] = await Promise.all([server.as('admin'), server.as('alice'), server.as('bob')])

t.test('keys of users: they are public, a key has one owner, and titles differ', async (t) => {
  const key = ed25519()
  const { data, status } = await alice.user.userCurrentPostKey({ title: 'laptop', key })
  t.equal(status, 201)
  t.match(data, { title: 'laptop', key, key_type: 'user', read_only: false, user: { login: 'alice' } })
  const add = (client: typeof alice, title: string, text: string) =>
    statusOf(client.user.userCurrentPostKey({ title, key: text }))
  t.same(
    [await add(alice, 'again', key), await add(bob, 'mine', key), await add(alice, 'laptop', ed25519())],
    [422, 422, 422],
  )
  t.same([await add(bob, 'x', 'no key'), await add(bob, '', ed25519())], [422, 422])
  t.equal(await add(alice, 'phone', ed25519()), 201)
  const list = await bob.users.userListKeys('alice', { limit: 1 })
  t.same([list.data.map(({ title }) => title), list.headers.get('x-total-count')], [['laptop'], '2'])
  const { fingerprint = '' } = data
  t.equal((await alice.user.userCurrentListKeys({ fingerprint })).data.length, 1)
  t.match((await alice.user.userCurrentGetKey(data.id ?? 0)).data, { fingerprint })
  t.equal(await statusOf(bob.user.userCurrentDeleteKey(data.id ?? 0)), 404)
  t.equal(await statusOf(alice.user.userCurrentDeleteKey(data.id ?? 0)), 204)
  t.equal(await add(bob, 'found', key), 201, 'a removed key is free')
})

t.test('`GET /user/keys/{id}` by an admin: the key with its owner', async (t) => {
  const { data } = await alice.user.userCurrentPostKey({ title: 'desk', key: ed25519() })
  t.match(data, { last_used_at: data.created_at })
  const { data: shown } = await admin.user.userCurrentGetKey(data.id ?? 0)
  t.match(shown, { id: data.id, title: 'desk', user: { login: 'alice' } })
  t.equal(await statusOf(bob.user.userCurrentGetKey(data.id ?? 0)), 404)
  t.equal(await statusOf(admin.user.userCurrentGetKey(8_000_000)), 404)
  t.equal(await statusOf(admin.user.userCurrentDeleteKey(data.id ?? 0)), 404, 'it stays its owner’s')
})

t.test('deploy keys are for admins of their repository; keys end with their owners', async (t) => {
  const key = ed25519()
  const erin = await server.as('erin')
  await erin.user.userCurrentPostKey({ title: 'k', key })
  await alice.user.createCurrentUserRepo({ name: 'keys' })
  const deployKey = ed25519()
  const made = await alice.repos.repoCreateKey('alice', 'keys', {
    title: 'ci',
    key: deployKey,
    read_only: true,
  })
  t.match(made.data, { title: 'ci', read_only: true, repository: { full_name: 'alice/keys' } })
  t.equal(await statusOf(alice.repos.repoCreateKey('alice', 'keys', { title: 'ci2', key: deployKey })), 422)
  t.equal(await statusOf(bob.repos.repoListKeys('alice', 'keys')), 403)
  t.equal((await alice.repos.repoListKeys('alice', 'keys')).data.length, 1)
  t.equal((await alice.repos.repoGetKey('alice', 'keys', made.data.id ?? 0)).data.id, made.data.id)
  // A query parameter that Gitea documents is implemented, never ignored.
  const listed = async (key_id: number) =>
    (await alice.repos.repoListKeys('alice', 'keys', { key_id })).data.map(({ id }) => id)
  t.same(
    [await listed(0), await listed(made.data.id ?? 0), await listed(8_000_000)],
    [[made.data.id], [made.data.id], []],
  )
  const history = await server.fetch('bob', '/api/v1/repos/alice/keys/history')
  t.notMatch(await history.text(), /DeployKey/, 'nor do others see them in the history')
  t.equal(await statusOf(alice.repos.repoDeleteKey('alice', 'keys', made.data.id ?? 0)), 204)
  await alice.repos.repoCreateKey('alice', 'keys', { title: 'ci', key: deployKey })
  await alice.repos.repoDelete('alice', 'keys')
  await admin.admin.adminDeleteUser('erin')
  const { deployKeys, sshKeys } = server.services.views
  await until('the deploy key is gone', async () => (await deployKeys.count({})) === 0)
  await until('the key is free again', async () => (await sshKeys.count({ title: 'k' })) === 0)
  t.equal(await statusOf(bob.user.userCurrentPostKey({ title: 'k', key })), 201)
})

t.test('a repeated request for a key is answered as the first one, with its time', async (t) => {
  await alice.user.createCurrentUserRepo({ name: 'repeated' })
  const body = JSON.stringify({ title: 'repeated', key: ed25519() })
  const post = async (path: string) => {
    const headers = { 'idempotency-key': 'a key for keys' }
    const answer = await server.fetch('alice', `/api/v1${path}`, { method: 'POST', body, headers })
    const { id, created_at } = JSON.parse(await answer.text())
    return { status: answer.status, id, created_at }
  }
  const paths = ['/user/keys', '/repos/alice/repeated/keys']
  const first = await Promise.all(paths.map(post))
  const second = new Date().getSeconds()
  await until('it is another second', () => new Date().getSeconds() !== second)
  t.match(first, [{ status: 201 }, { status: 201 }])
  t.same(await Promise.all(paths.map(post)), first)
  const [own] = first
  await alice.user.userCurrentDeleteKey(own?.id ?? 0)
  const { key } = JSON.parse(body)
  t.equal(await statusOf(bob.user.userCurrentPostKey({ title: 'mine now', key })), 201)
  t.same(await post('/user/keys'), own, 'not with the key of who has it now')
})

t.test('keys end with their owners, also one that a request was still adding', async (t) => {
  const { events } = server.services
  const { append } = events
  t.teardown(() => {
    events.append = append
  })
  const fay = await server.as('fay')
  const key = ed25519()
  let added: Promise<unknown> = Promise.resolve()
  events.append = (stream, appended, expected) => {
    if (!appended.some(({ type }) => type === 'SshKeyAdded')) return append(stream, appended, expected)
    events.append = append
    const adding = admin.admin.adminDeleteUser('fay').then(() => append(stream, appended, expected))
    added = adding
    return adding
  }
  await fay.user.userCurrentPostKey({ title: 'late', key }).catch(() => {})
  await added
  await until('the key is free', async () => {
    return (await statusOf(bob.user.userCurrentPostKey({ title: 'late', key }))) === 201
  })
})
