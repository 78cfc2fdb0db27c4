/**
 * A server that speaks MongoDB's wire protocol and stores its data in one SQLite file. It serves tests, and to try
 * clients. It behaves like a standalone MongoDB 7.0 without authentication, compression, transactions or replication.
 *
 *   npx tsx test/doubles/mongodb.ts --port 27017 --data DIR
 */
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { catalogueCommands } from './mongodb/catalogue.ts'
import { createCursors } from './mongodb/cursors.ts'
import { CommandFailure } from './mongodb/failure.ts'
import { readCommands } from './mongodb/reads.ts'
import { DuplicateKey, openStorage, type Storage } from './mongodb/storage.ts'
import type { BsonDocument } from './mongodb/values.ts'
import { MAX_MESSAGE_BYTES, messagesOf, parseMessage } from './mongodb/wire.ts'
import { writeCommands } from './mongodb/writes.ts'

const HOST = '127.0.0.1'
const VERSION = [7, 0, 0, 0]
/** The wire version of MongoDB 7.0. */
const WIRE_VERSION = 21

export interface MongoDouble {
  url: string
  port: number
  /**
   * Cuts all connections and closes the file. A double that is started on the same file has all acknowledged writes.
   */
  close(): Promise<void>
}

/** Starts the server on 127.0.0.1. With port 0 it uses a free port. `file` is its SQLite file. */
export async function startMongoDouble(options: { port: number; file: string }): Promise<MongoDouble> {
  const storage = openStorage(options.file)
  const answer = commands(storage)
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.setNoDelay(true)
    // A connection that is cut or sends an invalid message ends. The other connections continue.
    serve(socket, answer).catch(() => socket.destroy())
  })
  server.listen(options.port, HOST)
  try {
    await once(server, 'listening')
  } catch (error) {
    storage.close()
    throw error
  }
  const port = portOf(server.address())
  let closed: Promise<void> | undefined
  return {
    url: `mongodb://${HOST}:${port}`,
    port,
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

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === 'string') throw new TypeError('the server has no port')
  return address.port
}

async function serve(socket: Socket, answer: (command: BsonDocument) => BsonDocument): Promise<void> {
  for await (const bytes of messagesOf(socket)) {
    const { command, wantsReply, reply } = parseMessage(bytes)
    const document = answer(command)
    // Backpressure: do not read from a client that does not read its answers.
    if (wantsReply && !socket.write(reply(document))) await once(socket, 'drain')
  }
}

function commands(storage: Storage): (command: BsonDocument) => BsonDocument {
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
    console.error('usage: npx tsx test/doubles/mongodb.ts --port 27017 --data DIR')
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
