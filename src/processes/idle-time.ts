/** Waits until the event loop is idle, to begin background work. */
import { setTimeout as delay } from 'node:timers/promises'

/** Length of a measurement, in milliseconds. */
const WINDOW_MS = 100
/** Utilization below which the event loop counts as idle. */
const IDLE_BELOW = 0.5

/** Utilization of the event loop during the next 100 ms, from 0 to 1. */
async function utilization(signal: AbortSignal): Promise<number> {
  const before = performance.eventLoopUtilization()
  await delay(WINDOW_MS, undefined, { signal }).catch(() => {})
  return performance.eventLoopUtilization(before).utilization
}

/** Resolves when the event loop is idle, after `mostMs` milliseconds at the latest, or when the signal aborts. */
export async function untilIdle(signal: AbortSignal, mostMs: number, used = utilization): Promise<void> {
  const end = performance.now() + mostMs
  while (!signal.aborted && performance.now() < end && (await used(signal)) >= IDLE_BELOW);
}
