/**
 * Uniqueness by claims: a claim is an append, with an expected revision, to a stream that is named by the key. A
 * lookup in a read model never decides who has a name.
 *
 * A claim is taken before its holder is created, and released when the holder gives up the key. A process that dies
 * in between leaves a claim whose holder does not have the key. When a server has known such a claim for a grace
 * period, the next request for the key takes the claim over; at once, when it was taken by an earlier process of this
 * node, which works on nothing more. If the stream of the old holder was never written, it is closed first: otherwise a
 * very slow first writer could come back and become a second holder. A stream that exists cannot be closed. So its holder
 * writes the event that relies on the claim within a time limit, or not at all (`appendMade` in `execute.ts`).
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
import { append, appendMade, type CommandContext, eventsOf } from './execute.ts'

/** Longer than any request takes: the holder of a younger claim may still be being created. */
const GRACE_MS = 60_000
/** The most time between a claim and the event that relies on it. Well below the grace period. */
const MAX_MOVE_MS = 20_000

/** The result of an attempt to claim: the holder has the key now, or another stream has it. */
type ClaimResult = { taken: true } | { taken: false; holder: string }

export interface Claim {
  key: string
  /** The stream of the aggregate that the key is for. */
  holder: string
  /** Whether the aggregate in that stream has the key now. Called only when its claim may be given up. */
  stillHolds(holder: string): Promise<boolean>
}

/**
 * Takes a key for a holder. When the holder has the key already, this succeeds and changes nothing. When an earlier request
 * has taken the claim and no event relies on it yet, this takes it again: the time until others may take it over begins anew.
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
      const given = await isGivenUp(services, claim, last)
      if (!given || !(await closeUnwritten(services, context, claim, current)))
        return { taken: false, holder: current }
    }
    try {
      const taken = { type: 'ClaimTaken', data: { key, holder } } as const
      const { now } = services.writeState.claimAges
      const began = now()
      // A retried request may take a key again that was released in between. So the step names the revision: it is
      // another event.
      await append(services, context, stream, `take ${holder} after ${revision}`, [taken], revision)
      claimsFor(context, holder).set(key, () => now() - began > MAX_MOVE_MS)
      return { taken: true }
    } catch (error) {
      // Another request changed the claim in between: read again who has it.
      if (!(error instanceof WrongExpectedRevision)) throw error
    }
  }
}

/** The claims that the request has taken for a holder, and that no event relies on yet. */
function claimsFor(context: CommandContext, holder: string): Map<string, () => boolean> {
  context.claims ??= new Map()
  const known = context.claims.get(holder) ?? new Map<string, () => boolean>()
  context.claims.set(holder, known)
  return known
}

const isTakenInTime = ({ claims }: CommandContext, { key, holder }: Claim): boolean =>
  claims?.get(holder)?.get(key)?.() === false

/** The holder of a key now. Serves to refuse a request before it takes a number; only `takeClaim` decides. */
export async function claimHolder(
  services: WriteServices,
  claim: Pick<Claim, 'key' | 'stillHolds'>,
): Promise<string | undefined> {
  const last = await lastClaim(services, claimStream(claim.key))
  return last.holder === undefined || (await isGivenUp(services, claim, last)) ? undefined : last.holder
}

/** The last event of a claim; `holder`: who has the key since then, if anybody. */
interface LastClaim {
  holder: string | undefined
  /** For how long this process has known it. */
  ageMs: number
  revision: number | 'no-stream'
  position: Position
  node: string | undefined
}

async function isGivenUp(
  services: WriteServices,
  claim: Pick<Claim, 'stillHolds'>,
  { holder, ageMs, position, node }: LastClaim,
): Promise<boolean> {
  if (holder === undefined) return true
  const isOfEnded = services.writeState.claimAges.isOfEndedProcess({ position, node })
  return (ageMs >= GRACE_MS || isOfEnded) && !(await claim.stillHolds(holder))
}

/**
 * Releases a key. Does nothing when the holder does not have it, or needs it: `isNeeded` is asked after the claim was read, so
 * a holder that takes the key again after the answer keeps it.
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
    await appendMade(services, context, release)
  } catch (error) {
    // Another holder took the key over in between: this one has nothing to release.
    if (!(error instanceof WrongExpectedRevision)) throw error
  }
}

/**
 * The append that releases a key, for who makes it together with others; undefined when the holder does not have the
 * key.
 */
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

/** True when the holder exists and has given up the key, or when its stream can never be written now. */
async function closeUnwritten(
  services: WriteServices,
  context: CommandContext,
  { key, stillHolds }: Claim,
  holder: string,
): Promise<boolean> {
  // It may have come to be since it was asked.
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
