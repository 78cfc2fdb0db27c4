/** The rows of reactions, stars and watching. */
import { generateKeyPairSync } from 'node:crypto'
import { createMessage, generateKey, readPrivateKey, sign } from 'openpgp'
import type { Row } from './route-rows.ts'
import type { Call, Place, World } from './route-world.ts'

const REPO = '/api/v1/repos/:owner/:repo'

const row = (who: string, call?: Row['call']): Row => (call === undefined ? { who } : { who, call })
const carol = (): Call => ({ path: { username: 'carol' } })

/** After all roles with read access have sent this. */
const afterAll = (path: (place: Place) => string) => async (place: Place) => {
  const readers = place.kind === 'public' ? ['dave'] : []
  for (const login of [...readers, 'carol', 'bob', 'alice', 'admin']) {
    await place.must(login, 'PUT', path(place))
  }
  return {}
}
const star = afterAll(({ owner, repo }) => `/user/starred/${owner}/${repo}`)
const watch = afterAll(({ base }) => `${base}/subscription`)

const reactions = (path: string, target: (place: Place) => Record<string, number>) => ({
  [`GET ${path}`]: row('read 200', (place) => ({ path: target(place) })),
  [`POST ${path}`]: row('read-signed-in 201', (place) => ({
    path: target(place),
    body: { content: REACTIONS[place.next() % REACTIONS.length] },
  })),
  [`DELETE ${path}`]: row('read-signed-in 200', (place) => ({
    path: target(place),
    body: { content: 'heart' },
  })),
})
const REACTIONS = ['+1', '-1', 'laugh', 'rocket', 'eyes']

const index = ({ issue }: Place): Call => ({ path: { index: issue } })
/** A thread of carol, who has subscribed to an issue before alice comments. */
const thread = async ({ base, kind, make, must, next }: Place): Promise<Call> => {
  const readers = kind === 'public' ? ['dave'] : []
  for (const login of [...readers, 'carol', 'bob', 'alice', 'admin']) {
    await must(login, 'DELETE', `${base}/subscription`)
  }
  const issue = await make.issue()
  await must('carol', 'PUT', `${base}/issues/${issue}/subscriptions/carol`)
  await must('alice', 'POST', `${base}/issues/${issue}/comments`, { body: `Hm ${next()}` })
  return { path: { id: (await must<{ id: number }>('carol', 'GET', `${base}/issues/${issue}`)).id } }
}

/** Creates an unused public key. */
export const newKey = () => {
  const { publicKey } = generateKeyPairSync('ed25519')
  const { x = '' } = publicKey.export({ format: 'jwk' })
  const field = (bytes: Buffer) => Buffer.concat([Buffer.from([0, 0, 0, bytes.length]), bytes])
  const blob = Buffer.concat([field(Buffer.from('ssh-ed25519')), field(Buffer.from(x, 'base64url'))])
  return `ssh-ed25519 ${blob.toString('base64')}`
}
const keyOption = ({ next }: Place) => ({ title: `key ${next()}`, key: newKey() })
const deployKey = async (place: Place): Promise<Call> => {
  const path = `${place.base}/keys`
  return { path: { id: (await place.must<{ id: number }>('alice', 'POST', path, keyOption(place))).id } }
}
const carolsKey = async (place: Place): Promise<Call> => ({
  path: { id: (await place.must<{ id: number }>('carol', 'POST', '/user/keys', keyOption(place))).id },
})

/** Creates an unused OpenPGP key, and a signature of its owner. */
async function newGpgKey({ send }: World, login: string) {
  const key = await generateKey({ userIDs: [{ email: 'else@example.org' }], subkeys: [] })
  const { text: token } = await send(login, 'GET', '/api/v1/user/gpg_key_token')
  const signingKeys = await readPrivateKey({ armoredKey: key.privateKey })
  const message = await createMessage({ text: token })
  const signature = await sign({ message, signingKeys, detached: true })
  return { armored_public_key: key.publicKey, armored_signature: signature }
}
const carolsGpgKey = async ({ must }: Place, world: World) =>
  must<{ id: number }>('carol', 'POST', '/user/gpg_keys', await newGpgKey(world, 'carol'))

