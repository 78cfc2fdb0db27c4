/** The stores of a run: embedded ones, test doubles in child processes, or real servers. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import { type Running, startProgram } from './programs.ts'

/** A store that may be killed. */
export interface Killable {
  name: string
  kill(): Promise<void>
  /** Restarts it with its data, at the same port. */
  start(): Promise<void>
  /** Stops it (SIGSTOP), and continues it. */
  freeze(): void
  thaw(): void
}

export interface Stores {
  /** Its name in the output. */
  name: string
  /** Settings of the server. */
  environment: Record<string, string>
  killable: readonly Killable[]
  /** Whether the log may have events of other writers. */
  isShared: boolean
  /** Removes the run's data from them, as far as possible. */
  end(): Promise<void>
}

export const embeddedStores: Stores = {
  name: 'embedded stores',
  environment: {},
  killable: [],
  isShared: false,
  end: async () => {},
}

/** Starts a double in a child process, with its data in `directory`. */
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
    freeze: () => process.freeze(),
    thaw: () => process.thaw(),
  }
}

export const doubles = (directory: string): Promise<Stores> => serversWith(directory, {})

/** The stores of several nodes: real servers where the environment names them, otherwise doubles. */
export const sharedStores = (directory: string, run: string): Promise<Stores> =>
  serversWith(directory, realUrls(run))

/** A pair of servers. Those without a URL are doubles, which may be killed. */
async function serversWith(directory: string, { events, documents, database }: Urls): Promise<Stores> {
  const eventDouble =
    events === undefined ? await double('the event store', 'eventstore', directory) : undefined
  const documentDouble =
    documents === undefined ? await double('the read store', 'mongodb', directory) : undefined
  const started = [eventDouble, documentDouble].filter((one) => one !== undefined)
  const names = [events && 'EventStoreDB', documents && 'MongoDB', started.length > 0 && 'doubles']
  return {
    name: names.filter((name) => typeof name === 'string').join(' and '),
    environment: {
      EVENTSTORE_URL: events ?? eventDouble?.url ?? '',
      MONGODB_URL: documents ?? documentDouble?.url ?? '',
    },
    killable: started,
    isShared: events !== undefined,
    async end() {
      for (const one of started) await one.kill()
      if (documents !== undefined) await dropDatabases(documents, database)
    },
  }
}

interface Urls {
  events?: string | undefined
  documents?: string | undefined
  /** The database of the run, in `documents`. */
  database?: string
}

/** Addresses of real servers, from the environment. The run has its own databases in MongoDB. */
function realUrls(run: string): Urls {
  const { TEST_EVENTSTORE_URL: events, TEST_MONGODB_URL: documents } = process.env
  const database = `faults_${run}`
  const servers = /^(mongodb(?:\+srv)?:\/\/[^/?]+)(?:\/[^?]*)?/
  return {
    events,
    documents: documents?.replace(servers, (_, hosts: string) => `${hosts}/${database}`),
    database,
  }
}

async function dropDatabases(url: string, database = ''): Promise<void> {
  const client = await MongoClient.connect(url)
  for (const name of [database, `${database}_secrets`]) await client.db(name).dropDatabase()
  await client.close()
}

/**
 * The real servers that the environment names; undefined without any. They are never killed. In MongoDB the run has its
 * own databases, which are dropped at its end.
 */
export function realServers(run: string): Stores | undefined {
  const { events, documents, database } = realUrls(run)
  if (events === undefined && documents === undefined) return undefined
  const names = [events && 'EventStoreDB', documents && 'MongoDB'].filter((name) => name !== undefined)
  return {
    name: names.join(' and '),
    environment: {
      ...(events !== undefined && { EVENTSTORE_URL: events }),
      ...(documents !== undefined && { MONGODB_URL: documents }),
    },
    killable: [],
    isShared: true,
    async end() {
      if (documents !== undefined) await dropDatabases(documents, database)
    },
  }
}
