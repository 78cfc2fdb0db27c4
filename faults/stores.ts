/** The stores of a run: embedded ones, test doubles in processes of their own, or real servers. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import { type Running, startProgram } from './programs.ts'

/** A store that may be killed. */
export interface Killable {
  name: string
  kill(): Promise<void>
  /** Starts it again with the data that it had, at the same port. */
  start(): Promise<void>
}

export interface Stores {
  /** What they are called in a line. */
  name: string
  /** Settings of the server. */
  environment: Record<string, string>
  killable: readonly Killable[]
  /** Whether others may have written into the log before. */
  isShared: boolean
  /** Removes what the run made in them, as far as that can be removed. */
  end(): Promise<void>
}

export const embeddedStores: Stores = {
  name: 'embedded stores',
  environment: {},
  killable: [],
  isShared: false,
  end: async () => {},
}

/** Starts a double as a process of its own, with its data in `directory`. */
async function double(name: string, file: string, directory: string): Promise<Killable & { url: string }> {
  const data = join(directory, file)
  await mkdir(data, { recursive: true })
  const start = (port: string) =>
    startProgram(
      `test/doubles/${file}`,
      ['--port', port, '--data', data],
      {},
      join(directory, `${file}.log`),
      /^(\w+:\/\/\S+)$/,
    )
  let process: Running = await start('0')
  const url = process.ready
  return {
    name,
    url,
    kill: () => process.kill(),
    async start() {
      process = await start(new URL(url).port)
    },
  }
}

export async function doubles(directory: string): Promise<Stores> {
  const events = await double('the event store', 'eventstore', directory)
  const documents = await double('the read store', 'mongodb', directory)
  return {
    name: 'doubles',
    environment: { EVENTSTORE_URL: events.url, MONGODB_URL: documents.url },
    killable: [events, documents],
    isShared: false,
    async end() {
      await Promise.all([events.kill(), documents.kill()])
    },
  }
}

/**
 * The real servers that the environment names; undefined when it names none. They are not killed: only what this
 * program has started is. In MongoDB the run has databases of its own, which are dropped at its end.
 */
export function realServers(run: string): Stores | undefined {
  const { TEST_EVENTSTORE_URL: events, TEST_MONGODB_URL: documents } = process.env
  if (events === undefined && documents === undefined) return undefined
  const database = `faults_${run}`
  const withDatabase = documents?.replace(
    /^(mongodb(?:\+srv)?:\/\/[^/?]+)(?:\/[^?]*)?/,
    (_, servers: string) => `${servers}/${database}`,
  )
  const names = [events && 'EventStoreDB', documents && 'MongoDB'].filter((name) => name !== undefined)
  return {
    name: names.join(' and '),
    environment: {
      ...(events !== undefined && { EVENTSTORE_URL: events }),
      ...(withDatabase !== undefined && { MONGODB_URL: withDatabase }),
    },
    killable: [],
    isShared: true,
    async end() {
      if (withDatabase === undefined) return
      const client = await MongoClient.connect(withDatabase)
      for (const name of [database, `${database}_secrets`]) await client.db(name).dropDatabase()
      await client.close()
    },
  }
}
