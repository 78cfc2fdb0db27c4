/** The method Read of the Streams service: reads and subscriptions, of one stream and of $all. */
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import type { handleServerStreamingCall, ServerWritableStream } from '@grpc/grpc-js'
import { type EventStore, LOG_START } from '../../../src/events/event-store.ts'
import {
  NotSupported,
  type RecordedServerEvent,
  StreamDeleted,
  type Streams,
  toServerEvent,
} from './streams.ts'
import { fromUint64, InvalidArgument, streamName, toReadEvent, toStatus, toStreamIdentifier } from './wire.ts'

/** The default number of events between two checkpoints of a filtered read, as in EventStoreDB. */
const DEFAULT_WINDOW = 32

const MOST = Number.MAX_SAFE_INTEGER

type Call = ServerWritableStream<streamsPb.ReadReq, streamsPb.ReadResp>

interface Reading {
  store: EventStore
  streams: Streams
  options: streamsPb.ReadReq.Options
  signal: AbortSignal
  send(response: streamsPb.ReadResp): Promise<void>
  sendEvent(event: RecordedServerEvent): Promise<void>
}

/** `stopping` aborts when the server is closed, and ends the subscriptions. */
export function read(
  store: EventStore,
  streams: Streams,
  stopping: AbortSignal,
): handleServerStreamingCall<streamsPb.ReadReq, streamsPb.ReadResp> {
  return async (call) => {
    const gone = new AbortController()
    call.on('cancelled', () => gone.abort())
    call.on('close', () => gone.abort())
    const signal = AbortSignal.any([gone.signal, stopping])
    try {
      const options = call.request.getOptions()
      if (options === undefined) throw new InvalidArgument('the options of the read are missing')
      const how = { structured: options.getUuidOption()?.hasStructured() ?? false, ofAll: options.hasAll() }
      const send = (response: streamsPb.ReadResp) => sendSlowly(call, response, signal)
      const sendEvent = (event: RecordedServerEvent) => {
        if (event.type === '$>' && options.getResolveLinks()) throw new NotSupported('resolving links')
        return send(toReadEvent(event, how))
      }
      await answer({ store, streams, options, signal, send, sendEvent })
      call.end()
    } catch (error) {
      if (!signal.aborted) call.emit('error', toStatus(error))
    }
  }
}

/** Sends events no faster than the client reads them. */
async function sendSlowly(call: Call, response: streamsPb.ReadResp, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  if (!call.write(response)) await once(call, 'drain', { signal })
}

function answer(reading: Reading): Promise<void> {
  const { options } = reading
  if (options.hasSubscription()) {
    return options.hasAll() ? subscribeToAll(reading) : subscribeToStream(reading)
  }
  return options.hasAll() ? readAll(reading) : readStream(reading)
}

function backwards(options: streamsPb.ReadReq.Options): boolean {
  return options.getReadDirection() === streamsPb.ReadReq.Options.ReadDirection.BACKWARDS
}

async function readAll({ store, options, sendEvent }: Reading): Promise<void> {
  const all = options.getAll()
  const back = backwards(options)
  const position = fromUint64(all?.getPosition()?.getCommitPosition() ?? '0')
  // In EventStoreDB a forwards read begins with the event at the position, and a backwards read with the event before
  // it. The port leaves out the event at the position in both directions.
  const from = all?.hasEnd()
    ? MOST
    : all?.hasStart()
      ? LOG_START
      : back
        ? position
        : Math.max(position - 1, LOG_START)
  const matches = filterIn(options)
  let left = fromUint64(options.getCount())
  if (left === 0) return
  for await (const recorded of store.readAll({ from, direction: back ? 'backwards' : 'forwards' })) {
    const event = toServerEvent(recorded)
    if (!matches(event)) continue
    await sendEvent(event)
    left -= 1
    if (left === 0) return
  }
}

async function readStream({ store, streams, options, send, sendEvent }: Reading): Promise<void> {
  const stream = streamName(options.getStream()?.getStreamIdentifier())
  const { last, first, tombstoned, softDeleted } = await streams.state(stream)
  if (tombstoned) throw new StreamDeleted(stream)
  if (last === null || softDeleted) {
    const missing = new streamsPb.ReadResp.StreamNotFound().setStreamIdentifier(toStreamIdentifier(stream))
    await send(new streamsPb.ReadResp().setStreamNotFound(missing))
    return
  }
  const where = options.getStream()
  const back = backwards(options)
  const asked = where?.hasEnd() ? MOST : where?.hasStart() ? 0 : fromUint64(where?.getRevision() ?? '0')
  const from = back ? asked : Math.max(asked, first)
  const maxCount = fromUint64(options.getCount())
  for await (const recorded of store.readStream(stream, {
    from,
    maxCount,
    direction: back ? 'backwards' : 'forwards',
  })) {
    if (recorded.revision < first) break
    await sendEvent(toServerEvent(recorded))
  }
  if ((options.getControlOption()?.getCompatibility() ?? 0) < 1) return
  if (back) await send(new streamsPb.ReadResp().setFirstStreamPosition(String(first)))
  else await send(new streamsPb.ReadResp().setLastStreamPosition(String(last)))
}

