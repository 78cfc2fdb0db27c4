/** Numbers, unique names, and abandoned reservations. */
import { Type } from 'typebox'
import { type EventsOf, Text } from './parts.ts'

/** `ids-<kind>` and `numbers-<repoId>`: the event's revision in its stream is the number that it takes. */
export const sequenceEvents = { NumberTaken: Type.Object({ sequence: Text }) }
export type SequenceEvent = EventsOf<typeof sequenceEvents>

const Claim = Type.Object({ key: Text, holder: Text })

/** `claim-<kind>-<key>`: the holder of a name that must be unique. */
export const claimEvents = { ClaimTaken: Claim, ClaimReleased: Claim }
export type ClaimEvent = EventsOf<typeof claimEvents>

/** First event in the stream of a resource that got its name and number but was never created. */
export const abandonedEvents = { CreationAbandoned: Type.Object({ key: Text }) }
export type AbandonedEvent = EventsOf<typeof abandonedEvents>
