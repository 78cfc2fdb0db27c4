/**
 * A server that speaks MongoDB's wire protocol and stores its data in one SQLite file. It serves tests, and to try
 * clients. It behaves like a MongoDB 7.0 without compression and transactions: alone, or as the only member of a replica
 * set, with or without TLS and users. Faults can be given to it, as with a real server's fail point `failCommand`.
 *
 *   node test/doubles/mongodb.ts --port 27017 --data DIR
 */
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { Tls } from './eventstore/node.ts'
import { catalogueCommands } from './mongodb/catalogue.ts'
import { createCursors } from './mongodb/cursors.ts'
import { CommandFailure, unsupported } from './mongodb/failure.ts'
import { readCommands } from './mongodb/reads.ts'
import { signIn, type User } from './mongodb/sign-in.ts'
import { DuplicateKey, openStorage, type Storage } from './mongodb/storage.ts'
import type { BsonDocument } from './mongodb/values.ts'
import { MAX_MESSAGE_BYTES, messagesOf, parseMessage } from './mongodb/wire.ts'
import { writeCommands } from './mongodb/writes.ts'

const HOST = '127.0.0.1'
const VERSION = [7, 0, 0, 0]
/** The wire version of MongoDB 7.0. */
const WIRE_VERSION = 21

/** How the next commands with a name fail. */
interface Fault {
  command: string
  /** How many of them; one by default. */
  times?: number
  /**
   * An error answer; an error of the write concern beside the answer of a command that was run; or no answer: the
   * connection is cut before or after the command was run.
   */
  with: { code: number; codeName: string } | { writeConcernError: number } | 'cut' | 'cut after it'
}

export interface MongoDouble {
  url: string
  port: number
  /** The names of the commands of clients so far, without those that watch the server. */
  commands: string[]
  fail(fault: Fault): void
  /** Whether every command with a time limit exceeds it. */
  setSlow(slow: boolean): void
  /**
   * Cuts all connections and closes the file. A double that is started on the same file has all acknowledged writes.
   */
  close(): Promise<void>
}

/** Starts the server on 127.0.0.1. With port 0 it uses a free port. `file` is its SQLite file. */
export async function startMongoDouble(options: {
  port: number
  file: string
  /** The name of the replica set. Then clients may repeat writes. */
  replicaSet?: string
  /** Without it, connections have no TLS. */
  tls?: Tls
  /** An unsupported operator or stage, as in other servers of the protocol: `$cond`. */
  lacks?: string
  /** Without it, clients need no sign-in. */
  users?: ReadonlyMap<string, User>
}): Promise<MongoDouble> {
  const storage = openStorage(options.file)
  const log: string[] = []
  const faults: Fault[] = []
  let slow = false
  let me = ''
  const run = commands(storage, () =>
    options.replicaSet === undefined
      ? {}
      : { setName: options.replicaSet, hosts: [me], me, primary: me, secondary: false },
  )
  const repeated = options.replicaSet === undefined ? run : rememberingWrites(run)

  /** Undefined when the connection is to be cut. */
  function answer(command: BsonDocument): BsonDocument | undefined {
    const [name = ''] = Object.keys(command)
    if (!WATCHING.has(name)) log.push(name)
    const { lacks } = options
    if (lacks !== undefined && hasKey(command, lacks)) return failed(unsupported(lacks))
    if (slow && command.maxTimeMS !== undefined) {
      return failed(new CommandFailure(50, 'MaxTimeMSExpired', 'operation exceeded time limit'))
    }
    const fault = faults.find((one) => one.command === name && (one.times ?? 1) > 0)
    if (fault === undefined) return repeated(command)
    fault.times = (fault.times ?? 1) - 1
    if (fault.with === 'cut') return undefined
    if (fault.with !== 'cut after it' && 'code' in fault.with) {
      const { code, codeName } = fault.with
      return failed(new CommandFailure(code, codeName, `fault: ${codeName}`))
    }
    const reply = repeated(command)
    if (fault.with === 'cut after it') return undefined
    const { writeConcernError: code } = fault.with
    return { ...reply, writeConcernError: { code, errmsg: `fault: write concern ${code}` } }
  }

  const sockets = new Set<Socket>()
  const { tls, users } = options
  const connected = (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.setNoDelay(true)
    // A connection that is cut or sends an invalid message ends. The other connections continue.
    const own = users === undefined ? answer : answeringFailures(signIn(users, answer))
    serve(socket, own).catch(() => socket.destroy())
  }
  const server =
    tls === undefined
      ? createServer(connected)
      : createTlsServer({ cert: tls.certificate, key: tls.key }, connected).on('tlsClientError', () => {})
  server.listen(options.port, HOST)
  try {
    await once(server, 'listening')
  } catch (error) {
    storage.close()
    throw error
  }
  const port = portOf(server.address())
  me = `${HOST}:${port}`
  let closed: Promise<void> | undefined
  return {
    url: `mongodb://${HOST}:${port}`,
    port,
    commands: log,
    fail: (fault) => void faults.push({ ...fault }),
    setSlow(now) {
      slow = now
    },
    close() {
      closed ??= new Promise((resolve) => {
        server.close(() => {
          storage.close()
          resolve()
        })
        for (const socket of sockets) socket.destroy()
      })
      return closed
    },
  }
}

