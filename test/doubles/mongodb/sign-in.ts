/** Sign-in as in MongoDB: SCRAM-SHA-256, per connection. Before it, a client may only ask for the server's identity. */
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from 'node:crypto'
import { BSON } from 'mongodb'
import { CommandFailure } from './failure.ts'
import type { BsonDocument } from './values.ts'

export interface User {
  password: string
  /** The databases that the user may read and write. */
  databases: readonly string[]
}

type Answer = (command: BsonDocument) => BsonDocument | undefined

const MECHANISM = 'SCRAM-SHA-256'
const ITERATIONS = 4096
/** Commands that need no sign-in. */
const OPEN = new Set(['hello', 'isMaster', 'ismaster', 'ping', 'buildInfo', 'buildinfo', 'endSessions'])

const sha256 = (data: Buffer) => createHash('sha256').update(data).digest()
const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** The fields of a message: `n=user,r=nonce`. */
const fieldsOf = (message: string) =>
  new Map(message.split(',').map((field) => [field.slice(0, 1), field.slice(2)]))

function textOf(payload: unknown): string {
  if (payload instanceof BSON.Binary) return Buffer.from(payload.buffer).toString('utf8', 0, payload.position)
  throw new CommandFailure(2, 'BadValue', 'payload: must be binary')
}

const failed = () => new CommandFailure(18, 'AuthenticationFailed', 'Authentication failed.')

/** Puts the sign-in before the commands of one connection. */
export function signIn(users: ReadonlyMap<string, User>, answer: Answer): Answer {
  let user: User | undefined
  let exchange: { first: string; server: string; user: User | undefined; salted: Buffer } | undefined

  function start({ mechanism, payload }: BsonDocument): BsonDocument {
    if (mechanism !== MECHANISM) {
      throw new CommandFailure(
        334,
        'MechanismUnavailable',
        `Received authentication for mechanism ${mechanism}`,
      )
    }
    const first = textOf(payload).replace(/^n,,/, '')
    const fields = fieldsOf(first)
    const name = (fields.get('n') ?? '').replaceAll('=2C', ',').replaceAll('=3D', '=')
    const found = users.get(name)
    const salt = randomBytes(28)
    const nonce = (fields.get('r') ?? '') + randomBytes(18).toString('base64')
    const server = `r=${nonce},s=${salt.toString('base64')},i=${ITERATIONS}`
    const salted = pbkdf2Sync(found?.password ?? '', salt, ITERATIONS, 32, 'sha256')
    exchange = { first, server, user: found, salted }
    return { conversationId: 1, done: false, payload: new BSON.Binary(Buffer.from(server)), ok: 1 }
  }

  function goOn({ payload }: BsonDocument): BsonDocument {
    if (exchange === undefined) throw failed()
    const { first, server, salted, user: found } = exchange
    exchange = undefined
    const [, last = '', proof = ''] = /^(.*),p=(.*)$/.exec(textOf(payload)) ?? []
    const message = `${first},${server},${last}`
    const key = hmac(salted, 'Client Key')
    const signature = hmac(sha256(key), message)
    const expected = Buffer.from(key.map((byte, i) => byte ^ (signature[i] ?? 0)))
    const given = Buffer.from(proof, 'base64')
    if (found === undefined || given.length !== expected.length || !timingSafeEqual(given, expected))
      throw failed()
    user = found
    const own = hmac(hmac(salted, 'Server Key'), message).toString('base64')
    return { conversationId: 1, done: true, payload: new BSON.Binary(Buffer.from(`v=${own}`)), ok: 1 }
  }

  return (command) => {
    const [name = ''] = Object.keys(command)
    if (name === 'saslStart') return start(command)
    if (name === 'saslContinue') return goOn(command)
    if (OPEN.has(name)) {
      const asked = command.saslSupportedMechs !== undefined
      const reply = answer(command)
      return reply && asked ? { ...reply, saslSupportedMechs: [MECHANISM] } : reply
    }
    if (user === undefined) {
      throw new CommandFailure(13, 'Unauthorized', `Command ${name} requires authentication`)
    }
    const database = String(command.$db)
    if (!user.databases.includes(database)) {
      const what = BSON.EJSON.stringify(command)
      throw new CommandFailure(13, 'Unauthorized', `not authorized on ${database} to execute command ${what}`)
    }
    return answer(command)
  }
}
