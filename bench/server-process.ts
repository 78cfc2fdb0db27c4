/** The child process with the measured server, configured by its environment as usual. */
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { pino } from 'pino'
import { serveParent } from './child.ts'
import { type Held, profileLoop } from './loop-holders.ts'

export interface ServerReady {
  url: string
  grpcAddress: string
}

export type ServerQuestion =
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

/** How late the event loop was since the question before, in milliseconds. */
export interface LoopDelay {
  p99: number
  max: number
  /** The most without the time in which other processes had the processor; undefined where the system cannot tell. */
  held: number | undefined
  /** How long this process had processors meanwhile, all of its threads together. */
  processor: number
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

const RESOLUTION_MS = 5
const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
loop.enable()

/** How long the main thread was ready to run and did not get a processor since its start, in milliseconds. */
function waitedForProcessor(): number | undefined {
  try {
    const [, waited] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ')
    return Number(waited) / 1e6
  } catch {
    return undefined
  }
}

/** A turn of the loop that is as long is explained, when anybody asks. */
const HOLDS_MS = 10
const holders = process.env.PROFILE_LOOP === undefined ? undefined : await profileLoop()

let held: number | undefined
let before = { at: performance.now(), waited: waitedForProcessor() }
setInterval(() => {
  const now = { at: performance.now(), waited: waitedForProcessor() }
  if (now.waited !== undefined && before.waited !== undefined) {
    const late = now.at - before.at - RESOLUTION_MS - (now.waited - before.waited)
    held = Math.max(held ?? 0, late)
    if (late > HOLDS_MS) holders?.note(late, now.at - before.at)
  }
  before = now
}, RESOLUTION_MS).unref()

let lastUsage = process.cpuUsage()

function loopDelay(): LoopDelay {
  // The histogram has the times between two ticks.
  const [p99, max] = [loop.percentile(99), loop.max].map((ns) => Math.max(0, ns / 1e6 - RESOLUTION_MS))
  const { user, system } = process.cpuUsage(lastUsage)
  lastUsage = process.cpuUsage()
  const delays = { p99: p99 ?? 0, max: max ?? 0, held, processor: (user + system) / 1000 }
  loop.reset()
  held = undefined
  return delays
}

async function answerTo({ what }: ServerQuestion): Promise<Recovered | Memory | LoopDelay | Held[]> {
  switch (what) {
    case 'recovered':
      return await recovered
    case 'memory':
      return { peak: process.resourceUsage().maxRSS / 1024 }
    case 'loop delay':
      return loopDelay()
    case 'loop holders':
      return (await holders?.holders(8)) ?? []
  }
}

await serveParent(ready, answerTo, () => server.stop())
