/** Measures the delay of this process's event loop. */
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay, performance } from 'node:perf_hooks'

/** Event loop delay since the last call, in milliseconds. */
export interface LoopDelay {
  p99: number
  max: number
  /** Longest iteration without the time of other processes; undefined where the system does not report it. */
  held: number | undefined
  /** Processor time of this process since then, of all threads. */
  processor: number
}

const RESOLUTION_MS = 5

/** Time that the main thread has waited for a processor since its start, in milliseconds. */
function waitedForProcessor(): number | undefined {
  try {
    const [, waited] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ')
    return Number(waited) / 1e6
  } catch {
    return undefined
  }
}

/**
 * Watches the loop at a cost of about 1 % of its time. Returns a function that returns the delays since its last call.
 * @param isHeld called with the delay of each iteration and the time since the beginning of the previous one
 */
export function watchLoop(isHeld: (late: number, ago: number) => void): () => LoopDelay {
  const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS })
  loop.enable()
  let held: number | undefined
  const moment = () => ({
    at: performance.now(),
    active: performance.eventLoopUtilization().active,
    waited: waitedForProcessor(),
  })
  let before = moment()
  setInterval(() => {
    const now = moment()
    if (now.waited !== undefined && before.waited !== undefined) {
      const behind = now.at - before.at - RESOLUTION_MS - (now.waited - before.waited)
      // A timer is also late when the whole machine was suspended.
      const late = Math.min(behind, now.active - before.active)
      held = Math.max(held ?? 0, late)
      isHeld(late, now.at - before.at)
    }
    before = now
  }, RESOLUTION_MS).unref()

  let lastUsage = process.cpuUsage()

  return () => {
    // The histogram has the times between two ticks.
    const [p99, max] = [loop.percentile(99), loop.max].map((ns) => Math.max(0, ns / 1e6 - RESOLUTION_MS))
    const { user, system } = process.cpuUsage(lastUsage)
    lastUsage = process.cpuUsage()
    const delays = { p99: p99 ?? 0, max: max ?? 0, held, processor: (user + system) / 1000 }
    loop.reset()
    held = undefined
    return delays
  }
}
