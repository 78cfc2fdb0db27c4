/** The child process of an attacker. It gives way to the others: what it computes itself is not the server's load. */
import { setMaxListeners } from 'node:events'
import { writeFileSync } from 'node:fs'
import { setPriority } from 'node:os'
import { ATTACKS } from './hostile/attacks.ts'
import type { Stage } from './hostile/stage.ts'
import { serveParent } from './serve-parent.ts'

export interface AttackQuestion {
  stage: Stage
  /** The attacks that begin now. With none, those that run end. */
  names: readonly string[]
}

setPriority(19)
try {
  // Where each session has its share of the processors, its priority counts.
  writeFileSync('/proc/self/autogroup', '10')
} catch {
  // Where there are no such shares, that of the process counts.
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
  async ({ stage, names }: AttackQuestion) => {
    await stop()
    // Each socket and each request listens to it.
    setMaxListeners(0, stopping.signal)
    running = Promise.all(names.map((name) => ATTACKS[name]?.(stage, stopping.signal)))
    return {}
  },
  stop,
)
