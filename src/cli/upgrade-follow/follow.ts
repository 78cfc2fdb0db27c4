/**
 * Follows the upgrades of a chain: polls its gateway and records changes. Its only state is the log, so it continues
 * after a restart.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import pRetry from 'p-retry'
import type { CommandContext } from '../../commands/execution/command-context.ts'
import { execute } from '../../commands/execution/execute.ts'
import { load } from '../../commands/execution/load.ts'
import { chainDecider } from '../../commands/upgrade/chain.decider.ts'
import type { UpgradeEvent } from '../../events/catalog/upgrade.ts'
import { LOG_START, type Position } from '../../events/store/event-store.ts'
import { UPGRADE_STREAM } from '../../events/streams.ts'
import type { WriteServices } from '../../services/services.ts'
import { type ChangesSeen, changesOf, type Observed } from './follow-changes.ts'
import { type Gateway, GatewayError } from './follow-gateway.ts'

/** A report of `follow`. */
export type FollowNews =
  /** For a single round: the state of the chain, changed or not. */
  | ({ kind: 'found' } & Observed)
  | { kind: 'recorded'; events: readonly UpgradeEvent[]; position: Position }
  /** The chain reports a state that our rules do not allow. Reported once, until the state changes. */
  | { kind: 'refused'; reason: string }
  | { kind: 'healthy' }
  /** Reported once, until the gateway is healthy again. */
  | { kind: 'unhealthy'; reason: string }

export interface FollowOptions {
  intervalMs: number
  /** `follow` resolves when it is aborted. */
  signal: AbortSignal
  report: (news: FollowNews) => void
  /** The shortest and the longest pause after a failed round. The pause doubles with each failure. */
  backOff?: { minMs: number; maxMs: number }
  /** Resolves after `ms`. Rejects when the signal is aborted. Tests replace it. */
  wait?: (ms: number, signal: AbortSignal) => Promise<unknown>
}

/** Maximum pause that a gateway may request, in milliseconds: a longer one could miss an upgrade. */
const MAX_RETRY_AFTER_MS = 10 * 60_000

export interface Round extends ChangesSeen {
  seen: Observed
  /** Position of the last appended event, or LOG_START without one. */
  position: Position
}

/**
 * Queries the gateway once and records changes.
 * @throws GatewayError when the gateway gives no valid answer
 * @throws StoreUnavailable when the log can't be read or written now
 */
export async function followOnce(
  services: WriteServices,
  gateway: Gateway,
  signal: AbortSignal,
): Promise<Round> {
  const { state } = await load(services, UPGRADE_STREAM, chainDecider)
  const seen = await gateway.observe(state.plan?.name, signal)
  const context: CommandContext = {
    actor: null,
    at: new Date().toISOString(),
    correlationId: randomUUID(),
    causationId: `follow ${gateway.url}`,
    written: LOG_START,
  }
  let changes: ChangesSeen = { events: [], refused: [] }
  await execute(services, context, {
    stream: UPGRADE_STREAM,
    step: 'follow',
    decider: chainDecider,
    decide(now) {
      changes = changesOf(now, seen)
      return changes.events
    },
  })
  return { ...changes, seen, position: context.written }
}

/** Follows until the signal is aborted. Tries again after every error that may be temporary. */
export async function follow(
  services: WriteServices,
  gateway: Gateway,
  options: FollowOptions,
): Promise<void> {
  const { intervalMs, signal, report, backOff = { minMs: 1000, maxMs: 60_000 } } = options
  const wait = options.wait ?? ((ms, signal) => delay(ms, undefined, { signal }))
  let healthy: boolean | undefined
  let refused: readonly string[] = []

  function succeeded(round: Round): void {
    if (healthy !== true) report({ kind: 'healthy' })
    healthy = true
    if (round.events.length > 0) report({ kind: 'recorded', events: round.events, position: round.position })
    const known = refused
    for (const reason of round.refused) if (!known.includes(reason)) report({ kind: 'refused', reason })
    refused = round.refused
  }

  async function failed({ error }: { error: Error }): Promise<void> {
    if (signal.aborted) return
    if (healthy !== false) report({ kind: 'unhealthy', reason: error.message })
    healthy = false
    const retryAfterMs = error instanceof GatewayError ? (error.retryAfterMs ?? 0) : 0
    if (retryAfterMs > 0) await wait(Math.min(retryAfterMs, MAX_RETRY_AFTER_MS), signal)
  }

  try {
    while (!signal.aborted) {
      const round = await pRetry(() => followOnce(services, gateway, signal), {
        retries: Number.POSITIVE_INFINITY,
        minTimeout: backOff.minMs,
        // Random, so that many followers of one gateway do not all retry at the same moment.
        maxTimeout: backOff.maxMs * (0.75 + Math.random() / 4),
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
