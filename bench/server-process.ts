/** The server under measurement, configured by its environment as ever. */
import { pino } from 'pino'
import { loadConfig } from '../src/config.ts'
import { startServer } from '../src/server.ts'
import { serveParent } from './child.ts'

export interface ServerReady {
  url: string
}

export type ServerQuestion = { what: 'recovered' } | { what: 'memory' }

export interface Memory {
  /** Megabytes, the most since the process was born. */
  peak: number
}

const config = loadConfig(process.env)
const server = await startServer(config, pino({ level: config.logLevel }))
const ready: ServerReady = { url: server.url }

await serveParent(
  ready,
  async ({ what }: ServerQuestion) => {
    if (what === 'recovered') await server.recovered
    const memory: Memory = { peak: process.resourceUsage().maxRSS / 1024 }
    return memory
  },
  () => server.stop(),
)
