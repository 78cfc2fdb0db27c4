import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GPGKey } from 'gitea-js'
import * as openpgp from 'openpgp'
import t from 'tap'
import type { Static } from 'typebox'
import type { GpgKeyWire } from '../../../src/api/keys/gpg-keys.ts'
import { gpgKeyOf, isGoodSignature } from '../../../src/domain/openpgp/gpg.ts'
import { startTestServer, statusOf } from '../../start-server.ts'
import { until } from '../../until.ts'

/** Compiles only if Gitea's client knows the name of every field. */
type Known<Wire, Theirs> = Exclude<keyof Wire, keyof Theirs> extends never ? true : never
export const knownToClients: Known<Static<typeof GpgKeyWire>, GPGKey> = true

const newKey = (...emails: string[]) =>
  openpgp.generateKey({
    userIDs: emails.map((email) => ({ name: 'Some One', email })),
    subkeys: [{ sign: true }, {}],
    format: 'object',
  })
type Pair = Awaited<ReturnType<typeof newKey>>
const idOf = ({ publicKey }: Pair) => publicKey.getKeyID().toHex().toUpperCase()
async function signed(text: string, { privateKey: signingKeys }: Pair): Promise<string> {
  const message = await openpgp.createMessage({ text })
  return openpgp.sign({ message, signingKeys, detached: true })
}

t.test(
  'keys of OpenPGP are read: what the primary key certifies counts, and nothing else is kept',
  async (t) => {
    const key = await newKey('Alice@Example.com', 'a@example.org')
    const other = await newKey('b@example.org')
    const certified = await key.publicKey.signAllUsers([other.privateKey])
    // An address that an attacker has put beside the key.
    certified.users.push(...other.publicKey.users)
    const read = await gpgKeyOf('me', certified.armor())
    t.same(read.emails, ['alice@example.com', 'a@example.org'])
    t.match(read, { primary: { longId: idOf(key), canSign: true, canEncrypt: false }, expiresAt: null })
    t.same(
      read.subkeys.map(({ canSign, canEncrypt }) => [canSign, canEncrypt]),
      [
        [true, false],
        [false, true],
      ],
    )
    t.same((await gpgKeyOf('me', read.armored)).emails, read.emails)
    const again = await openpgp.readKey({ armoredKey: read.armored })
    t.ok(again.users.every(({ otherCertifications }) => otherCertifications.length === 0))

    const head = '-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n'
    const wrong = [
      'no key',
      head,
      `${head}${'A'.repeat(60_000)}\n-----END PGP PUBLIC KEY BLOCK-----`,
      read.armored.slice(0, 200),
      read.armored.slice(0, 200) + read.armored.slice(260),
      key.privateKey.armor(),
      await signed('text', key),
    ]
    for (const text of wrong) {
      const refused = await gpgKeyOf('me', text).catch((error: unknown) => error)
      t.match(refused, { refusal: { refused: 'unprocessable', message: /^armored_public_key: / } })
    }
  },
)

t.test('a signature of the text by the key or its subkey counts', async (t) => {
  const [key, other] = [await newKey('a@example.org'), await newKey('a@example.org')]
  const armored = key.publicKey.armor()
  const good = await signed('text', key)
  const isGood = (text: string, signature: string) =>
    isGoodSignature('me', armored, [Buffer.from('another'), Buffer.from(text)], signature)
  t.equal(await isGood('text', good), true)
  t.same(
    [await isGood('Text', good), await isGood('text', await signed('text', other)), await isGood('text', '')],
    [false, false, false],
  )
})

const server = await startTestServer(t)
const [admin, alice, bob] = await Promise.all([server.as('admin'), server.as('alice'), server.as('bob')])
const mailOf = async (client: typeof alice) => (await client.user.userGetCurrent()).data.email ?? ''
const [alicesMail, bobsMail] = [await mailOf(alice), await mailOf(bob)]
const token = async (login: string) => {
  const answer = await server.fetch(login, '/api/v1/user/gpg_key_token')
  t.match(answer.headers.get('content-type'), /^text\/plain/)
  return answer.text()
}
const add = (client: typeof alice, { publicKey }: Pair, armored_signature?: string) =>
  client.user.userCurrentPostGpgKey({
    armored_public_key: publicKey.armor(),
    ...(armored_signature !== undefined && { armored_signature }),
  })
const verify = (login: string, key_id: string, armored_signature: string) =>
  server.fetch(login, '/api/v1/user/gpg_key_verify', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ key_id, armored_signature }),
  })

t.test('a key names an address of its owner, has one owner, and may be removed', async (t) => {
  const key = await newKey(alicesMail)
  const { data, status } = await add(alice, key)
  t.equal(status, 201)
  t.match(data, {
    key_id: idOf(key),
    primary_key_id: '',
    emails: [{ email: alicesMail, verified: true }],
    can_sign: true,
    can_certify: true,
    can_encrypt_comms: false,
    can_encrypt_storage: false,
    verified: false,
    expires_at: '0001-01-01T00:00:00Z',
    subkeys: [
      { primary_key_id: idOf(key), can_sign: true },
      { can_encrypt_comms: true, can_sign: false },
    ],
  })
  const packets = new openpgp.PacketList<typeof key.publicKey.keyPacket>()
  packets.push(key.publicKey.keyPacket)
  t.equal(data.public_key, Buffer.from(packets.write()).toString('base64'))
  t.same([await statusOf(add(alice, key)), await statusOf(add(bob, key))], [422, 422])
  t.equal(await statusOf(add(bob, key, await signed(await token('bob'), key))), 422, 'whoever has it')
  t.equal(await statusOf(bob.user.userCurrentPostGpgKey({ armored_public_key: 'no key' })), 422)

  const list = await alice.users.userListGpgKeys('alice', { limit: 1 })
  t.same([list.data, list.headers.get('x-total-count')], [[data], '1'])
  t.same((await alice.user.userCurrentListGpgKeys()).data, [data])
  t.same((await bob.users.userListGpgKeys('alice')).data[0]?.emails, [], 'a hidden address stays hidden')
  const id = data.id ?? 0
  t.same((await alice.user.userCurrentGetGpgKey(id)).data, data)
  t.same(
    [
      await statusOf(bob.user.userCurrentGetGpgKey(id)),
      await statusOf(bob.user.userCurrentDeleteGpgKey(id)),
      await statusOf(alice.user.userCurrentDeleteGpgKey(id)),
      await statusOf(alice.user.userCurrentGetGpgKey(id)),
    ],
    [404, 404, 204, 404],
  )
  t.equal(await statusOf(add(alice, key)), 201, 'a removed key is free')
})

