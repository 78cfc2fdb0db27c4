/** The child process with the measured server, configured by its environment as usual. */
import { pino } from 'pino'
import { type LoopDelay, watchLoop } from './loop-delay.ts'
import { type Held, profileLoop } from './loop-holders.ts'
import { serveParent } from './serve-parent.ts'

export interface ServerReady {
  url: string
  grpcAddress: string
}

export type ServerCommand =
  | { what: 'recovered' }
  | { what: 'memory' }
  | { what: 'loop delay' }
  | { what: 'loop holders' }

export interface Recovered {
  /** Milliseconds from the start until the read models were current. */
  after: number
}

export interface Memory {
  /** The peak of the process, in MB. */
  peak: number
}

// Measures the build, as in production, not the sources through a loader.
const built = (name: string) => new URL(`../dist/${name}.js`, import.meta.url).href
const { loadConfig }: typeof import('../src/config/config.ts') = await import(built('config/config'))
const { startServer }: typeof import('../src/server/server.ts') = await import(built('server/server'))
const { setUpGarbageCollection }: typeof import('../src/server/garbage-collection.ts') = await import(
  built('server/garbage-collection')
)

setUpGarbageCollection()

const config = loadConfig(process.env)
const began = performance.now()
const server = await startServer(config, pino({ level: config.logLevel }))
const recovered = server.recovered.then((): Recovered => ({ after: performance.now() - began }))
const ready: ServerReady = { url: server.url, grpcAddress: server.grpcAddress }

/** Minimum length of an iteration that is profiled on request, in milliseconds. */
const HOLDS_MS = 10
const holders = process.env.PROFILE_LOOP === undefined ? undefined : await profileLoop()

/** Starts at the first request, so that it does not slow down other measurements. */
let loopDelay: (() => LoopDelay) | undefined

async function answerTo({ what }: ServerCommand): Promise<Recovered | Memory | LoopDelay | Held[]> {
  switch (what) {
    case 'recovered':
      return await recovered
    case 'memory':
      return { peak: process.resourceUsage().maxRSS / 1024 }
    case 'loop delay':
      loopDelay ??= watchLoop((late, ago) => {
        if (late > HOLDS_MS) holders?.note(late, ago)
      })
      return loopDelay()
    case 'loop holders':
      return (await holders?.holders(8)) ?? []
  }
}

await serveParent(ready, answerTo, () => server.stop())
