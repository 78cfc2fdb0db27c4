/**
 * Follows the upgrades of a chain: asks its gateway again and again, and records what changed. What was
 * recorded is all that it remembers, so that it goes on from there after a restart.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import pRetry from 'p-retry'
import { type CommandContext, execute, load } from '../../commands/execute.ts'
import { chainDecider } from '../../commands/upgrade/chain.ts'
import { type EventStore, LOG_START, type Position } from '../../events/event-store.ts'
import { UPGRADE_STREAM } from '../../events/streams.ts'
import type { UpgradeEvent } from '../../events/upgrade-events.ts'
import { type ChangesSeen, changesOf } from './follow-changes.ts'
import type { Gateway } from './follow-gateway.ts'
import { GatewayError } from './gateway-error.ts'

/** What there is to tell of following. */
export type FollowNews =
  | { kind: 'recorded'; events: readonly UpgradeEvent[]; position: Position }
  /** The chain shows what our rules do not allow. Told once, for as long as it stays so. */
  | { kind: 'refused'; reason: string }
  | { kind: 'healthy' }
  /** Told once, until it is healthy again. */
  | { kind: 'unhealthy'; reason: string }

export interface FollowOptions {
  intervalMs: number
  /** Ends the following. */
  signal: AbortSignal
  tell: (news: FollowNews) => void
  /** Bounds of the pause after a failed round; it doubles from the one to the other. */
  backOff?: { leastMs: number; mostMs: number }
  /** Lets time pass: `ms`, or until the signal is aborted, and then rejects. */
  wait?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** A gateway may ask for a day's rest; nobody would notice an upgrade then. */
const MOST_RETRY_AFTER_MS = 10 * 60_000

export interface Round extends ChangesSeen {
  /** Of the last event that was appended; LOG_START when none was. */
  position: Position
}

/**
 * Asks once and records what changed since.
 *
 * @throws GatewayError when the gateway does not answer as it should
 * @throws StoreUnavailable when the log can't be read or written now
 */
export async function followOnce(events: EventStore, gateway: Gateway, signal: AbortSignal): Promise<Round> {
  const { state } = await load(events, UPGRADE_STREAM, chainDecider)
  const seen = await gateway.observe(state.plan?.name, signal)
  const context: CommandContext = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: randomUUID(),
    causationId: `follow ${gateway.url}`,
    written: LOG_START,
  }
  let changes: ChangesSeen = { events: [], refused: [] }
  await execute(events, context, {
    stream: UPGRADE_STREAM,
    step: 'follow',
    decider: chainDecider,
    decide(now) {
      changes = changesOf(now, seen)
      return changes.events
    },
  })
  return { ...changes, position: context.written }
}

/** Follows until the signal is aborted, through everything that may be over some time. */
export async function follow(events: EventStore, gateway: Gateway, options: FollowOptions): Promise<void> {
  const { intervalMs, signal, tell, backOff = { leastMs: 1000, mostMs: 60_000 } } = options
  const wait = options.wait ?? ((ms, signal) => delay(ms, undefined, { signal }))
  let healthy: boolean | undefined
  let refused: readonly string[] = []

  function succeeded(round: Round): void {
    if (healthy !== true) tell({ kind: 'healthy' })
    healthy = true
    if (round.events.length > 0) tell({ kind: 'recorded', events: round.events, position: round.position })
    const known = refused
    for (const reason of round.refused) if (!known.includes(reason)) tell({ kind: 'refused', reason })
    refused = round.refused
  }

  async function failed({ error }: { error: Error }): Promise<void> {
    if (signal.aborted) return
    if (healthy !== false) tell({ kind: 'unhealthy', reason: error.message })
    healthy = false
    const asked = error instanceof GatewayError ? (error.retryAfterMs ?? 0) : 0
    if (asked > 0) await wait(Math.min(asked, MOST_RETRY_AFTER_MS), signal)
  }

  try {
    while (!signal.aborted) {
      const round = await pRetry(() => followOnce(events, gateway, signal), {
        retries: Number.POSITIVE_INFINITY,
        minTimeout: backOff.leastMs,
        // Many who lost the same gateway must not come back to it at the same moment.
        maxTimeout: backOff.mostMs * (0.75 + Math.random() / 4),
        randomize: true,
        signal,
        onFailedAttempt: failed,
      })
      succeeded(round)
      await wait(intervalMs, signal)
    }
  } catch (error) {
    if (!signal.aborted) throw error
  }
}
