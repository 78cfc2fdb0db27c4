/**
 * Appends to EventStoreDB over one call that stays open (`BatchAppend`). A call per append costs this process and the
 * server several times as much. The driver's own such call has no deadlines, and one waiting list for all connections:
 * when one connection breaks, all appends fail, and late answers throw uncaught errors.
 */
import { randomUUID } from 'node:crypto'
import {
  AccessDeniedError,
  convertToCommandError,
  DeadlineExceededError,
  MaxAppendSizeExceededError,
  NotLeaderError,
  StreamDeletedError,
  UnavailableError,
} from '@eventstore/db-client'
import sharedPb from '@eventstore/db-client/generated/shared_pb.js'
import type statusPb from '@eventstore/db-client/generated/status_pb.js'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import emptyPb from 'google-protobuf/google/protobuf/empty_pb.js'
import { type EventText, WrongExpectedRevision } from '../event-store.ts'
import type { AppendCall, Client } from './client.ts'
import { withTimeout } from './errors.ts'

/** The place of an append; the server may confirm a repeated one without its position. */
export interface Confirmed {
  revision: bigint
  position: bigint | undefined
}

interface Waiter {
  resolve(response: streamsPb.BatchAppendResp): void
  reject(error: unknown): void
}

/** A call with its pending appends, by correlation id. */
interface Opened {
  client: Client
  call: AppendCall
  waiting: Map<string, Waiter>
  /** Reason of its end; undefined while it accepts appends. */
  ended: unknown
}

/**
 * `client`: returns the current client. `deadline`: time limit of an append, in milliseconds. `check` is called before
 * the first append of each connection, and may throw to prevent it.
 */
export function createAppends(client: () => Client, deadline: number, check: () => Promise<void>) {
  let current: { client: Client; opened: Promise<Opened> } | undefined

  /** Returns the open call, or opens one when it is missing or the client was replaced. */
  function open(): Promise<Opened> {
    const now = client()
    if (current?.client === now) return current.opened
    const opening = { client: now, opened: begin(now, check, ended) }
    function ended(): void {
      if (current === opening) current = undefined
    }
    opening.opened.catch(ended)
    current = opening
    return opening.opened
  }

  async function appendOnce(
    stream: string,
    events: readonly EventText[],
    expected: number | 'no-stream',
  ): Promise<Confirmed> {
    const opened = await open()
    const id = randomUUID()
    // On some failures the client looks for another node, as with its own commands.
    return opened.client.watched(async () => {
      if (opened.ended !== undefined) throw opened.ended
      const answered = new Promise<streamsPb.BatchAppendResp>((resolve, reject) => {
        opened.waiting.set(id, { resolve, reject })
        opened.call.write(toRequest(id, stream, events, expected))
      })
      try {
        return confirmedIn(await withTimeout(deadline, answered), stream, expected)
      } finally {
        opened.waiting.delete(id)
      }
    })
  }

  /**
   * Appends the events after exactly this revision, atomically.
   * @throws WrongExpectedRevision; errors of the driver
   */
  return async function append(
    ...given: [stream: string, events: readonly EventText[], expected: number | 'no-stream']
  ): Promise<Confirmed> {
    try {
      return await appendOnce(...given)
    } catch (error) {
      // The client connects to the leader that the answer names. The server deduplicates appends.
      if (!(error instanceof NotLeaderError)) throw error
      return await appendOnce(...given)
    }
  }
}

/** Opens a call. `ended` is called when it accepts no more appends. */
async function begin(client: Client, check: () => Promise<void>, ended: () => void): Promise<Opened> {
  const call = await client.openAppends()
  const opened: Opened = { client, call, waiting: new Map(), ended: undefined }
  const { waiting } = opened
  function end(error: unknown): void {
    opened.ended ??= error
    ended()
    // Each append may be in the log or not, as after any broken connection.
    for (const { reject } of waiting.values()) reject(error)
    waiting.clear()
  }
  call.on('data', (response: streamsPb.BatchAppendResp) => {
    waiting.get(response.getCorrelationId()?.getString() ?? '')?.resolve(response)
  })
  call.on('error', (error: Error) => end(convertToCommandError(error)))
  call.on('end', () => {
    end(new UnavailableError(undefined, 'the server accepts no more appends'))
    // Until our half also ends, the client keeps the call, and its `dispose` waits for it.
    call.end()
  })
  try {
    await check()
  } catch (error) {
    end(error)
    call.end()
    throw error
  }
  return opened
}

function toRequest(
  id: string,
  stream: string,
  events: readonly EventText[],
  expected: number | 'no-stream',
): streamsPb.BatchAppendReq {
  // No deadline: the server would compare it with its own clock. It has its own limit.
  const options = new streamsPb.BatchAppendReq.Options()
  options.setStreamIdentifier(new sharedPb.StreamIdentifier().setStreamName(Buffer.from(stream)))
  if (expected === 'no-stream') options.setNoStream(new emptyPb.Empty())
  else options.setStreamPosition(`${expected}`)
  const request = new streamsPb.BatchAppendReq()
  request.setCorrelationId(new sharedPb.UUID().setString(id))
  request.setOptions(options)
  request.setProposedMessagesList(events.map(toMessage))
  request.setIsFinal(true)
  return request
}

function toMessage({ id, type, data, metadata }: EventText): streamsPb.BatchAppendReq.ProposedMessage {
  const message = new streamsPb.BatchAppendReq.ProposedMessage()
  message.setId(new sharedPb.UUID().setString(id))
  message.getMetadataMap().set('type', type).set('content-type', 'application/json')
  message.setData(Buffer.from(data))
  message.setCustomMetadata(Buffer.from(metadata))
  return message
}

function confirmedIn(
  response: streamsPb.BatchAppendResp,
  stream: string,
  expected: number | 'no-stream',
): Confirmed {
  const success = response.getSuccess()
  if (success === undefined) throw failureIn(response.getError(), stream, expected)
  const position = success.getPosition()
  return {
    revision: BigInt(success.getCurrentRevision()),
    position: position && BigInt(position.getCommitPosition()),
  }
}

/** Converts the refusal of an append into the driver's error. */
function failureIn(
  status: statusPb.Status | undefined,
  stream: string,
  expected: number | 'no-stream',
): unknown {
  const details = status?.getDetails()
  const name = details?.getTypeName()
  switch (name) {
    case 'event_store.client.WrongExpectedVersion': {
      const wrong = details?.unpack(sharedPb.WrongExpectedVersion.deserializeBinary, name)
      const actual = wrong?.hasCurrentStreamRevision() ? Number(wrong.getCurrentStreamRevision()) : null
      return new WrongExpectedRevision(stream, expected, actual)
    }
    case 'event_store.client.MaximumAppendSizeExceeded': {
      const exceeded = details?.unpack(sharedPb.MaximumAppendSizeExceeded.deserializeBinary, name)
      return MaxAppendSizeExceededError.fromMaxAppendSize(exceeded?.getMaxappendsize() ?? 0)
    }
    case 'event_store.client.StreamDeleted':
      return StreamDeletedError.fromStreamName(stream)
    case 'event_store.client.AccessDenied':
      return new AccessDeniedError()
    case 'event_store.client.Timeout':
      return new DeadlineExceededError(undefined, 'the server could not commit the append in time')
    case 'google.protobuf.Empty':
      // The node is starting, is too busy, or knows no leader.
      return new UnavailableError(undefined, status?.getMessage())
    default:
      return new Error(`EventStoreDB refused an append: ${status?.getMessage()}`)
  }
}