function confirmation(): streamsPb.ReadResp {
  const confirmed = new streamsPb.ReadResp.SubscriptionConfirmation().setSubscriptionId(randomUUID())
  return new streamsPb.ReadResp().setConfirmation(confirmed)
}

function caughtUp(): streamsPb.ReadResp {
  return new streamsPb.ReadResp().setCaughtUp(new streamsPb.ReadResp.CaughtUp())
}

async function subscribeToAll({ store, options, signal, send, sendEvent }: Reading): Promise<void> {
  const all = options.getAll()
  const head = await store.lastPosition()
  const position = fromUint64(all?.getPosition()?.getCommitPosition() ?? '0')
  const after = all?.hasEnd() ? head : all?.hasStart() ? LOG_START : position
  const filter = options.getFilter()
  const matches = filterIn(options)
  const interval = (filter?.getCheckpointintervalmultiplier() || 1) * (filter?.getMax() || DEFAULT_WINDOW)
  let sinceCheckpoint = 0

  const checkpoint = async (at: number) => {
    sinceCheckpoint = 0
    const reached = new streamsPb.ReadResp.Checkpoint()
    reached.setCommitPosition(String(at)).setPreparePosition(String(at))
    await send(new streamsPb.ReadResp().setCheckpoint(reached))
  }

  await send(confirmation())
  let live = after >= head
  if (live) await send(caughtUp())
  for await (const batch of store.subscribe({ after, signal })) {
    for (const recorded of batch) {
      const event = toServerEvent(recorded)
      if (matches(event)) await sendEvent(event)
      sinceCheckpoint += 1
      if (filter !== undefined && sinceCheckpoint >= interval) await checkpoint(event.position)
      if (live || event.position < head) continue
      live = true
      if (filter !== undefined && sinceCheckpoint > 0) await checkpoint(event.position)
      await send(caughtUp())
    }
  }
}

async function subscribeToStream({
  store,
  streams,
  options,
  signal,
  send,
  sendEvent,
}: Reading): Promise<void> {
  const where = options.getStream()
  const stream = streamName(where?.getStreamIdentifier())
  // Get the position before the stream is read. Events that are appended meanwhile are then seen twice, not missed.
  const head = await store.lastPosition()
  const { last, first, tombstoned } = await streams.state(stream)
  if (tombstoned) throw new StreamDeleted(stream)
  const asked = where?.hasEnd()
    ? (last ?? -1)
    : where?.hasStart()
      ? -1
      : fromUint64(where?.getRevision() ?? '0')
  let seen = Math.max(asked, first - 1)
  await send(confirmation())
  for await (const recorded of store.readStream(stream, { from: seen + 1 })) {
    if (signal.aborted) return
    await sendEvent(toServerEvent(recorded))
    seen = recorded.revision
  }
  await send(caughtUp())
  for await (const batch of store.subscribe({ after: head, signal })) {
    for (const recorded of batch) {
      if (recorded.stream !== stream || recorded.revision <= seen) continue
      const event = toServerEvent(recorded)
      if (event.type === '$streamDeleted') throw new StreamDeleted(stream)
      await sendEvent(event)
      seen = recorded.revision
    }
  }
}

/** The filter of the request. Without a filter every event matches. */
function filterIn(options: streamsPb.ReadReq.Options): (event: RecordedServerEvent) => boolean {
  const filter = options.getFilter()
  if (filter === undefined) return () => true
  const byStream = filter.getStreamIdentifier()
  const expression = byStream ?? filter.getEventType()
  if (expression === undefined)
    throw new InvalidArgument('the filter needs a stream identifier or an event type')
  const regex = expression.getRegex() === '' ? undefined : regexOf(expression.getRegex())
  const prefixes = expression.getPrefixList()
  return (event) => {
    const subject = byStream === undefined ? event.type : event.stream
    return regex?.test(subject) ?? prefixes.some((prefix) => subject.startsWith(prefix))
  }
}

function regexOf(source: string): RegExp {
  try {
    return new RegExp(source, 'u')
  } catch (error) {
    throw new InvalidArgument(`the filter's regex: ${error instanceof Error ? error.message : error}`)
  }
}
