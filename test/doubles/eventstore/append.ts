/** The methods Append, BatchAppend, Delete and Tombstone of the Streams service. */
import codePb from '@eventstore/db-client/generated/code_pb.js'
import sharedPb from '@eventstore/db-client/generated/shared_pb.js'
import statusPb from '@eventstore/db-client/generated/status_pb.js'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import type { handleBidiStreamingCall, handleClientStreamingCall, handleUnaryCall } from '@grpc/grpc-js'
import anyPb from 'google-protobuf/google/protobuf/any_pb.js'
import emptyPb from 'google-protobuf/google/protobuf/empty_pb.js'
import {
  type Appended,
  type ExpectedRevision,
  WrongExpectedRevision,
} from '../../../src/events/store/event-store.ts'
import { AccessDenied, type Gate } from './admission.ts'
import {
  AppendTooLarge,
  MAX_APPEND_SIZE,
  type ServerEvent,
  StreamDeleted,
  type Streams,
  sizeOf,
} from './streams.ts'
import { fromUint64, fromUuid, InvalidArgument, streamName, toServerEvent, toStatus, toUuid } from './wire.ts'

interface ExpectedInRequest {
  hasNoStream(): boolean
  hasAny(): boolean
  hasStreamExists(): boolean
}

function expectedIn(options: ExpectedInRequest, revision: string | undefined): ExpectedRevision {
  if (revision !== undefined) return fromUint64(revision)
  if (options.hasNoStream()) return 'no-stream'
  if (options.hasAny()) return 'any'
  if (options.hasStreamExists()) return 'stream-exists'
  throw new InvalidArgument('the expected revision is missing')
}

/** Collects the parts of a request. @throws AppendTooLarge when they exceed the limit of an append */
function collector() {
  const events: ServerEvent[] = []
  let size = 0
  return {
    events,
    add(event: ServerEvent): void {
      size += sizeOf(event)
      if (size <= 2 * MAX_APPEND_SIZE) events.push(event)
    },
    check(): void {
      if (size > MAX_APPEND_SIZE)
        throw new AppendTooLarge(`the append is larger than ${MAX_APPEND_SIZE} bytes`)
    },
  }
}

export function append(
  streams: Streams,
  gate: Gate,
): handleClientStreamingCall<streamsPb.AppendReq, streamsPb.AppendResp> {
  return async (call, callback) => {
    try {
      const collected = collector()
      let options: streamsPb.AppendReq.Options | undefined
      for await (const request of call) {
        if (!(request instanceof streamsPb.AppendReq)) continue
        if (options === undefined) {
          options = request.getOptions()
          gate.admit(call.metadata, 'write', streamName(options?.getStreamIdentifier()))
        }
        const message = request.getProposedMessage()
        if (message !== undefined) collected.add(toServerEvent(message))
      }
      if (options === undefined) throw new InvalidArgument('the options of the append are missing')
      collected.check()
      const stream = streamName(options.getStreamIdentifier())
      const expected = expectedIn(options, options.hasRevision() ? options.getRevision() : undefined)
      try {
        callback(null, appendSucceeded(await streams.append(stream, collected.events, expected)))
      } catch (error) {
        if (!(error instanceof WrongExpectedRevision)) throw error
        callback(null, appendRefused(error))
      }
    } catch (error) {
      callback(toStatus(error))
    }
  }
}

function appendSucceeded({ revision, position }: Appended): streamsPb.AppendResp {
  const at = new streamsPb.AppendResp.Position()
  at.setCommitPosition(String(position)).setPreparePosition(String(position))
  const success = new streamsPb.AppendResp.Success().setCurrentRevision(String(revision)).setPosition(at)
  return new streamsPb.AppendResp().setSuccess(success)
}

function appendRefused({ expected, actual }: WrongExpectedRevision): streamsPb.AppendResp {
  const wrong = new streamsPb.AppendResp.WrongExpectedVersion()
  const empty = new sharedPb.Empty()
  if (actual === null) wrong.setCurrentNoStream(empty)
  else wrong.setCurrentRevision(String(actual))
  if (expected === 'any') wrong.setExpectedAny(empty)
  else if (expected === 'no-stream') wrong.setExpectedNoStream(empty)
  else if (expected === 'stream-exists') wrong.setExpectedStreamExists(empty)
  else wrong.setExpectedRevision(String(expected))
  return new streamsPb.AppendResp().setWrongExpectedVersion(wrong)
}

export function batchAppend(
  streams: Streams,
  gate: Gate,
): handleBidiStreamingCall<streamsPb.BatchAppendReq, streamsPb.BatchAppendResp> {
  return async (call) => {
    const unfinished = new Map<string, Batch>()
    const running = new Set<Promise<void>>()

    async function answer(id: string, { options, collected }: Batch): Promise<void> {
      const response = new streamsPb.BatchAppendResp().setCorrelationId(toUuid(id, false))
      response.setStreamIdentifier(options.getStreamIdentifier())
      try {
        const deadline = options.getDeadline()?.toDate().getTime() ?? Number.POSITIVE_INFINITY
        const stream = streamName(options.getStreamIdentifier())
        gate.admit(call.metadata, 'write', stream)
        const revision = options.hasStreamPosition() ? options.getStreamPosition() : undefined
        const expected = expectedIn(options, revision)
        echoExpected(response, expected)
        if (deadline < Date.now()) {
          response.setError(failure(codePb.Code.DEADLINE_EXCEEDED, 'Timeout', new sharedPb.Timeout()))
        } else {
          collected.check()
          response.setSuccess(batchSucceeded(await streams.append(stream, collected.events, expected)))
        }
      } catch (error) {
        const refused = batchRefused(error)
        if (refused === undefined) {
          call.emit('error', toStatus(error))
          return
        }
        response.setError(refused)
      }
      call.write(response)
    }

    try {
      for await (const request of call) {
        if (!(request instanceof streamsPb.BatchAppendReq)) continue
        const id = fromUuid(request.getCorrelationId())
        const options = request.getOptions()
        if (options !== undefined) unfinished.set(id, { options, collected: collector() })
        const batch = unfinished.get(id)
        if (batch === undefined) throw new InvalidArgument('the options of the batch are missing')
        for (const message of request.getProposedMessagesList()) batch.collected.add(toServerEvent(message))
        if (!request.getIsFinal()) continue
        unfinished.delete(id)
        const answering = answer(id, batch).finally(() => running.delete(answering))
        running.add(answering)
      }
      await Promise.all(running)
      call.end()
    } catch (error) {
      if (!call.cancelled) call.emit('error', toStatus(error))
    }
  }
}

