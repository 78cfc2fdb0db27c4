/**
 * Uniqueness by claims: a claim is an append, with an expected revision, to a stream that is named by the key. A
 * lookup in a read model never decides who has a name.
 *
 * A claim is taken before its holder is created, and released when the holder gives up the key. A process that dies
 * in between leaves a claim whose holder does not have the key. After a grace period the next request for the key
 * takes the claim over. If the stream of the old holder was never written, it is closed first: otherwise a very slow
 * first writer could come back and become a second holder.
 */
import { decode } from '../events/codec.ts'
import { type EventStore, WrongExpectedRevision } from '../events/event-store.ts'
import { claimStream } from '../events/streams.ts'
import { append, type CommandContext } from './execute.ts'

/** Longer than any request takes: the holder of a younger claim may still be being created. */
const GRACE_MS = 60_000

/** The result of an attempt to claim: the holder has the key now, or another stream has it. */
type ClaimResult = { taken: true } | { taken: false; holder: string }

export interface Claim {
  key: string
  /** The stream of the aggregate that the key is for. */
  holder: string
  /** Whether the aggregate in that stream has the key now. Called only after the grace period of its claim. */
  stillHolds(holder: string): Promise<boolean>
}

/** Takes a key for a holder. When the holder has the key already, this succeeds and changes nothing. */
export async function takeClaim(
  store: EventStore,
  context: CommandContext,
  claim: Claim,
): Promise<ClaimResult> {
  const { key, holder } = claim
  const stream = claimStream(key)
  for (;;) {
    const { holder: current, at, revision } = await lastClaim(store, stream)
    if (current === holder) return { taken: true }
    if (current !== undefined) {
      const given = await isGivenUp(context, claim, at, current)
      if (!given || !(await closeUnwritten(store, context, key, current)))
        return { taken: false, holder: current }
    }
    try {
      const taken = { type: 'ClaimTaken', data: { key, holder } } as const
      // A retried request may take a key again that was released in between. So the step names the revision: it is
      // another event.
      await append(store, context, stream, `take ${holder} after ${revision}`, [taken], revision)
      return { taken: true }
    } catch (error) {
      // Another request changed the claim in between: read again who has it.
      if (!(error instanceof WrongExpectedRevision)) throw error
    }
  }
}

/** The holder of a key now. Serves to refuse a request before it takes a number; only `takeClaim` decides. */
export async function claimHolder(
  store: EventStore,
  context: CommandContext,
  claim: Pick<Claim, 'key' | 'stillHolds'>,
): Promise<string | undefined> {
  const { holder, at } = await lastClaim(store, claimStream(claim.key))
  return holder === undefined || (await isGivenUp(context, claim, at, holder)) ? undefined : holder
}

async function isGivenUp(
  context: CommandContext,
  claim: Pick<Claim, 'stillHolds'>,
  takenAt: string,
  holder: string,
): Promise<boolean> {
  return Date.parse(context.at) - Date.parse(takenAt) >= GRACE_MS && !(await claim.stillHolds(holder))
}

/** Releases a key. Does nothing when the holder does not have it. */
export async function releaseClaim(
  store: EventStore,
  context: CommandContext,
  key: string,
  holder: string,
): Promise<void> {
  const stream = claimStream(key)
  const { holder: current, revision } = await lastClaim(store, stream)
  if (current !== holder) return
  try {
    const released = { type: 'ClaimReleased', data: { key, holder } } as const
    await append(store, context, stream, `release ${holder} after ${revision}`, [released], revision)
  } catch (error) {
    // Another holder took the key over in between: this one has nothing to release.
    if (!(error instanceof WrongExpectedRevision)) throw error
  }
}

/** The last event of a claim: its revision, its time, and who has the key since then, if anybody. */
async function lastClaim(store: EventStore, stream: string) {
  for await (const recorded of store.readStream(stream, { direction: 'backwards', maxCount: 1 })) {
    const event = decode(recorded)
    const holder = event.type === 'ClaimTaken' ? event.data.holder : undefined
    return { holder, at: event.metadata.at, revision: event.revision }
  }
  return { holder: undefined, at: '', revision: 'no-stream' as const }
}

/** True when the holder exists (then it has given up the key), or when its stream can never be written now. */
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