t.test('a signature of the token verifies a key with any addresses', async (t) => {
  const [key, known] = [await newKey('else@example.org'), await newKey(bobsMail)]
  const refused = await server.fetch('bob', '/api/v1/user/gpg_keys', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ armored_public_key: key.publicKey.armor() }),
  })
  t.equal(refused.status, 404)
  t.match(
    await refused.text(),
    new RegExp(`None of the emails attached .* for the token: ${await token('bob')}`),
  )
  t.equal(await statusOf(add(bob, key, await signed(await token('alice'), key))), 422, "another's token")
  t.equal(await statusOf(add(bob, key, await signed(await token('bob'), known))), 422, 'another key')
  t.match((await add(bob, key, await signed(`${await token('bob')}\n`, key))).data, {
    verified: true,
    emails: [],
  })

  const { data } = await add(bob, known)
  t.equal(data.verified, false)
  const good = await signed(await token('bob'), known)
  const statuses = [
    await verify('alice', idOf(known), good),
    await verify('bob', '00', good),
    await verify('bob', idOf(key), good),
    await verify('bob', idOf(known), 'no signature'),
    await verify('bob', idOf(known).replace(/^0+/, ''), good),
    await verify('bob', idOf(known), good),
  ].map(({ status }) => status)
  t.same(statuses, [404, 404, 422, 422, 201, 201])
  t.match((await bob.user.userCurrentGetGpgKey(data.id ?? 0)).data, { verified: true, key_id: idOf(known) })
})

t.test('keys end with their owners', async (t) => {
  const erin = await server.as('erin')
  const key = await newKey(await mailOf(erin))
  await add(erin, key)
  await admin.admin.adminDeleteUser('erin')
  const { gpgKeys } = server.services.views
  await until('the key is free again', async () => (await gpgKeys.count({ longIds: idOf(key) })) === 0)
  t.equal(await statusOf(add(bob, key, await signed(await token('bob'), key))), 201)
})

t.test('keys and signatures of gpg itself', async (t) => {
  const home = await mkdtemp(join(tmpdir(), 'gpg-'))
  const gpg = (args: string[], input = '') =>
    execFileSync('gpg', ['--homedir', home, '--batch', '--quiet', '--passphrase', '', ...args], {
      encoding: 'utf8',
      input,
      stdio: ['pipe', 'pipe', 'ignore'],
    })
  t.teardown(async () => {
    try {
      execFileSync('gpgconf', ['--homedir', home, '--kill', 'all'], { stdio: 'ignore' })
    } finally {
      await rm(home, { recursive: true, force: true })
    }
  })
  try {
    gpg(['--quick-generate-key', `Alice <${alicesMail}>`, 'ed25519', 'sign', '1y'])
  } catch {
    t.comment('there is no gpg here that makes keys')
    return
  }
  const signature = gpg(['--armor', '--detach-sign'], `${await token('alice')}\n`)
  const { data } = await alice.user.userCurrentPostGpgKey({
    armored_public_key: gpg(['--armor', '--export']),
    armored_signature: signature,
  })
  t.match(data, { verified: true, emails: [{ email: alicesMail }], subkeys: [] })
  t.ok(Date.parse(data.expires_at ?? '') > Date.now())
  t.match(gpg(['--list-keys', '--with-colons']), `:${data.key_id}:`)
})

t.test('site admins add and remove the SSH keys of others', async (t) => {
  const option = { title: 'laptop', key: `ssh-ed25519 ${sshBlob()}` }
  t.equal(await statusOf(bob.admin.adminCreatePublicKey('alice', option)), 403)
  const { data, status } = await admin.admin.adminCreatePublicKey('alice', option)
  t.match([status, data], [201, { title: 'laptop', user: { login: 'alice' } }])
  t.match((await alice.user.userCurrentListKeys()).data, [{ id: data.id }])
  const id = data.id ?? 0
  t.same(
    [
      await statusOf(admin.admin.adminCreatePublicKey('nobody', option)),
      await statusOf(admin.admin.adminCreatePublicKey('alice', option)),
      await statusOf(admin.admin.adminDeleteUserPublicKey('bob', id)),
      await statusOf(alice.admin.adminDeleteUserPublicKey('alice', id)),
      await statusOf(admin.admin.adminDeleteUserPublicKey('alice', id)),
    ],
    [404, 422, 404, 403, 204],
  )
})

function sshBlob(): string {
  const field = (bytes: Buffer) => Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes])
  // Any 32 bytes parse as an Ed25519 key.
  return Buffer.concat([field(Buffer.from('ssh-ed25519')), field(Buffer.alloc(32, 7))]).toString('base64')
}
