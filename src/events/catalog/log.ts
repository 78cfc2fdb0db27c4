/** Signed checkpoints of the log itself, in the stream `log-checkpoints`. */
import { Type } from 'typebox'
import { type EventsOf, Text, Whole } from './parts.ts'

export const logEvents = {
  LogCheckpointSigned: Type.Object({
    /** Number of events that the checkpoint covers: the first ones of the log. */
    size: Whole,
    /** Root hash of the Merkle tree over them, in base64. */
    root: Text,
    /** The signed note of C2SP: name of the log, size, root and signature. */
    note: Text,
  }),
}
export type LogEvent = EventsOf<typeof logEvents>
