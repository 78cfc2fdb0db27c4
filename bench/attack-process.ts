/** The child process of the attackers, at low priority, so that its own computing does not slow the server. */
import { setMaxListeners } from 'node:events'
import { writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { ATTACKS } from './hostile/attacks.ts'
import type { Stage } from './hostile/stage.ts'
import { serveParent } from './serve-parent.ts'

export interface AttackCommand {
  stage: Stage
  /** Attacks to start; an empty list ends the running ones. */
  names: readonly string[]
}

setPriority(19)
try {
  // With session groups, the priority within the session counts.
  writeFileSync('/proc/self/autogroup', '10')
} catch {
  // Without session groups, the priority of the process applies.
}
let stopping = new AbortController()
let running: Promise<unknown> = Promise.resolve()

async function stop(): Promise<void> {
  stopping.abort()
  await running
  stopping = new AbortController()
}

await serveParent(
  {},
  async ({ stage, names }: AttackCommand) => {
    await stop()
    // Aborts the sockets and requests.
    setMaxListeners(0, stopping.signal)
    running = Promise.all(names.map((name) => ATTACKS[name]?.(stage, stopping.signal)))
    return {}
  },
  stop,
)
