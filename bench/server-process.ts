/** The server under measurement, configured by its environment as ever. */
import { pino } from 'pino'
import { loadConfig } from '../src/config.ts'
import { startServer } from '../src/server.ts'
import { serveParent } from './child.ts'

export interface ServerReady {
  url: string
}

export type ServerQuestion = { what: 'recovered' } | { what: 'memory' }

export interface Recovered {
  /** Milliseconds from the beginning of the start until the read models were current. */
  after: number
}

export interface Memory {
  /** Megabytes, the most since the process was born. */
  peak: number
}

const config = loadConfig(process.env)
const began = performance.now()
const server = await startServer(config, pino({ level: config.logLevel }))
const recovered = server.recovered.then((): Recovered => ({ after: performance.now() - began }))
const ready: ServerReady = { url: server.url }

await serveParent(
  ready,
  async ({ what }: ServerQuestion): Promise<Recovered | Memory> =>
    what === 'recovered' ? await recovered : { peak: process.resourceUsage().maxRSS / 1024 },
  () => server.stop(),
)
