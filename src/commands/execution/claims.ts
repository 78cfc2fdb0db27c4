/**
 * Claims make keys unique. A claim is an append, with an expected revision, to a stream that is named by the key. A lookup in
 * a read model never decides which stream has a name.
 *
 * A request takes a claim before it creates the holder, and releases it when the holder gives up the key. A crash in between
 * leaves a claim whose holder does not have the key. The next request for the key takes it over after a grace period; at once
 * when an ended process of this node took it. If the stream of the old holder was never written, the request closes it first:
 * otherwise a very slow first writer could create a second holder. A stream that exists cannot be closed. So the event that
 * relies on the claim has a time limit (`appendReady` in `append.ts`).
 */
import { decode } from '../../events/codec.ts'
import {
  type Append,
  LOG_START,
  type Position,
  WrongExpectedRevision,
} from '../../events/store/event-store.ts'
import { claimStream } from '../../events/streams.ts'
import type { WriteServices } from '../../services/services.ts'
import { append, appendReady, eventsOf } from './append.ts'
import type { CommandContext } from './command-context.ts'

/** Grace period of a claim, in milliseconds. Longer than any request, which may still create the holder. */
const GRACE_MS = 60_000
/** Maximum time between a claim and the event that relies on it, in milliseconds. Well below the grace period. */
const MAX_CLAIM_USE_MS = 20_000

/** The result of an attempt to claim: the holder has the key now, or another stream has it. */
type ClaimResult = { taken: true } | { taken: false; holder: string }

export interface Claim {
  key: string
  /** The stream of the aggregate that the key is for. */
  holder: string
  /** Whether the aggregate in that stream has the key now. Called only when the claim may be orphaned. */
  stillHolds(holder: string): Promise<boolean>
}

/**
 * Takes a key for a holder. When the holder has the key already, this succeeds and changes nothing. When an earlier request
 * took the claim and no event relies on it yet, this takes it again: the grace period starts again.
 */
export async function takeClaim(
  services: WriteServices,
  context: CommandContext,
  claim: Claim,
): Promise<ClaimResult> {
  const { key, holder } = claim
  const stream = claimStream(key)
  for (;;) {
    const last = await lastClaim(services, stream)
    const { holder: current, revision } = last
    if (current === holder && (isTakenInTime(context, claim) || (await claim.stillHolds(holder)))) {
      return { taken: true }
    }
    if (current !== undefined && current !== holder) {
      const free = await isFree(services, claim, last)
      if (!free || !(await closeUnwritten(services, context, claim, current)))
        return { taken: false, holder: current }
    }
    try {
      const taken = { type: 'ClaimTaken', data: { key, holder } } as const
      const { now } = services.writeState.claimAges
      const began = now()
      // A retried request may take a key again that was released in between. The revision in the step makes it another event.
      await append(services, context, stream, `take ${holder} after ${revision}`, [taken], revision)
      claimsFor(context, holder).set(key, () => now() - began > MAX_CLAIM_USE_MS)
      return { taken: true }
    } catch (error) {
      // Another request changed the claim in between: read its holder again.
      if (!(error instanceof WrongExpectedRevision)) throw error
    }
  }
}

/** Returns the claims that the request took for a holder and that no event relies on yet. */
function claimsFor(context: CommandContext, holder: string): Map<string, () => boolean> {
  context.claims ??= new Map()
  const known = context.claims.get(holder) ?? new Map<string, () => boolean>()
  context.claims.set(holder, known)
  return known
}

const isTakenInTime = ({ claims }: CommandContext, { key, holder }: Claim): boolean =>
  claims?.get(holder)?.get(key)?.() === false

/** Returns the holder of a key. For an early refusal before a request takes a number; only `takeClaim` decides. */
export async function claimHolder(
  services: WriteServices,
  claim: Pick<Claim, 'key' | 'stillHolds'>,
): Promise<string | undefined> {
  const last = await lastClaim(services, claimStream(claim.key))
  return last.holder === undefined || (await isFree(services, claim, last)) ? undefined : last.holder
}

/** The last event of a claim. */
interface LastClaim {
  /** Undefined: the key is free. */
  holder: string | undefined
  /** Time since this process first saw it, in milliseconds. */
  ageMs: number
  revision: number | 'no-stream'
  position: Position
  node: string | undefined
}

/** Whether another request may take the key: it is free, or its claim is orphaned. */
async function isFree(
  services: WriteServices,
  claim: Pick<Claim, 'stillHolds'>,
  { holder, ageMs, position, node }: LastClaim,
): Promise<boolean> {
  if (holder === undefined) return true
  const isOfEnded = services.writeState.claimAges.isOfEndedProcess({ position, node })
  return (ageMs >= GRACE_MS || isOfEnded) && !(await claim.stillHolds(holder))
}

/**
 * Releases a key, unless the holder does not have it or needs it. `isNeeded` is called after the claim is read, so a holder that
 * takes the key again after that call keeps it.
 */
export async function releaseClaim(
  services: WriteServices,
  context: CommandContext,
  key: string,
  holder: string,
  isNeeded: () => Promise<boolean> = async () => false,
): Promise<void> {
  context.claims?.get(holder)?.delete(key)
  const release = await releaseOf(services, context, key, holder)
  if (release === undefined || (await isNeeded())) return
  try {
    await appendReady(services, context, release)
  } catch (error) {
    // Another holder took the key over in between.
    if (!(error instanceof WrongExpectedRevision)) throw error
  }
}

/** Returns the append that releases a key, for `appendAtomically`; undefined when the holder does not have the key. */
export async function releaseOf(
  services: WriteServices,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<Append | undefined> {
  const stream = claimStream(key)
  const { holder: current, revision } = await lastClaim(services, stream)
  if (current !== holder) return undefined
  const released = { type: 'ClaimReleased', data: { key, holder } } as const
  const step = `release ${holder} after ${revision}`
  return { stream, events: eventsOf(context, stream, step, [released]), expected: revision }
}

async function lastClaim({ events, writeState }: WriteServices, stream: string): Promise<LastClaim> {
  for await (const recorded of events.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
    const event = decode(recorded)
    const holder = event.type === 'ClaimTaken' ? event.data.holder : undefined
    const { revision, position, metadata } = recorded
    return {
      holder,
      ageMs: holder === undefined ? 0 : writeState.claimAges.ageOf(recorded),
      revision,
      position,
      node: metadata.node,
    }
  }
  return { holder: undefined, ageMs: 0, revision: 'no-stream', position: LOG_START, node: undefined }
}

/** Returns true when the holder exists without the key, or when this closed its stream: it can never be written now. */
async function closeUnwritten(
  services: WriteServices,
  context: CommandContext,
  { key, stillHolds }: Claim,
  holder: string,
): Promise<boolean> {
  // Another request may have created it since `isFree`.
  for await (const _ of services.events.readStream(holder, { maxCount: 1 }))
    return !(await stillHolds(holder))
  try {
    const abandoned = { type: 'CreationAbandoned', data: { key } } as const
    await append(services, context, holder, 'abandon', [abandoned], 'no-stream')
    return true
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error
    return false
  }
}
