/** Converts messages of EventStoreDB's protocol to the double's types and back. */
import sharedPb from '@eventstore/db-client/generated/shared_pb.js'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import { Metadata, type StatusObject, status } from '@grpc/grpc-js'
import { StoreUnavailable, WrongExpectedRevision } from '../../../src/events/store/event-store.ts'
import { AccessDenied, NotLeader, NotReady, Unauthenticated } from './admission.ts'
import { NotARecord } from './positions.ts'
import {
  AppendTooLarge,
  ConsumerTooSlow,
  MAX_APPEND_SIZE,
  NotSupported,
  type RecordedServerEvent,
  type ServerEvent,
  StreamDeleted,
} from './streams.ts'

/** The revision of a tombstone: the largest one. */
const DELETED_REVISION = '9223372036854775807'

const UUID_TEXT = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The request is not valid. */
export class InvalidArgument extends Error {
  override readonly name = 'InvalidArgument'
}

export function streamName(identifier: sharedPb.StreamIdentifier | undefined): string {
  const name = Buffer.from(identifier?.getStreamName_asU8() ?? []).toString()
  if (name === '') throw new InvalidArgument('the stream identifier is missing')
  return name
}

export function toStreamIdentifier(name: string): sharedPb.StreamIdentifier {
  return new sharedPb.StreamIdentifier().setStreamName(Buffer.from(name))
}

export function fromUuid(uuid: sharedPb.UUID | undefined): string {
  const structured = uuid?.getStructured()
  if (structured === undefined) {
    const text = uuid?.getString() ?? ''
    if (!UUID_TEXT.test(text)) throw new InvalidArgument(`"${text}" is not a UUID`)
    return text.toLowerCase()
  }
  const bits = [structured.getMostSignificantBits(), structured.getLeastSignificantBits()]
  const hex = bits.map((half) => BigInt.asUintN(64, BigInt(half)).toString(16).padStart(16, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}

export function toUuid(id: string, structured: boolean): sharedPb.UUID {
  const uuid = new sharedPb.UUID()
  if (!structured) return uuid.setString(id)
  const hex = id.replaceAll('-', '')
  const half = (digits: string) => BigInt.asIntN(64, BigInt(`0x${digits}`)).toString()
  const value = new sharedPb.UUID.Structured()
  value.setMostSignificantBits(half(hex.slice(0, 16)))
  value.setLeastSignificantBits(half(hex.slice(16)))
  return uuid.setStructured(value)
}

/** Reads an unsigned 64-bit number. A number beyond the safe integers becomes the largest safe integer. */
export function fromUint64(value: string): number {
  return Math.min(Number(value), Number.MAX_SAFE_INTEGER)
}

export function toServerEvent(
  message: streamsPb.AppendReq.ProposedMessage | streamsPb.BatchAppendReq.ProposedMessage,
): ServerEvent {
  const properties = message.getMetadataMap()
  const type = properties.get('type')
  const contentType = properties.get('content-type')
  if (!type || !contentType)
    throw new InvalidArgument('an event needs the metadata "type" and "content-type"')
  return {
    id: fromUuid(message.getId()),
    type,
    contentType,
    data: Buffer.from(message.getData_asU8()),
    metadata: Buffer.from(message.getCustomMetadata_asU8()),
  }
}

export function toReadEvent(
  event: RecordedServerEvent,
  { structured, ofAll }: { structured: boolean; ofAll: boolean },
): streamsPb.ReadResp {
  const position = String(event.position)
  const recorded = new streamsPb.ReadResp.ReadEvent.RecordedEvent()
  recorded.setId(toUuid(event.id, structured))
  recorded.setStreamIdentifier(toStreamIdentifier(event.stream))
  recorded.setStreamRevision(event.type === '$streamDeleted' ? DELETED_REVISION : String(event.revision))
  recorded.setCommitPosition(position)
  recorded.setPreparePosition(position)
  recorded.setData(event.data)
  recorded.setCustomMetadata(event.metadata)
  const properties = recorded.getMetadataMap()
  properties.set('type', event.type)
  properties.set('content-type', event.contentType)
  // .NET's ticks of 100 ns since 1970.
  properties.set('created', String(BigInt(Date.parse(event.created)) * 10_000n))
  const read = new streamsPb.ReadResp.ReadEvent().setEvent(recorded)
  if (ofAll) read.setCommitPosition(position)
  else read.setNoPosition(new sharedPb.Empty())
  return new streamsPb.ReadResp().setEvent(read)
}

/** The gRPC status of a real server for an error, with the trailers that clients read. */
export function toStatus(error: unknown): Partial<StatusObject> {
  const details = error instanceof Error ? error.message : String(error)
  if (error instanceof StreamDeleted) {
    return trailing(status.FAILED_PRECONDITION, details, {
      exception: 'stream-deleted',
      'stream-name': error.stream,
    })
  }
  if (error instanceof WrongExpectedRevision) {
    return trailing(status.FAILED_PRECONDITION, details, {
      exception: 'wrong-expected-version',
      'stream-name': error.stream,
      'expected-version': String(legacyRevision(error.expected)),
      ...(error.actual === null ? {} : { 'actual-version': String(error.actual) }),
    })
  }
  if (error instanceof AppendTooLarge) {
    return trailing(status.INVALID_ARGUMENT, details, {
      exception: 'maximum-append-size-exceeded',
      'maximum-append-size': String(MAX_APPEND_SIZE),
    })
  }
  if (error instanceof AccessDenied) {
    return trailing(status.PERMISSION_DENIED, details, { exception: 'access-denied' })
  }
  if (error instanceof Unauthenticated) return { code: status.UNAUTHENTICATED, details }
  if (error instanceof NotLeader) {
    return trailing(status.NOT_FOUND, details, {
      exception: 'not-leader',
      'leader-endpoint-host': error.leader.host,
      'leader-endpoint-port': String(error.leader.port),
    })
  }
  if (error instanceof NotReady) return { code: status.UNAVAILABLE, details }
  // A real server's message for a read from such a position. Subscriptions get another one.
  if (error instanceof NotARecord) return { code: status.UNKNOWN, details: 'Unexpected ReadAllResult: Error' }
  if (error instanceof ConsumerTooSlow) return { code: status.ABORTED, details }
  if (error instanceof InvalidArgument) return { code: status.INVALID_ARGUMENT, details }
  if (error instanceof NotSupported) return { code: status.UNIMPLEMENTED, details }
  if (error instanceof StoreUnavailable) return { code: status.UNAVAILABLE, details }
  return { code: status.UNKNOWN, details }
}

function trailing(code: status, details: string, trailers: Record<string, string>): Partial<StatusObject> {
  const metadata = new Metadata()
  // Trailers must be ASCII, but stream names can have other characters.
  for (const [key, value] of Object.entries(trailers))
    metadata.set(key, value.replace(/[^ -~]/gu, encodeURIComponent))
  return { code, details, metadata }
}

function legacyRevision(expected: WrongExpectedRevision['expected']): number {
  switch (expected) {
    case 'no-stream':
      return -1
    case 'any':
      return -2
    case 'stream-exists':
      return -4
    default:
      return expected
  }
}
