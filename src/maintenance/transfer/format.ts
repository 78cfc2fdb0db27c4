/**
 * The files of an export below `data/`, beside `git/` and `attachments/`:
 *
 * log.ndjson a line for each event, in the order of the log secrets.ndjson a line for each hash of a password or token
 * processes.ndjson a line for each process: the last event to which it has reacted
 *
 * Positions are those of the exported log. An import gives the events new ones.
 */
import { type Static, Type } from 'typebox'
import { secretCollections } from '../../auth/secrets.ts'
import type { RecordedEvent } from '../../events/store/event-store.ts'
import { PROCESSES } from '../../processes/process-manager.ts'
import { checkOf } from '../../storage/checked-json.ts'

export const LOG = 'log.ndjson'
export const SECRETS = 'secrets.ndjson'
export const PROCESS_POSITIONS = 'processes.ndjson'

const Count = Type.Integer({ minimum: 0 })
const Name = Type.String({ minLength: 1 })

const Event = Type.Object({
  position: Count,
  stream: Name,
  revision: Count,
  id: Name,
  type: Name,
  data: Type.Object({}),
  metadata: Type.Object({
    actor: Type.Union([Type.Object({ id: Type.Integer(), login: Type.String() }), Type.Null()]),
    at: Type.String(),
    correlationId: Type.String(),
    causationId: Type.String(),
    schema: Type.Integer(),
    node: Type.Optional(Type.String()),
    request: Type.Optional(Type.String()),
    previous: Type.Optional(Type.Union([Type.String(), Type.Null()])),
    hash: Type.Optional(Type.String()),
  }),
})
const Secret = Type.Object({
  collection: Type.Enum(secretCollections.map(({ name }) => name)),
  id: Name,
  body: Type.Object({}),
})
const ProcessPosition = Type.Object({
  process: Type.Enum([...PROCESSES]),
  position: Count,
})

export type EventLine = Static<typeof Event>
export type SecretLine = Static<typeof Secret>
export type ProcessLine = Static<typeof ProcessPosition>

export const isEvent = checkOf(Event)
export const isSecret = checkOf(Secret)
export const isProcessPosition = checkOf(ProcessPosition)

/** An event as its line has it. */
export const eventLine = ({ position, stream, revision, id, type, data, metadata }: RecordedEvent) => ({
  position,
  stream,
  revision,
  id,
  type,
  data,
  metadata,
})