/** Whether an object, or one in it, has this key. */
function hasKey(value: unknown, key: string): boolean {
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([name, inside]) => name === key || hasKey(inside, key))
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new TypeError('the server has no port')
  return address.port
}

/** Turns an exception into an answer. */
function answeringFailures(
  answer: (command: BsonDocument) => BsonDocument | undefined,
): (command: BsonDocument) => BsonDocument | undefined {
  return (command) => {
    try {
      return answer(command)
    } catch (error) {
      return failed(error)
    }
  }
}

const WATCHING = new Set(['hello', 'isMaster', 'ismaster', 'ping', 'endSessions', 'buildInfo'])

type Run = (command: BsonDocument) => BsonDocument

/** A repeated write with the same number is not executed twice: it gets the first answer. */
function rememberingWrites(run: Run): Run {
  const answers = new Map<string, BsonDocument>()
  return ({ txnNumber, ...command }) => {
    if (txnNumber === undefined) return run(command)
    const key = JSON.stringify([command.lsid, txnNumber])
    const known = answers.get(key)
    if (known !== undefined) return known
    const reply = run(command)
    if (reply.ok === 1) answers.set(key, reply)
    return reply
  }
}

async function serve(
  socket: Socket,
  answer: (command: BsonDocument) => BsonDocument | undefined,
): Promise<void> {
  for await (const bytes of messagesOf(socket)) {
    const { command, wantsReply, reply } = parseMessage(bytes)
    const document = answer(command)
    if (document === undefined) return void socket.destroy()
    // Backpressure: do not read from a client that does not read its answers.
    if (wantsReply && !socket.write(reply(document))) await once(socket, 'drain')
  }
}

function commands(storage: Storage, member: () => BsonDocument): Run {
  const cursors = createCursors()
  const hello = (): BsonDocument => ({
    helloOk: true,
    isWritablePrimary: true,
    ismaster: true,
    maxBsonObjectSize: 16 * 1024 * 1024,
    maxMessageSizeBytes: MAX_MESSAGE_BYTES,
    maxWriteBatchSize: 100_000,
    localTime: new Date(),
    logicalSessionTimeoutMinutes: 30,
    minWireVersion: 0,
    maxWireVersion: WIRE_VERSION,
    readOnly: false,
    ...member(),
    ok: 1,
  })
  const writes = writeCommands(storage)
  const known: Record<string, (command: BsonDocument) => BsonDocument> = {
    hello,
    isMaster: hello,
    ismaster: hello,
    ping: () => ({ ok: 1 }),
    buildInfo,
    buildinfo: buildInfo,
    endSessions: () => ({ ok: 1 }),
    ...readCommands(storage, cursors),
    ...catalogueCommands(storage, cursors),
    ...writes,
    findandmodify: (command) => {
      const { findandmodify, ...rest } = command
      return writes.findAndModify({ findAndModify: findandmodify, ...rest })
    },
  }
  return (command) => {
    try {
      const [name = ''] = Object.keys(command)
      const run = Object.hasOwn(known, name) ? known[name] : undefined
      if (run === undefined) {
        throw new CommandFailure(
          59,
          'CommandNotFound',
          `the command '${name}' is not supported by the double`,
        )
      }
      if (command.txnNumber !== undefined) {
        const message = 'Transaction numbers are only allowed on a replica set member or mongos'
        throw new CommandFailure(20, 'IllegalOperation', message)
      }
      return run(command)
    } catch (error) {
      return failed(error)
    }
  }
}

function buildInfo(): BsonDocument {
  return {
    version: VERSION.slice(0, 3).join('.'),
    versionArray: VERSION,
    gitVersion: 'mergelog-double',
    bits: 64,
    debug: false,
    maxBsonObjectSize: 16 * 1024 * 1024,
    ok: 1,
  }
}

function failed(error: unknown): BsonDocument {
  if (error instanceof CommandFailure) {
    const details = error instanceof DuplicateKey ? error.details : {}
    return { ok: 0, errmsg: error.message, code: error.code, codeName: error.codeName, ...details }
  }
  const errmsg = error instanceof Error ? error.message : String(error)
  return { ok: 0, errmsg, code: 1, codeName: 'InternalError' }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { port: { type: 'string', default: '27017' }, data: { type: 'string' } },
  })
  const port = Number(values.port)
  if (values.data === undefined || !Number.isInteger(port) || port < 0 || port > 65535) {
    console.error('usage: node test/doubles/mongodb.ts --port 27017 --data DIR')
    process.exitCode = 2
    return
  }
  await mkdir(values.data, { recursive: true })
  const double = await startMongoDouble({ port, file: join(values.data, 'mongodb.db') })
  console.log(double.url)
  const stop = () => void double.close()
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main()
