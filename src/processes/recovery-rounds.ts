/**
 * Runs the recovery at the start of a server, and again every few seconds while a store is unavailable. Pushes are
 * recovered before the server listens.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Services } from '../services/services.ts'
import { removeOrphans } from './attachments/attachment-removal.ts'
import { finishDeletions, recoverErasures, recoverMerges, recoverPushes } from './recovery.ts'
import { removeUnrecorded } from './repositories/unrecorded-repositories.ts'

export interface RecoveryRounds {
  /** Whether the recovery from a crash is complete. */
  isComplete(): boolean
  /** Resolves when it is complete. */
  completed: Promise<void>
  /** Begins. `background` starts after the recovery; then it is complete. */
  start(services: Services, background: { start(): Promise<void> }): void
  /** Resolves when the last round has ended, after the signal was aborted. */
  stopped(): Promise<void>
}

const INTERVAL_MS = 5000

export function createRecoveryRounds(signal: AbortSignal): RecoveryRounds {
  let isComplete = false
  let rounds: Promise<void> = Promise.resolve()
  const { promise: completed, resolve: complete } = Promise.withResolvers<void>()

  async function projected({ events, projector }: Services): Promise<void> {
    const last = await events.lastPosition()
    while (!signal.aborted && !(await projector.waitFor(last, 1000)));
  }

  async function recover(services: Services, background: { start(): Promise<void> }): Promise<void> {
    await projected(services)
    if (signal.aborted) return
    await finishDeletions(services)
    // Finishes renames of branches, for which the read models were not ready before.
    await recoverPushes(services)
    await recoverMerges(services)
    await recoverErasures(services)
    await removeOrphans(services)
    await removeUnrecorded(services)
    // Readers that learn that the recovery is complete must also see its writes.
    await projected(services)
    await background.start()
    isComplete = true
    complete()
  }

  async function recoverAgain(services: Services): Promise<void> {
    await recoverPushes(services)
    await recoverMerges(services)
    await recoverErasures(services)
  }

  async function repeat(services: Services, background: { start(): Promise<void> }): Promise<void> {
    while (!signal.aborted) {
      await (isComplete ? recoverAgain(services) : recover(services, background)).catch((error: unknown) =>
        services.log.warn({ err: error }, 'the recovery failed; it will be repeated'),
      )
      await delay(INTERVAL_MS, undefined, { signal }).catch(() => {})
    }
  }

  return {
    isComplete: () => isComplete,
    completed,
    start(services, background) {
      rounds = repeat(services, background)
    },
    stopped: () => rounds,
  }
}
