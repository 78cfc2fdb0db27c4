/** Limits of a client's use of git: number of processes, their time, and the client's minimum speed. */
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

/** The resources of one client for one transfer. */
export interface TransferShare {
  slots: Semaphore
  /** The key of the share: an account, or an address without one. */
  client: string
  /** Time limit of git, in milliseconds, without the time in which it waits for the client. */
  workMs: number
  /** Minimum speed at which the client must send and read. */
  pace: Pace
}

/**
 * Minimum number of bodies read at the same time. Each costs a connection and 64 KiB of memory. One client may have a
 * quarter.
 */
const BODIES = 256

/** A query's slot: the options of its git processes. `held`: the query has the slot already. */
export interface GitSlot {
  queue: 'held' | 'query'
  /** Time limit of each git process, in milliseconds. */
  timeout?: number
  signal?: AbortSignal | undefined
}

export type GitLimits = ReturnType<typeof createGitLimits>

/** Slots for work of one kind, and a client's share of them. */
function workOf(slots: Semaphore, bodies: Semaphore, workMs: number, pace: Pace) {
  return {
    slots,
    bodies,
    /** Takes a slot for reading the body of a request. @throws SlotsFull */
    placeForBody: (client: string) => bodies.take(client),
    shareOf: (client: string): TransferShare => ({ slots, client, workMs, pace }),
    /** Runs a client's query in a slot. @throws SlotsFull, and the error of `answer` */
    async ask<T>(client: string, signal: AbortSignal, answer: (slot: GitSlot) => Promise<T>): Promise<T> {
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
 * Creates the limits of one server. Clones, pushes and diffs have separate slots, so that none of them can starve another.
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

/** The share of callers outside of a client's request. */
export const standardShare: TransferShare = {
  slots: createSemaphore({ name: 'git_commands', size: STANDARD_SLOTS, share: STANDARD_SLOTS }),
  client: 'server',
  workMs: 600_000,
  pace: { graceMs: 30_000, bytesPerSecond: 4096 },
}
