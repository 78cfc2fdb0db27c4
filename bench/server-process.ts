/** The child process with the measured server, configured by its environment as usual. */
import { pino } from 'pino'
import { serveParent } from './child.ts'

export interface ServerReady {
  url: string
  grpcAddress: string
}

export type ServerQuestion = { what: 'recovered' } | { what: 'memory' }

export interface Recovered {
  /** Milliseconds from the start until the read models were current. */
  after: number
}

export interface Memory {
  /** The peak of the process, in MB. */
  peak: number
}

// Measure the build, as in production, not the sources through a loader.
const built = (name: string) => new URL(`../dist/${name}.js`, import.meta.url).href
const { loadConfig }: typeof import('../src/config.ts') = await import(built('config'))
const { startServer }: typeof import('../src/server.ts') = await import(built('server'))

const config = loadConfig(process.env)
const began = performance.now()
const server = await startServer(config, pino({ level: config.logLevel }))
const recovered = server.recovered.then((): Recovered => ({ after: performance.now() - began }))
const ready: ServerReady = { url: server.url, grpcAddress: server.grpcAddress }

await serveParent(
  ready,
  async ({ what }: ServerQuestion): Promise<Recovered | Memory> =>
    what === 'recovered' ? await recovered : { peak: process.resourceUsage().maxRSS / 1024 },
  () => server.stop(),
)