export const SOCIAL_ROWS: Readonly<Record<string, Row>> = {
  ...reactions(`${REPO}/issues/:index/reactions`, ({ issue }) => ({ index: issue })),
  ...reactions(`${REPO}/issues/comments/:id/reactions`, ({ comment }) => ({ id: comment })),

  'POST /api/v1/markdown': row('signed-in 200', () => ({ body: { Text: '*a*' } })),
  'POST /api/v1/markup': row('signed-in 200', () => ({ body: { Text: '*a*' } })),
  'POST /api/v1/markdown/raw': row('signed-in 200', () => ({
    headers: { 'content-type': 'text/plain' },
    body: '*a*',
  })),

  [`GET ${REPO}/issues/:index/subscriptions`]: row('read 200', index),
  [`GET ${REPO}/issues/:index/subscriptions/check`]: row('read-signed-in 200', index),
  ...Object.fromEntries(
    ['PUT', 'DELETE'].map((method) => [
      `${method} ${REPO}/issues/:index/subscriptions/:user`,
      // Of carol, who has not commented on this issue yet: only she and site admins may.
      row('401 403 201 403 403 201 / 404 404 201 403 403 201', async ({ make, must, base }) => {
        const issue = await make.issue()
        if (method === 'DELETE') await must('carol', 'PUT', `${base}/issues/${issue}/subscriptions/carol`)
        return { path: { index: issue, user: 'carol' } }
      }),
    ]),
  ),
  'GET /api/v1/notifications': row('signed-in 200'),
  'GET /api/v1/notifications/new': row('signed-in 200'),
  'PUT /api/v1/notifications': row('signed-in 205'),
  [`GET ${REPO}/notifications`]: row('read-signed-in 200'),
  [`PUT ${REPO}/notifications`]: row('read-signed-in 205'),
  'GET /api/v1/notifications/threads/:id': row('401 404 200 404 404 404', thread),
  'PATCH /api/v1/notifications/threads/:id': row('401 404 205 404 404 404', thread),

  'GET /api/v1/user/keys': row('signed-in 200'),
  'POST /api/v1/user/keys': row('signed-in 201', (place) => ({ body: keyOption(place) })),
  'GET /api/v1/user/keys/:id': row('401 404 200 404 404 200', carolsKey),
  'DELETE /api/v1/user/keys/:id': row('401 404 204 404 404 404', carolsKey),
  'GET /api/v1/users/:username/keys': row('everybody 200', carol),
  'POST /api/v1/admin/users/:username/keys': row('site-admin 201', (place) => ({
    ...carol(),
    body: keyOption(place),
  })),
  'DELETE /api/v1/admin/users/:username/keys/:id': row('site-admin 204', async (place) => ({
    path: { username: 'carol', ...(await carolsKey(place)).path },
  })),
  'GET /api/v1/user/gpg_keys': row('signed-in 200'),
  // The key is carol's, and so is the signature.
  'POST /api/v1/user/gpg_keys': row('401 422 201 422 422 422', async (_, world) => ({
    body: await newGpgKey(world, 'carol'),
  })),
  'GET /api/v1/user/gpg_keys/:id': row('401 404 200 404 404 404', async (place, world) => ({
    path: { id: (await carolsGpgKey(place, world)).id },
  })),
  'DELETE /api/v1/user/gpg_keys/:id': row('401 404 204 404 404 404', async (place, world) => ({
    path: { id: (await carolsGpgKey(place, world)).id },
  })),
  'GET /api/v1/users/:username/gpg_keys': row('everybody 200', carol),
  'GET /api/v1/user/gpg_key_token': row('signed-in 200'),
  'POST /api/v1/user/gpg_key_verify': row('401 404 201 404 404 404', async (place, world) => {
    const option = await newGpgKey(world, 'carol')
    const { key_id } = await place.must<{ key_id: string }>('carol', 'POST', '/user/gpg_keys', option)
    return { body: { key_id, armored_signature: option.armored_signature } }
  }),
  [`GET ${REPO}/keys`]: row('admin 200'),
  [`POST ${REPO}/keys`]: row('admin 201', (place) => ({ body: keyOption(place) })),
  [`GET ${REPO}/keys/:id`]: row('admin 200', deployKey),
  [`DELETE ${REPO}/keys/:id`]: row('admin 204', deployKey),

  'GET /api/v1/user/starred': row('signed-in 200'),
  'GET /api/v1/user/subscriptions': row('signed-in 200'),
  'GET /api/v1/users/:username/starred': row('everybody 200', carol),
  'GET /api/v1/users/:username/subscriptions': row('everybody 200', carol),
  [`GET ${REPO}/stargazers`]: row('read 200', star),
  [`GET ${REPO}/subscribers`]: row('read 200', watch),
  'GET /api/v1/user/starred/:owner/:repo': row('read-signed-in 204', star),
  'PUT /api/v1/user/starred/:owner/:repo': row('read-signed-in 204'),
  'DELETE /api/v1/user/starred/:owner/:repo': row('read-signed-in 204'),
  [`GET ${REPO}/subscription`]: row('read-signed-in 200', watch),
  [`PUT ${REPO}/subscription`]: row('read-signed-in 200'),
  [`DELETE ${REPO}/subscription`]: row('read-signed-in 204'),
}
