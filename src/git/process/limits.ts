/** What clients may take of git: how many processes run for them, for how long, and how slow they may be. */
import { availableParallelism } from 'node:os'
import { createSemaphore, type Semaphore } from '../../concurrency/semaphore.ts'
import type { Pace } from '../http/request-body.ts'

/** The settings, by their names in `Config`. */
export interface GitLimitSettings {
  gitReadSlots: number
  gitPushSlots: number
  gitDiffSlots: number
  gitTimeoutMs: number
  gitDiffTimeoutMs: number
  gitGraceMs: number
  gitMinRateBytes: number
}

/** What one client may take for one transfer. */
export interface TransferShare {
  slots: Semaphore
  /** Whose share it is: an account, or an address without one. */
  client: string
  /** How long git may work, in milliseconds. The time in which it waits for the client does not count. */
  workMs: number
  /** How fast the client must send and read. */
  pace: Pace
}

/** Bodies that are read at the same time: they cost a connection and 64 KiB of memory. One client has a quarter. */
const BODIES = 256

/** A question of a reader, as its git processes know it. `held`: it has a slot, and so they take none. */
export interface Question {
  queue: 'held' | 'query'
  /** Milliseconds for each git process. */
  timeout?: number
  signal?: AbortSignal | undefined
}

export type GitLimits = ReturnType<typeof createGitLimits>

/** Work of one kind: its slots, and what a client may take for it. */
function workOf(slots: Semaphore, bodies: Semaphore, workMs: number, pace: Pace) {
  return {
    slots,
    bodies,
    /** Takes a place for a request whose body is being read. @throws SlotsFull */
    placeForBody: (client: string) => bodies.take(client),
    schedulingKey: (client: string): TransferShare => ({ slots, client, workMs, pace }),
    /** Answers a question of a client while it has a slot. @throws SlotsFull, and what `answer` throws */
    async ask<T>(
      client: string,
      signal: AbortSignal,
      answer: (question: Question) => Promise<T>,
    ): Promise<T> {
      const release = await slots.take(client, signal)
      try {
        return await answer({ queue: 'held', timeout: workMs, signal })
      } finally {
        release()
      }
    },
  }
}

/**
 * Makes the limits of one server. Clones, pushes and diffs have slots of their own, so that none of them can take the
 * last ones of another.
 */
export function createGitLimits(settings: GitLimitSettings) {
  const { gitReadSlots, gitPushSlots, gitDiffSlots, gitTimeoutMs, gitDiffTimeoutMs } = settings
  const pace = { graceMs: settings.gitGraceMs, bytesPerSecond: settings.gitMinRateBytes }
  const kind = (name: 'git_reads' | 'git_pushes' | 'git_diffs', size: number, workMs: number) => {
    const bodies = createSemaphore({ name: 'git_bodies', size: Math.max(BODIES, 16 * size), waiting: 0 })
    return workOf(createSemaphore({ name, size }), bodies, workMs, pace)
  }
  return {
    reads: kind('git_reads', gitReadSlots, gitTimeoutMs),
    pushes: kind('git_pushes', gitPushSlots, gitTimeoutMs),
    diffs: kind('git_diffs', gitDiffSlots, gitDiffTimeoutMs),
    pace,
  }
}

const STANDARD_SLOTS = Math.max(16, 8 * availableParallelism())

/** For callers without clients of their own. */
export const standardShare: TransferShare = {
  slots: createSemaphore({ name: 'git_commands', size: STANDARD_SLOTS, share: STANDARD_SLOTS }),
  client: 'server',
  workMs: 600_000,
  pace: { graceMs: 30_000, bytesPerSecond: 4096 },
}