interface Batch {
  options: streamsPb.BatchAppendReq.Options
  collected: ReturnType<typeof collector>
}

function echoExpected(response: streamsPb.BatchAppendResp, expected: ExpectedRevision): void {
  const empty = new emptyPb.Empty()
  if (expected === 'any') response.setAny(empty)
  else if (expected === 'no-stream') response.setNoStream(empty)
  else if (expected === 'stream-exists') response.setStreamExists(empty)
  else response.setStreamPosition(String(expected))
}

function batchSucceeded({ revision, position }: Appended): streamsPb.BatchAppendResp.Success {
  const at = new sharedPb.AllStreamPosition()
  at.setCommitPosition(String(position)).setPreparePosition(String(position))
  return new streamsPb.BatchAppendResp.Success().setCurrentRevision(String(revision)).setPosition(at)
}

/** The answer for a batch that failed, when the error does not concern the other batches. */
function batchRefused(error: unknown): statusPb.Status | undefined {
  if (error instanceof WrongExpectedRevision) {
    const { expected, actual } = error
    const empty = new emptyPb.Empty()
    const wrong = new sharedPb.WrongExpectedVersion()
    if (actual === null) wrong.setCurrentNoStream(empty)
    else wrong.setCurrentStreamRevision(String(actual))
    if (expected === 'any') wrong.setExpectedAny(empty)
    else if (expected === 'no-stream') wrong.setExpectedNoStream(empty)
    else if (expected === 'stream-exists') wrong.setExpectedStreamExists(empty)
    else wrong.setExpectedStreamPosition(String(expected))
    return failure(codePb.Code.ALREADY_EXISTS, 'WrongExpectedVersion', wrong)
  }
  if (error instanceof StreamDeleted) {
    return failure(codePb.Code.FAILED_PRECONDITION, 'StreamDeleted', new sharedPb.StreamDeleted())
  }
  if (error instanceof AccessDenied) {
    return failure(codePb.Code.PERMISSION_DENIED, 'AccessDenied', new sharedPb.AccessDenied())
  }
  if (error instanceof AppendTooLarge) {
    const tooLarge = new sharedPb.MaximumAppendSizeExceeded().setMaxappendsize(MAX_APPEND_SIZE)
    return failure(codePb.Code.INVALID_ARGUMENT, 'MaximumAppendSizeExceeded', tooLarge)
  }
  return undefined
}

function failure(
  code: codePb.Code,
  type: string,
  message: { serializeBinary(): Uint8Array },
): statusPb.Status {
  const details = new anyPb.Any()
  details.pack(message.serializeBinary(), `event_store.client.${type}`)
  return new statusPb.Status().setCode(code).setMessage(type).setDetails(details)
}

/** Delete: afterwards the stream reads as if it did not exist, and can be written again. */
export function softDelete(
  streams: Streams,
  gate: Gate,
): handleUnaryCall<streamsPb.DeleteReq, streamsPb.DeleteResp> {
  return async (call, callback) => {
    try {
      const [stream, expected] = target(call.request.getOptions())
      gate.admit(call.metadata, 'write', stream)
      const { position } = await streams.softDelete(stream, expected)
      const at = new streamsPb.DeleteResp.Position()
      at.setCommitPosition(String(position)).setPreparePosition(String(position))
      callback(null, new streamsPb.DeleteResp().setPosition(at))
    } catch (error) {
      callback(toStatus(error))
    }
  }
}

/** Tombstone: the stream cannot be read or written again. */
export function tombstone(
  streams: Streams,
  gate: Gate,
): handleUnaryCall<streamsPb.TombstoneReq, streamsPb.TombstoneResp> {
  return async (call, callback) => {
    try {
      const [stream, expected] = target(call.request.getOptions())
      gate.admit(call.metadata, 'write', stream)
      const { position } = await streams.tombstone(stream, expected)
      const at = new streamsPb.TombstoneResp.Position()
      at.setCommitPosition(String(position)).setPreparePosition(String(position))
      callback(null, new streamsPb.TombstoneResp().setPosition(at))
    } catch (error) {
      callback(toStatus(error))
    }
  }
}

function target(
  options: streamsPb.DeleteReq.Options | streamsPb.TombstoneReq.Options | undefined,
): [stream: string, expected: ExpectedRevision] {
  if (options === undefined) throw new InvalidArgument('the options are missing')
  const revision = options.hasRevision() ? options.getRevision() : undefined
  return [streamName(options.getStreamIdentifier()), expectedIn(options, revision)]
}
