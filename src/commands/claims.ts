/**
 * Uniqueness as a claim: an append to a stream named by the key, with an expected revision. No read-model
 * look-up ever decides who has a name.
 *
 * A claim is taken before its holder is made and released when the holder gives it up. A process that
 * dies in between leaves a claim whose holder does not hold it: after a grace period the next one who
 * wants the key takes it over, and closes the holder's stream first if it was never written, so that a
 * very slow first writer can't come back and make a second holder.
 */
import { decode } from '../events/codec.ts'
import { type EventStore, WrongExpectedRevision } from '../events/event-store.ts'
import { claimStream } from '../events/streams.ts'
import { append, type CommandContext } from './execute.ts'

/** Longer than any request lives: a younger claim may still be on its way to its holder. */
const GRACE_MS = 60_000

/** What became of an attempt to claim: the key is ours, or another stream has it. */
type ClaimResult = { taken: true } | { taken: false; holder: string }

export interface Claim {
  key: string
  /** Stream of the aggregate that is to hold the key. */
  holder: string
  /** Whether the aggregate in that stream holds the key now; asked only about a claim past its grace. */
  stillHolds(holder: string): Promise<boolean>
}

/** Takes a key for a holder. Taking what one has already succeeds and changes nothing. */
export async function takeClaim(
  store: EventStore,
  context: CommandContext,
  claim: Claim,
): Promise<ClaimResult> {
  const { key, holder } = claim
  const stream = claimStream(key)
  for (;;) {
    const last = await lastClaim(store, stream)
    const current = last?.event.type === 'ClaimTaken' ? last.event.data.holder : undefined
    if (current === holder) return { taken: true }
    if (current !== undefined) {
      const given = await isGivenUp(context, claim, last?.event.metadata.at ?? context.at, current)
      if (!given || !(await closeUnwritten(store, context, key, current)))
        return { taken: false, holder: current }
    }
    try {
      const taken = { type: 'ClaimTaken', data: { key, holder } } as const
      const revision = last?.event.revision ?? 'no-stream'
      // A retried request may take a key again that was given back meanwhile: that is another event.
      await append(store, context, stream, `take ${holder} after ${revision}`, [taken], revision)
      return { taken: true }
    } catch (error) {
      // Somebody else moved the claim meanwhile: look again who has it.
      if (!(error instanceof WrongExpectedRevision)) throw error
    }
  }
}

/** Who has a key now, so that a request can be refused before it takes a number; only `takeClaim` decides. */
export async function claimHolder(
  store: EventStore,
  context: CommandContext,
  claim: Pick<Claim, 'key' | 'stillHolds'>,
): Promise<string | undefined> {
  const last = await lastClaim(store, claimStream(claim.key))
  if (last?.event.type !== 'ClaimTaken') return undefined
  const { holder } = last.event.data
  return (await isGivenUp(context, claim, last.event.metadata.at, holder)) ? undefined : holder
}

async function isGivenUp(
  context: CommandContext,
  claim: Pick<Claim, 'stillHolds'>,
  takenAt: string,
  holder: string,
): Promise<boolean> {
  return Date.parse(context.at) - Date.parse(takenAt) >= GRACE_MS && !(await claim.stillHolds(holder))
}

/** Gives a key back. Does nothing when the holder does not have it. */
export async function releaseClaim(
  store: EventStore,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<void> {
  const stream = claimStream(key)
  const last = await lastClaim(store, stream)
  if (last?.event.type !== 'ClaimTaken' || last.event.data.holder !== holder) return
  try {
    const released = { type: 'ClaimReleased', data: { key, holder } } as const
    const { revision } = last.event
    await append(store, context, stream, `release ${holder} after ${revision}`, [released], revision)
  } catch (error) {
    // Taken over meanwhile: then it is no longer ours to release.
    if (!(error instanceof WrongExpectedRevision)) throw error
  }
}

async function lastClaim(store: EventStore, stream: string) {
  for await (const recorded of store.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
    const event = decode(recorded)
    if (event.type === 'ClaimTaken' || event.type === 'ClaimReleased') return { event }
  }
  return undefined
}

/** True when the holder exists (it has given the key up), or can never be written any more. */
async function closeUnwritten(
  store: EventStore,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<boolean> {
  for await (const _ of store.readStream(holder, { maxCount: 1 })) return true
  try {
    const abandoned = { type: 'CreationAbandoned', data: { key } } as const
    await append(store, context, holder, 'abandon', [abandoned], 'no-stream')
    return true
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error
    return false
  }
}
